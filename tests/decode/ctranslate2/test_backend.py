"""The ctranslate2 engine: what the plain loop finds, from the stored weights, without torch."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from headway.config.config import Config, read_config
from headway.config.search import Search
from headway.decode import Hypothesis, decode
from headway.decode.ctranslate2.backend import Ct2Engine
from headway.decode.ctranslate2.model import Ct2Model
from headway.decode.ctranslate2.weights import sinusoid_bytes
from headway.decode.padding import pad_rows
from headway.decode.reference.model import ModelStepper
from headway.decode.stored_config import UnsupportedModelError
from headway.errors import HeadwayError
from headway.nn.positions.positions import sinusoids as ours
from headway.nn.transformer import Transformer
from headway.storage.model_dir import load_model
from headway.storage.tensor_file import TensorFile
from headway.text.tokenizer.special_tokens import SpecialTokens

SPECIAL = SpecialTokens(start=1, end=2)
STACK = {"layers": 2, "mixer": "attention(4)", "feedforward": "relu(48)"}
Made = tuple[Transformer, Ct2Engine]

KNOWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # of both sides, of the model
    "the paper's": ({}, {}),
    "pre": ({"residual": "pre"}, {}),
    "gelu": ({"feedforward": "gelu(48)"}, {}),
    "gelu_tanh": ({"feedforward": "gelu_tanh(48)"}, {}),
    "silu": ({"feedforward": "silu(48)"}, {}),
    "swiglu": ({"feedforward": "swiglu(48)"}, {}),
    "geglu": ({"feedforward": "geglu(48)"}, {}),
    "geglu_tanh": ({"feedforward": "geglu_tanh(48)"}, {}),
    "swiglu with bias": ({"feedforward": "swiglu(48, bias=true)"}, {}),
    "rmsnorm": ({"residual": "pre"}, {"norm": "rmsnorm"}),
    "large eps": ({}, {"norm": "layernorm(0.1)"}),
    "large eps of rmsnorm": ({}, {"norm": "rmsnorm(0.1)"}),
    "three matrices of words": ({}, {"embedding": {"tied": "none"}}),
    "one matrix of words beside the output": ({}, {"embedding": {"tied": "inputs"}}),
    "two vocabularies": ({}, {"embedding": {"tied": "target"}, "source_vocabulary": 96}),
    "embedding without scale": ({}, {"embedding": {"scale": False}}),
    "embedding with norm": ({}, {"embedding": {"norm": True}}),
    "head with bias": ({}, {"head": "logits(true)"}),
    "learned positions": ({"position": "learned(256)"}, {}),
    "no positions": ({"position": "none"}, {}),
    "sines first": ({"position": "sinusoidal(500, 'halves')"}, {}),
    "one group": ({"mixer": "attention(4, 1)"}, {}),
    "two groups": ({"mixer": "attention(4, 2)"}, {}),
    "wide heads": ({"mixer": "attention(4, d_k=16)"}, {}),
    "no biases": ({"mixer": "attention(4, bias=false)", "feedforward": "relu(48, bias=false)"}, {}),
    "another scale": ({"mixer": "attention(4, scale=0.5)"}, {}),
    "odd width": ({}, {"d_model": 36}),
}
UNKNOWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "position rope is not supported": ({"position": "rope"}, {}),
    "mixer attention with qk_norm is not supported": ({"mixer": "attention(4, qk_norm='rmsnorm')"}, {}),
    "mixer attention with output_bias is not supported": ({"mixer": "attention(4, output_bias=false)"}, {}),
    "feedforward moe is not supported": ({"feedforward": "moe(4, 2)"}, {}),
    "d_v = 16 beside d_k = 8": ({"mixer": "attention(4, d_v=16)"}, {}),
    "residual deepnorm is not supported": ({"residual": "deepnorm"}, {}),
    "linear bitnet is not supported": ({}, {"linear": "bitnet"}),
    "norm none is not supported": ({}, {"norm": "none"}),
    "embedding.segments is not supported": ({}, {"embedding": {"segments": 2}}),
    "the settings of head logits are not": ({}, {"head": "logits(scale=0.5)"}),
    "heads that differ from layer to layer": ({"mixer": ["attention(4)", "attention(2)"]}, {}),
    "feed-forwards that differ": ({"feedforward": ["relu(48)", "gelu(48)"]}, {}),
}


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Made]:
    def made(
        both: dict[str, Any], model: dict[str, Any], special: SpecialTokens = SPECIAL, compute: Any = "float32"
    ) -> Made:
        stacks = {side: {**STACK, **both} for side in ("encoder", "decoder")}
        config = read_config({"model": {"d_model": 32, "vocabulary": 64, **stacks, **model}})
        transformer = Transformer(config.model).eval()
        with torch.no_grad():
            for weight in transformer.parameters():
                weight.copy_(weight * 1.5 if weight.dim() > 1 else weight + 0.1 * torch.randn_like(weight))
        save_file({name: tensor.contiguous() for name, tensor in transformer.state_dict().items()}, tmp_path / "w")
        return transformer, Ct2Engine(Ct2Model(plain(config), TensorFile(tmp_path / "w"), compute, 1), special)

    return made


def plain(config: Config) -> dict[str, Any]:
    """The model as config.json has it."""
    table: dict[str, Any] = json.loads(json.dumps(config.to_dict()))["model"]
    return table


def some_rows(count: int, longest: int = 12) -> list[list[int]]:
    drawn = random.Random(0)
    return [[*(drawn.randrange(4, 64) for _ in range(drawn.randint(1, longest))), 2] for _ in range(count)]


def naive(
    model: Transformer, rows: list[list[int]], search: Search, special: SpecialTokens = SPECIAL
) -> list[list[Hypothesis]]:
    ids, valid = pad_rows(rows, 0, torch.device("cpu"))
    return decode(ModelStepper(model), ids, valid, special_tokens=special, search=search, search_kind="reference")


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_part_gives_the_plain_loops_hypotheses(make: Callable[..., Made], name: str) -> None:
    model, engine = make(*KNOWN[name])
    rows = some_rows(8)
    for search in (Search(beam_size=1, max_extra=5), Search(beam_size=3, n_best=3, max_extra=5)):
        expected, found = naive(model, rows, search), engine.search(rows, search)
        for own, theirs in zip(expected, found):
            assert [one.ids for one in theirs] == [one.ids for one in own]
            for one, other in zip(theirs, own):
                assert one.token_logps == pytest.approx(other.token_logps, abs=1e-4)
                assert (one.finished, one.prefix) == (other.finished, other.prefix)
                assert (one.logp, one.score) == pytest.approx((other.logp, other.score), abs=1e-3)


@pytest.mark.parametrize("reason", UNKNOWN)
def test_what_is_not_known_is_named(make: Callable[..., Made], reason: str) -> None:
    with pytest.raises(UnsupportedModelError, match=reason):
        make(*UNKNOWN[reason])


def test_masks_that_are_not_known(make: Callable[..., Made], tmp_path: Path) -> None:
    config = read_config(
        {"model": {"d_model": 32, "vocabulary": 64, "encoder": {**STACK, "mask": "local(3)"}, "decoder": STACK}}
    )
    make({}, {})
    with pytest.raises(UnsupportedModelError, match="mask local is not supported"):
        Ct2Model(plain(config), TensorFile(tmp_path / "w"), "float32")


def test_a_config_or_weights_that_are_strange_are_left_to_torch(make: Callable[..., Made], tmp_path: Path) -> None:
    make({}, {})
    stored = TensorFile(tmp_path / "w")
    table = plain(read_config({"model": {"d_model": 32, "vocabulary": 64, "encoder": STACK, "decoder": STACK}}))
    Ct2Model(table, stored, "float32")
    changes: list[tuple[dict[str, Any], str]] = [
        ({"d_model": 31}, "is not as its config.json describes it"),
        ({"d_model": "many"}, "model has d_model = 'many'"),
        ({"new": 1}, "the settings of model are not those that this Headway writes"),
        ({"norm": {"kind": "layernorm"}}, "the settings of norm layernorm are not those"),
        ({"norm": 3}, "its config.json is not as this Headway writes it"),
        ({"encoder": {**table["encoder"], "layers": 1}}, "is not part of what its config.json describes"),
        ({"encoder": {**table["encoder"], "layers": 0}}, "translators without encoder are not supported"),
        ({"encoder": {**table["encoder"], "position": []}}, "position does not fit 2 layers"),
        ({"decoder": {**table["decoder"], "mask": [{"kind": "full"}]}}, "mask full in the decoder"),
    ]
    for change, reason in changes:
        with pytest.raises(UnsupportedModelError, match=reason):
            Ct2Model({**table, **change}, stored, "float32")


@pytest.mark.parametrize("search", [
    Search(beam_size=1), Search(beam_size=4, penalty="power"), Search(beam_size=4, penalty="none"), Search(),
    Search(beam_size=6, n_best=2, alpha=1.0), Search(beam_size=4, penalty="power", alpha=1.0, max_extra=0),
    Search(beam_size=1, no_repeat_ngram=2), Search(max_length=3),
], ids=str)  # fmt: skip
def test_a_trained_translator_says_the_same(translator_dir: Path, search: Search) -> None:
    """Greedy and with the penalty that CTranslate2 has, every line; with the paper's, 99 in 100."""
    from headway.data.toy import toy_corpus

    config, model, tokenizers = load_model(translator_dir)
    target = tokenizers.target
    special = SpecialTokens(
        start=target.start, end=target.end, suppress=tuple(sorted(target.control_ids - {target.end}))
    )
    engine = Ct2Engine(Ct2Model(plain(config), TensorFile(translator_dir / "model.safetensors"), "float32", 1), special)
    rows = [[*ids, 2] for ids in tokenizers.source.encode_batch([pair.source for pair in toy_corpus(100)])]
    expected, found = naive(model, rows, search, special), engine.search(rows, search)
    same = sum(own[0].ids == theirs[0].ids for own, theirs in zip(expected, found))
    assert same >= (99 if search.penalty == "paper" and search.beam_size > 1 else 100)
    assert all(len(row) <= search.n_best for row in found)


def test_control_tokens_are_never_said(make: Callable[..., Made]) -> None:
    special = SpecialTokens(start=1, end=2, suppress=(0, 1, 3, *range(40, 64)))
    model, engine = make({}, {}, special)
    rows = some_rows(12)
    assert [row[0].ids for row in engine.search(rows, Search(beam_size=1))] == [
        row[0].ids for row in naive(model, rows, Search(beam_size=1), special)
    ]
    for row in engine.search(rows, Search(n_best=4)):
        assert all(set(one.ids).isdisjoint(special.suppress) for one in row)


def test_int8_is_near(make: Callable[..., Made]) -> None:
    model, engine = make({}, {}, compute="int8")
    rows = some_rows(12)
    search = Search(beam_size=1, max_extra=3)
    pairs = list(zip(naive(model, rows, search), engine.search(rows, search)))
    assert sum(own[0].ids[0] == theirs[0].ids[0] for own, theirs in pairs) > 8


def test_no_room_gives_nothing_and_loses_no_line(make: Callable[..., Made]) -> None:
    model, engine = make({}, {})
    rows = some_rows(3)
    for search in (Search(max_length=0), Search(max_ratio=0, max_extra=0)):
        assert engine.search(rows, search) == naive(model, rows, search)
    assert engine.search([], Search()) == []


def test_a_row_that_is_longer_than_the_marked_positions(make: Callable[..., Made]) -> None:
    model, engine = make({}, {})
    rows = [*some_rows(2), [5] * 400 + [2], *some_rows(2)]
    search = Search(beam_size=1, max_length=4)
    assert [row[0].ids for row in engine.search(rows, search)] == [row[0].ids for row in naive(model, rows, search)]


def test_it_is_loaded_ahead_and_where_no_file_can_be_in_memory(
    make: Callable[..., Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, engine = make({}, {})
    rows, search = some_rows(3), Search(beam_size=1, max_extra=2)
    expected = [row[0].ids for row in naive(model, rows, search)]
    engine.model.start()
    assert [row[0].ids for row in engine.search(rows, search)] == expected
    monkeypatch.delattr("os.memfd_create")
    model, engine = make({}, {})
    expected = [row[0].ids for row in naive(model, rows, search)]
    assert [row[0].ids for row in engine.search(rows, search)] == expected


def test_what_it_cannot_do(make: Callable[..., Made]) -> None:
    _, engine = make({}, {})
    assert engine.unsupported(Search()) == ""
    assert engine.unsupported(Search(beam_size=1, no_repeat_ngram=3)) == ""
    assert (
        engine.unsupported(Search(no_repeat_ngram=3)) == "it applies min_length and no_repeat_ngram before the softmax"
    )
    assert engine.unsupported(Search(min_length=3)) == "it applies min_length and no_repeat_ngram before the softmax"
    assert engine.unsupported(Search(beam_size=1, sample=True)) == "sampling would draw other tokens"
    assert engine.unsupported(Search(shortlist=True)) == "it has no shortlists"
    assert engine.unsupported(Search(stopping="score")) == 'stopping is "score"'
    assert engine.unsupported(Search(beam_size=1, stopping="score")) == "", "there is nothing to stop later"
    assert engine.unsupported(Search(), True) == "forced prefixes are left to torch"
    assert engine.unsupported(Search(), False, lambda choice: None) == "it does not record its steps"


def test_weights_that_are_not_numbers(make: Callable[..., Made], tmp_path: Path) -> None:
    model, _ = make({}, {})
    with torch.no_grad():
        model.output_embedding.fill_(math.nan)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, tmp_path / "w")
    engine = Ct2Engine(Ct2Model(plain_of(model), TensorFile(tmp_path / "w"), "float32", 1), SPECIAL)
    with pytest.raises(HeadwayError, match=r"row 0: the model's log-probabilities are not numbers"):
        engine.search([[5, 2]], Search(beam_size=1))


def plain_of(model: Transformer) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(json.dumps(model.config.to_dict()))
    return table


@pytest.mark.parametrize(("width", "layout"), [(8, "interleaved"), (9, "interleaved"), (8, "halves"), (9, "halves")])
@pytest.mark.parametrize(("spacing", "first"), [("open", 0), ("closed", 2)])
def test_sinusoids_are_those_of_the_model(width: int, layout: Any, spacing: Any, first: int) -> None:
    width -= width % 2 if spacing == "closed" else 0
    content = bytearray(sinusoid_bytes(300, width, 10000.0, layout, spacing, first))
    table = torch.frombuffer(content, dtype=torch.float32).view(300, width)
    expected = ours(torch.arange(first, 300 + first), width, layout=layout, spacing=spacing).float()
    torch.testing.assert_close(table, expected, rtol=0, atol=1e-7 if spacing == "closed" else 0)
