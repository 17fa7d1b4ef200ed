"""Every kind learns: a tiny model in which it stands trains for some tens of steps on running text and on the toy
translation. Afterwards its loss is below what knowing how frequent each token is would give, none of its weights
stands where it stood, it attends to what it is given, and decoding finds in it what a whole pass finds."""

import functools
import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from contracts.combining import READING, Combination, Value, every_value, forms_of, loss_of, repaired, slot_of
from torch import Tensor, nn

from headway.config import catalogue
from headway.config.schema import from_dict, make_part
from headway.data.toy import toy_corpus
from headway.decode import Hypothesis, Search, SpecialTokens, decode
from headway.decode.reference.model import ModelStepper
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.transformer import Transformer
from headway.text.lm_text import encode_text
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.objectives import Batch, Example
from headway.train.optimisers import set_learning_rate

ROWS, LONGEST, WIDTH, RATE = 8, 24, 32, 0.01
KINDS = [
    (slot, kind)
    for slot in ("position", "mask", "mixer", "feedforward", "linear", "residual", "norm")
    for kind in catalogue.kinds(slot)
]
PLAIN = Combination(
    ("both",), ("attention(4)",), ("sinusoidal",), ("full",), ("relu(48)",), ("pre",), ("dense",), ("layernorm",)
)


def decodes(slot: str, kind: str) -> bool:
    """Whether it can stand in a decoder: a mixer that hears the future refuses every mask that hides it, a position
    or a norm may need all of the text, and a mask more than one."""
    values = {"family": ("decoder",), "mask": ("causal",), slot: forms_of(slot, kind)[0]}
    refusal = PLAIN._replace(**values).refusal() if slot in ("mixer", "position", "mask", "norm") else None
    return refusal is None or slot_of(refusal) != ("mask" if slot == "mixer" else slot)


each_kind_beside_a_decoder = pytest.mark.parametrize(
    ("slot", "kind"), [one for one in KINDS if one[0] != "norm" or decodes(*one)]
)
each_decoding_kind = pytest.mark.parametrize(("slot", "kind"), [one for one in KINDS if decodes(*one)])


class Task(NamedTuple):
    tokenizer: Tokenizer
    batches: list[Batch]

    @property
    def frequencies(self) -> float:
        """The loss of whoever knows how frequent each label is, and nothing else."""
        labels = torch.cat([batch.labels[batch.labels != IGNORE_INDEX] for batch in self.batches])
        shares = labels.bincount().double() / len(labels)
        return -float((shares * shares.clamp(min=1e-12).log()).sum())

    @property
    def special(self) -> SpecialTokens:
        t = self.tokenizer
        return SpecialTokens(start=t.start, end=t.end, suppress=tuple(sorted(t.control_ids - {t.end})))


@functools.cache
def running_text() -> Task:
    text = "\n".join(pair.source for pair in toy_corpus(800))
    tokenizer = Tokenizer.train(text.split("\n"), "characters")
    ids, draw = encode_text(text, tokenizer), np.random.default_rng(1)
    starts = draw.integers(len(ids) - LONGEST - 1, size=(90, ROWS))
    return Task(
        tokenizer,
        [
            collated("causal", [Example(ids[:0], ids[start : start + LONGEST + 1]) for start in row], tokenizer)
            for row in starts
        ],
    )


@functools.cache
def toy() -> Task:
    pairs = toy_corpus(400)
    tokenizer = Tokenizer.train([side for pair in pairs for side in (pair.source, pair.target)], "bpe(size=384)")
    examples = [
        Example(np.array([*tokenizer.encode(pair.source), tokenizer.end]), np.array(tokenizer.encode(pair.target)))
        for pair in pairs
    ]
    short = [one for one in examples if max(len(one.source), len(one.target)) < LONGEST]
    chosen = np.random.default_rng(1).integers(len(short), size=(50, ROWS))
    return Task(tokenizer, [collated("translation", [short[index] for index in row], tokenizer) for row in chosen])


def collated(objective: str, examples: list[Example], tokenizer: Tokenizer) -> Batch:
    part: Any = make_part("objective", objective)
    batch: Batch = part.collate(examples, special_tokens(tokenizer), np.random.default_rng(1))
    return batch


def model_with(slot: str, kind: str, family: str, task: Task) -> Transformer:
    """The plain model with this kind in it, and with whatever else the kind asks for."""
    form = forms_of(slot, kind)[0]
    values = every_value()
    for where in (family, "listening", READING):  # some stand in decoders only, some in encoders only
        fixed: dict[str, Value] = {"family": (where,), slot: form}
        combination, works = repaired(PLAIN._replace(**fixed), fixed, values, random.Random(1))
        if works:
            break
    table = combination.table()["model"] | {"d_model": WIDTH, "vocabulary": task.tokenizer.size, "dropout": 0.0}
    table["embedding"] = {"tied": "none"}  # or what `post` carries to the end first says again what was read
    torch.manual_seed(1)
    return Transformer(from_dict(Transformer.Config, table))


def train(model: Transformer, task: Task, rate: float = RATE) -> list[float]:
    """The loss of each step."""
    optimisers = make_part("optimiser", "adam").build(model.train())  # type: ignore[attr-defined]
    losses = []
    for step, batch in enumerate(task.batches, start=1):
        set_learning_rate(optimisers, rate * min(1.0, step / 8))
        loss = loss_of(model, batch, 0.0)
        loss.backward()
        losses.append(float(loss.detach()))
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
    return losses


def learns(model: Transformer, task: Task, rate: float = RATE) -> None:
    before = {name: weights.detach().clone() for name, weights in model.named_parameters()}
    losses = train(model, task, rate)
    first, last = np.mean(losses[:3]), np.mean(losses[-5:])
    assert all(map(math.isfinite, losses))
    still = [name for name, weights in model.named_parameters() if torch.equal(weights, before[name])]
    assert not still, f"{', '.join(still)} did not move"
    assert first > 1.3 * last, f"the loss fell from {first:.3f} to {last:.3f} only"
    known = task.frequencies
    assert last < known - 0.1, f"{last:.3f} is no better than the frequencies, {known:.3f}"


@torch.no_grad()
def uses_its_context(model: Transformer) -> None:
    """What stood earlier, and what the source says, changes what comes next."""
    model.eval()
    ids, other = torch.randint(4, model.config.vocabulary or 0, (2, 4, 9))
    source, another = (ids, other) if "encoder" in model.config.sides else (None, None)
    hidden = model(source, ids).hidden[:, -1]
    earlier = torch.cat([other[:, :-1], ids[:, -1:]], 1)
    assert all_differ(model(source, earlier).hidden[:, -1], hidden), "earlier tokens change nothing"
    if source is not None:
        assert all_differ(model(another, ids).hidden[:, -1], hidden), "the source changes nothing"


def all_differ(one: Tensor, other: Tensor) -> bool:
    """Every row from its fellow: what has no influence changes not a bit."""
    return bool((one != other).any(1).all())


def agrees(model: Transformer, found: Hypothesis, special: SpecialTokens, source: Tensor | None = None) -> None:
    """What decoding says of its tokens, step by step through a state, is what one pass over all of them says."""
    with torch.no_grad():
        given = torch.tensor([[special.start, *found.ids]])
        logps = model.logits(model(source, given).hidden)[0].log_softmax(-1)
    output = [*found.ids, *([special.end] if found.finished else [])]
    expected = [float(logps[position, token]) for position, token in enumerate(output)][found.prefix :]
    assert found.token_logps == pytest.approx(expected, abs=1e-5)
    assert found.token_logps


@each_decoding_kind
def test_it_learns_running_text_and_writes_on(slot: str, kind: str) -> None:
    task = running_text()
    model = model_with(slot, kind, "decoder", task)
    learns(model, task)
    uses_its_context(model)
    prompts = [task.tokenizer.encode(text) for text in ("First ", "We are")]
    search = Search(beam_size=1, max_length=12)
    for (found,) in decode(ModelStepper(model), None, special_tokens=task.special, search=search, prefixes=prompts):
        agrees(model, found, task.special)


@each_kind_beside_a_decoder
def test_it_learns_to_translate_and_searches(slot: str, kind: str) -> None:
    task = toy()
    model = model_with(slot, kind, "both", task)
    learns(model, task)
    uses_its_context(model)
    batch = task.batches[0]
    assert batch.source is not None and batch.source_valid is not None
    source, valid = batch.source[:2], batch.source_valid[:2]
    rows = decode(
        ModelStepper(model),
        source,
        valid,
        special_tokens=task.special,
        search=Search(beam_size=2, n_best=2, max_length=2),
    )
    for row, hypotheses in enumerate(rows):
        assert len(hypotheses) == 2
        for found in hypotheses:
            agrees(model, found, task.special, source[row : row + 1, valid[row]])


def cut(module: nn.Module, arguments: Any, output: Tensor) -> Tensor:
    return output.detach()


def silent(module: nn.Module, arguments: Any, output: Tensor) -> Tensor:
    return output * 0


@pytest.mark.parametrize("broken", [cut, silent])
@pytest.mark.parametrize("part", ["self", "cross", "feedforward"])
def test_what_is_broken_is_found(part: str, broken: Callable[..., Tensor]) -> None:
    """Or the tests above would show nothing: a sub-layer without gradients, and one that says nothing."""
    model = model_with("mixer", "attention", "both", toy())
    model.stacks["decoder"].blocks[1].sublayers[part].register_forward_hook(broken)  # type: ignore[index, union-attr]
    with pytest.raises(AssertionError, match=rf"blocks\.1\.sublayers\.{part}.* did not move"):
        learns(model, toy())


@pytest.mark.parametrize(("rate", "message"), [(0.0, "did not move"), (0.0005, "the loss fell from")])
def test_what_learns_too_little_is_found(rate: float, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        learns(model_with("mixer", "attention", "both", toy()), toy(), rate)


def test_what_learns_only_frequencies_is_found() -> None:
    """Labels that have nothing to do with what is read."""
    task = Task(toy().tokenizer, [shuffled(batch) for batch in toy().batches])
    with pytest.raises(AssertionError, match="is no better than the frequencies"):
        learns(model_with("mixer", "attention", "both", task), task)


def shuffled(batch: Batch) -> Batch:
    labels, counts = batch.labels.clone(), batch.labels != IGNORE_INDEX
    labels[counts] = labels[counts][torch.randperm(int(counts.sum()))]
    return batch._replace(labels=labels)


def test_a_model_that_ignores_its_context_is_found() -> None:
    for part, message in (("self", "earlier tokens change nothing"), ("cross", "the source changes nothing")):
        model = model_with("mixer", "attention", "both", toy())
        for block in model.stacks["decoder"].blocks:  # type: ignore[union-attr]
            block.sublayers[part].register_forward_hook(silent)  # type: ignore[index, union-attr]
        with pytest.raises(AssertionError, match=message):
            uses_its_context(model)
