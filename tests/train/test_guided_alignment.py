"""Guided alignment: what one head is taught, and that nothing else is touched by it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headway.config.config import read_config
from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.context import ForwardReport
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.transformer import Transformer
from headway.text.align.words import CONTINUES_WORD, CONTROL, STARTS_WORD
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.guided_alignment import GuidedAlignment, alignment_loss
from headway.train.loss import batch_loss
from headway.train.objectives import Batch, Example

# Ids from 4 to 33 begin a word, those from 34 on go on with one.
ROLES = np.array([CONTROL] * 4 + [STARTS_WORD] * 30 + [CONTINUES_WORD] * 30, dtype=np.uint8)
SPECIAL = SpecialTokens(pad=0, start=1, end=2, mask=3, vocabulary=64, source_roles=ROLES, target_roles=ROLES)


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


def links(*pairs: tuple[int, int]) -> np.ndarray:
    return np.array(pairs, dtype=np.uint16).reshape(-1, 2)


EXAMPLES = [
    Example(ids(5, 35, 6, 7, 2), ids(8, 36, 9), links((0, 0), (2, 1), (1, 1))),  # words 5+35, 6, 7 and 8+36, 9
    Example(ids(3, 5, 2), ids(8), links((0, 0))),  # a tag before it
    Example(ids(5, 2), ids(8), links()),
    Example(ids(5, 2), ids(8)),
]


def collate(examples: list[Example], special: SpecialTokens = SPECIAL) -> Batch:
    batch = make_part("objective", "translation").collate(examples, special, np.random.default_rng(0))  # type: ignore[attr-defined]
    assert isinstance(batch, Batch)
    return batch


def model(layers: int = 3, heads: int = 2) -> Transformer:
    stack = {"layers": layers, "mixer": f"attention({heads})", "feedforward": "relu(16)"}
    config = Transformer.Config(d_model=8, vocabulary=64, dropout=0.0, encoder=stack, decoder=stack)  # type: ignore[arg-type]
    return Transformer(config).eval()


# ---- the batch


def test_a_batch_knows_which_source_tokens_say_what_is_read() -> None:
    """Every token of a target word with every token of the linked source words; none of start, end, tag or padding."""
    batch = collate(EXAMPLES)
    assert batch.alignment is not None and batch.source is not None and batch.inputs is not None
    assert batch.alignment.shape == (4, 4, 5) and batch.alignment.dtype == torch.bool
    assert batch.alignment[0].int().tolist() == [
        [0, 0, 0, 0, 0],  # start
        [1, 1, 0, 0, 0],  # 8: the word 5+35
        [1, 1, 0, 0, 0],  # 36: likewise
        [0, 0, 1, 1, 0],  # 9: the words 6 and 7
    ]
    assert batch.alignment[1].nonzero().tolist() == [[1, 1]]
    assert not batch.alignment[2:].any()


def test_without_links_a_batch_is_as_it_was() -> None:
    plain = [Example(example.source, example.target) for example in EXAMPLES]
    batch, guided = collate(plain, SpecialTokens(pad=0, start=1, end=2, mask=3, vocabulary=64)), collate(EXAMPLES)
    assert batch.alignment is None and batch.to(torch.device("cpu")).alignment is None
    assert batch.pad_to(8, 16).alignment is None
    for one, other in zip(batch[:5], guided[:5]):
        assert isinstance(one, torch.Tensor) and torch.equal(one, other)  # type: ignore[arg-type]
    assert batch[5:7] == guided[5:7]


def test_links_beyond_the_words_are_passed_over() -> None:
    batch = collate([Example(ids(5, 2), ids(8), links((0, 0), (7, 0), (0, 9)))])
    assert batch.alignment is not None and batch.alignment.nonzero().tolist() == [[0, 1, 0]]


def test_links_travel_and_are_shaped_with_their_batch() -> None:
    batch = collate(EXAMPLES)
    shaped = batch.to(torch.device("cpu")).pad_to(6, 16)
    assert shaped.alignment is not None and batch.alignment is not None
    assert shaped.source is not None and shaped.inputs is not None
    assert shaped.alignment.shape == (6, shaped.inputs.shape[1], shaped.source.shape[1]) == (6, 16, 16)
    assert torch.equal(shaped.alignment[:4, :4, :5], batch.alignment)
    assert shaped.alignment.sum() == batch.alignment.sum()


# ---- the loss


def test_the_loss_is_cross_entropy_with_an_even_share_for_each_linked_token() -> None:
    batch = collate(EXAMPLES)
    torch.manual_seed(1)
    weights = torch.rand(4, 4, 5).softmax(-1)
    w = weights.tolist()
    expected = 0.0
    for row, t, linked in ((0, 1, (0, 1)), (0, 2, (0, 1)), (0, 3, (2, 3)), (1, 1, (1,))):
        expected -= sum(math.log(w[row][t][s]) / len(linked) for s in linked)
    assert float(alignment_loss(weights, batch)) == pytest.approx(expected, rel=1e-4)


def test_rows_that_are_not_labelled_are_not_taught() -> None:
    """As in a process that has nothing to do in a step, and must still take part."""
    batch = collate(EXAMPLES)
    empty = batch._replace(labels=torch.full_like(batch.labels, IGNORE_INDEX), label_count=0)
    weights = torch.full((4, 4, 5), 0.2, requires_grad=True)
    loss = alignment_loss(weights, empty)
    loss.backward()
    assert float(loss.detach()) == 0 and weights.grad is not None and not weights.grad.any()


def test_a_head_that_looks_nowhere_gives_numbers() -> None:
    """Padding rows of a shaped batch have no source at all, so all their weights are 0."""
    batch = collate(EXAMPLES).pad_to(6, 8)
    weights = torch.zeros(6, 8, 8, requires_grad=True)
    loss = alignment_loss(weights, batch)
    loss.backward()
    assert loss.isfinite() and weights.grad is not None and weights.grad.isfinite().all()


def test_the_gradient_reaches_one_head_and_what_lies_below_it() -> None:
    """Queries and keys of head 2 in layer 2 of 3; no values, no outputs, no other head, nothing above."""
    network, batch = model(), collate(EXAMPLES)
    guide = make_part("alignment", "guided(layer=2, head=2)")
    assert isinstance(guide, GuidedAlignment.Config)
    report = ForwardReport(capture=frozenset([guide.weights_name(network.config)]))
    network(batch.source, batch.inputs, batch.source_valid, batch.inputs_valid, report)
    alignment_loss(report.captured[guide.weights_name(network.config)][:, guide.head - 1], batch).backward()
    reached = {name for name, weight in network.named_parameters() if weight.grad is not None and weight.grad.any()}
    cross = "stacks.decoder.blocks.1.sublayers.cross"
    for part in ("query", "key"):
        weight = dict(network.named_parameters())[f"{cross}.{part}.weight"].grad
        assert weight is not None and not weight[:4].any() and weight[4:].any()
    assert not any(name.startswith((f"{cross}.value", f"{cross}.output")) for name in reached)
    assert not any(name.startswith("stacks.decoder.blocks.2") for name in reached)
    assert not any("blocks.1.sublayers.feedforward" in name for name in reached if "decoder" in name)
    assert any(name.startswith("stacks.decoder.blocks.0") for name in reached)
    assert any(name.startswith("stacks.encoder.blocks.2") for name in reached)


def test_the_whole_loss_has_its_share_of_it() -> None:
    network, batch = model(layers=1), collate(EXAMPLES)
    guide = make_part("alignment", "guided(weight=0.5)")
    report = ForwardReport(capture=frozenset(["decoder.0.cross.weights"]))
    network(batch.source, batch.inputs, batch.source_valid, batch.inputs_valid, report)
    taught = alignment_loss(report.captured["decoder.0.cross.weights"][:, 0], batch)
    alone = batch_loss(network, batch._replace(alignment=None), 0.1).loss
    both = batch_loss(network, batch, 0.1, guide).loss
    torch.testing.assert_close(both, alone + 0.5 * taught)


def test_a_head_learns_what_it_is_taught() -> None:
    """Word n of the target comes from word 3 - n of the source: the other way round, by one head alone."""
    random = np.random.default_rng(0)
    order = links(*((3 - n, n) for n in range(4)))
    network, guide = model(layers=1), GuidedAlignment.Config()
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(60):
        words = random.integers(4, 34, (16, 4))
        batch = collate([Example(np.append(row, 2), row[::-1], order) for row in words])
        report = ForwardReport(capture=frozenset([guide.weights_name(network.config)]))
        network(batch.source, batch.inputs, batch.source_valid, batch.inputs_valid, report)
        weights = report.captured[guide.weights_name(network.config)][:, 0]
        optimiser.zero_grad()
        alignment_loss(weights, batch).backward()
        optimiser.step()
    assert (weights[:, 1:].argmax(-1) == torch.tensor([3, 2, 1, 0])).float().mean() > 0.9


# ---- the setting


@pytest.mark.parametrize(("layers", "given", "index"), [(1, 0, 0), (2, 0, 0), (6, 0, 4), (6, 6, 5), (2, 1, 0)])
def test_the_layer_is_the_last_but_one_unless_it_is_given(layers: int, given: int, index: int) -> None:
    guide = GuidedAlignment.Config(layer=given)
    config = model(layers).config
    guide.check(config)
    assert guide.layer_index(config) == index
    assert guide.weights_name(config) == f"decoder.{index}.cross.weights"


@pytest.mark.parametrize(
    ("alignment", "message"),
    [
        (
            "guided(layer=4)",
            "train.alignment.layer: there is no layer 4: the decoder has layers 1 to 3. 0 means the last but",
        ),
        ("guided(head=3)", "train.alignment.head: there is no head 3: that layer has heads 1 to 2."),
        ("guided(weight=-1)", "train.alignment.weight: -1.0 is out of range"),
        ("guidance", '"guidance" is not a kind of alignment. Did you mean "guided"?'),
    ],
)
def test_what_is_not_there_is_refused(alignment: str, message: str) -> None:
    stack = {"layers": 3, "mixer": "attention(2)"}
    table = {"model": {"d_model": 8, "encoder": stack, "decoder": stack}, "train": {"alignment": alignment}}
    with pytest.raises(ConfigError) as error:
        read_config(table)
    assert message in str(error.value)


def test_a_model_with_one_side_is_refused() -> None:
    for side, objective in (("encoder", "causal"), ("decoder", "masked")):
        table = {"model": {side: {"layers": 0}}, "train": {"alignment": "guided", "objective": objective}}
        with pytest.raises(ConfigError, match='guided alignment needs an encoder and a decoder. Set it to "'):
            read_config(table)


def test_a_layer_without_weights_is_refused() -> None:
    decoder = SimpleNamespace(layers=2, tiled=lambda name: [SimpleNamespace(kind="retention")] * 2)
    config = SimpleNamespace(decoder=decoder, encoder=SimpleNamespace(layers=2))
    with pytest.raises(
        ConfigError, match='the cross mixer of that layer is "retention", which has no attention weights'
    ):
        GuidedAlignment.Config().check(config)  # type: ignore[arg-type]


def test_it_is_off_unless_asked_for_and_keeps_its_numbers() -> None:
    assert read_config({}).train.alignment.kind == "none"
    config = read_config({"train": {"alignment": "guided(0.1, 2, 3)"}})
    assert config.to_dict()["train"]["alignment"] == {"kind": "guided", "weight": 0.1, "layer": 2, "head": 3}
