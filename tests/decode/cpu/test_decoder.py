"""The CPU search finds what the reference search finds, in float32; in int8 a row does not depend on others."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.config.config import read_config
from headway.decode import Hypothesis, Search, SpecialTokens, decode
from headway.decode.cpu import search as cpu_search
from headway.decode.cpu.decoder import CpuDecoder, cpu_decoder_of, unsupported
from headway.decode.reference.model import Ensemble, ModelStepper
from headway.errors import HeadwayError
from headway.nn.layers import int8
from headway.nn.ops import native
from headway.nn.transformer import Transformer
from headway.text.shortlist import Shortlist, concatenate_lists

SPECIAL = SpecialTokens(start=1, end=2, suppress=(0, 1))
MODELS: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre": {"residual": "pre"},
    "grouped": {"mixer": "attention(4, groups=2)"},
    "one key": {"mixer": "attention(4, groups=1, d_k=6, bias=false)", "residual": "pre"},
    "gelu": {"feedforward": "gelu(64)"},
    "swiglu": {"feedforward": "swiglu(48)", "position": "learned(300)"},
    "geglu": {"feedforward": "geglu_tanh(48)", "residual": "pre"},
    "no positions": {"position": "none"},
}


def model_of(stack: dict[str, Any], seed: int = 1, **more: Any) -> Transformer:
    torch.manual_seed(seed)
    side = {"layers": 2, "mixer": "attention(4)", "feedforward": "relu(64)", **stack}
    table = {"d_model": 32, "vocabulary": 60, "dropout": 0.0, "encoder": side, "decoder": side, **more}
    objective = "translation" if table["encoder"]["layers"] else "causal"
    model = Transformer(read_config({"model": table, "train": {"objective": objective}}).model).eval()
    for parameter in model.parameters():  # certain enough that no two candidates are equally good
        parameter.data = parameter.data * 1.5 + 0.02 * torch.randn_like(parameter)
    return model


@pytest.fixture(params=["our kernels", "PyTorch's"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "PyTorch's":
        monkeypatch.setattr(native, "load_library", lambda: None)
    elif native.load_library() is None:
        pytest.skip("a C compiler is missing: apt-get install gcc")
    return str(request.param)


def sources(rows: int, longest: int = 20) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    lengths = torch.randint(1, longest, (rows,), generator=generator)
    valid = torch.arange(int(lengths.max())) < lengths[:, None]
    return torch.randint(3, 60, valid.shape, generator=generator).masked_fill(~valid, 0), valid


def found(stepper: Any, source: Tensor, valid: Tensor | None, engine: Any, **search: Any) -> list[list[Hypothesis]]:
    prefixes = search.pop("prefixes", None)
    settings = Search(**{"max_length": 45, "seed": 1, **search})
    return decode(
        stepper, source, valid, special_tokens=SPECIAL, search=settings, prefixes=prefixes, search_kind=engine
    )


def assert_alike(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]], within: float = 1e-3) -> None:
    for mine, plain in zip(ours, theirs, strict=True):
        assert [h.ids for h in mine] == [h.ids for h in plain]
        assert [h.logp for h in mine] == pytest.approx([h.logp for h in plain], abs=within)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("search", [{"beam_size": 1}, {"beam_size": 4, "n_best": 3}])
def test_float32_finds_what_the_plain_search_finds(name: str, search: dict[str, Any], kernels: str) -> None:
    stepper, (source, valid) = ModelStepper(model_of(MODELS[name])), sources(7)
    assert_alike(found(stepper, source, valid, "cpu", **search), found(stepper, source, valid, "reference", **search))


@pytest.mark.parametrize(
    "more",
    [
        {"norm": "rmsnorm"},
        {"embedding": {"tied": "none"}, "head": "logits(bias=true)"},
        {"embedding": {"tied": "target", "scale": False, "norm": True}},
        {"embedding": {"tied": "inputs"}},
    ],
)
def test_other_ends(more: dict[str, Any]) -> None:
    stepper, (source, valid) = ModelStepper(model_of({}, **more)), sources(5)
    assert_alike(found(stepper, source, valid, "cpu"), found(stepper, source, valid, "reference"))


@pytest.mark.parametrize(
    "search",
    [
        {"prefixes": [[5, 6, 7]] * 5},
        {"min_length": 40, "beam_size": 3},
        {"no_repeat_ngram": 2, "beam_size": 2},
        {"sample": True, "beam_size": 1, "n_best": 3},
    ],
)
def test_other_searches(search: dict[str, Any]) -> None:
    stepper, (source, valid) = ModelStepper(model_of({})), sources(5)
    assert_alike(found(stepper, source, valid, "cpu", **search), found(stepper, source, valid, "reference", **search))


@pytest.mark.parametrize(
    "search",
    [
        {"beam_size": 1},
        {"beam_size": 4, "n_best": 2},
        {"prefixes": [[58, 57]] * 6},
        {"sample": True, "beam_size": 1, "n_best": 2},
    ],
)
def test_a_shortlist_cuts_the_output_layer(search: dict[str, Any], kernels: str) -> None:
    """And finds what the search over all words finds, of which most are forbidden."""
    stepper, (source, valid) = ModelStepper(model_of({})), sources(6)
    lists = [np.array([7 + i % 40, 9 + i % 31, 3], dtype=np.int32) for i in range(60)]
    starts, targets = concatenate_lists([*lists, np.array([2, 5, 6], dtype=np.int32)])
    stepper.shortlist = Shortlist(starts, targets, 60, 60)
    settings = {"max_length": 30, "seed": 1, "shortlist": True, **search}
    prefixes = settings.pop("prefixes", None)
    steps: dict[str, list[Any]] = {"cpu": [], "reference": []}
    rows = {
        engine: decode(
            stepper,
            source,
            valid,
            special_tokens=SPECIAL,
            search=Search(**settings),
            prefixes=prefixes,
            record=steps[engine].append,
            search_kind=engine,
        )
        for engine in ("cpu", "reference")
    }
    assert_alike(rows["cpu"], rows["reference"])
    assert [step.ids[0] for step in steps["cpu"]] == [step.ids[0] for step in steps["reference"]]


@pytest.mark.parametrize("name", ["paper", "swiglu", "one key"])
@pytest.mark.parametrize("beam", [1, 4])
def test_a_line_in_8_bits_does_not_depend_on_others(name: str, beam: int, kernels: str) -> None:
    """To the bit, whoever stands beside it and however long they are."""
    stepper, (source, valid) = ModelStepper(model_of(MODELS[name]), "int8"), sources(64, 40)
    together = found(stepper, source, valid, "cpu", beam_size=beam)
    for row in range(0, 64, 5):
        own = source[row : row + 1, : int(valid[row].sum())]
        assert found(stepper, own, None, "cpu", beam_size=beam)[0] == together[row]


@pytest.mark.parametrize("name", [name for name in MODELS if "glu" not in name])  # which multiplies small errors
def test_in_8_bits_it_is_near(name: str, kernels: str) -> None:
    model, (source, valid) = model_of(MODELS[name]), sources(16)
    exact, rough = (CpuDecoder(model, compute) for compute in ("float32", "int8"))
    with torch.no_grad():
        states = [stepper.start(source, valid, 16) for stepper in (exact, rough)]
        ids = torch.full((16, 1), 1)
        for _ in range(5):
            logps = [stepper.step(state, ids) for stepper, state in zip((exact, rough), states)]  # type: ignore[arg-type]
            assert (logps[0] - logps[1]).std() < 0.15 * logps[0].std()
            ids = logps[0].argmax(1, keepdim=True)


@pytest.mark.parametrize("name", MODELS)
def test_in_8_bits_it_is_what_the_plain_search_makes_of_such_layers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "load_library", lambda: None)  # our own keep keys and values in 8 bits too
    stepper, (source, valid) = ModelStepper(model_of(MODELS[name]), "int8"), sources(9)
    ids = torch.full((9, 1), 1)
    with torch.no_grad():
        plain = stepper.step(stepper.start(source, valid, 9), ids)
        decoder = cpu_decoder_of(stepper)
        assert isinstance(decoder, CpuDecoder)
        fast = decoder.step(decoder.start(source, valid, 9), ids)
    # A last bit may decide which way a number is rounded, and one of 63 steps is much.
    assert (plain - fast).abs().median() < 1e-5


WHOLE = ["paper", "pre", "grouped", "one key", "no positions"]  # whose sides are one call each
ENDS: list[dict[str, Any]] = [
    {"norm": "layernorm"},
    {"norm": "rmsnorm"},
    {"embedding": {"tied": "inputs"}},
    {"embedding": {"tied": "none", "norm": True, "scale": False, "segments": 2}, "head": "logits(bias=true)"},
]


def native_decoder(model: Transformer) -> CpuDecoder:
    decoder = CpuDecoder(model, "int8")
    if decoder.stack_tables is None:
        assert native.load_library() is None
        pytest.skip("a C compiler is missing: apt-get install gcc")
    return decoder


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("more", ENDS, ids=str)
def test_a_step_in_one_call_is_that_of_its_parts(name: str, more: dict[str, Any]) -> None:
    decoder, (source, valid) = native_decoder(model_of(MODELS[name], **more)), sources(9)
    told = []
    for tables in (decoder.stack_tables, None):
        decoder.stack_tables = tables
        with torch.no_grad():
            state = decoder.start(source, valid, 9)
            told.append([decoder.step(state, torch.full((9, 1), token)) for token in (1, 5, 7)])
    for whole, parts in zip(*told):
        assert (whole - parts).abs().median() < 1e-4  # a last bit may decide which way a number is rounded


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(
    "search",
    [
        {"beam_size": 1},
        {"beam_size": 4, "n_best": 3},
        {"beam_size": 3, "min_length": 40},
        {"beam_size": 2, "max_length": 3},
        {"beam_size": 40},
        {"beam_size": 5, "n_best": 5, "max_length": 100},
    ],
    ids=str,
)
def test_a_search_in_one_call_is_that_of_the_loop(name: str, search: dict[str, Any]) -> None:
    """Rows that end early, slots that stay empty, more tokens than there was room for."""
    stepper, (source, valid) = ModelStepper(model_of(MODELS[name]), "int8"), sources(30, 60)
    native_decoder(stepper.model)
    whole = found(stepper, source, valid, "cpu", **search)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_search, "unsupported", lambda decoder, task: "not now")
        loop = found(stepper, source, valid, "cpu", **search)
    assert_alike(whole, loop)
    for mine, other in zip(whole, loop):
        assert [h.token_logps for h in mine] == [pytest.approx(h.token_logps, abs=1e-3) for h in other]


def test_a_search_in_one_call_says_what_is_no_number() -> None:
    model = model_of({})
    stepper, (source, valid) = ModelStepper(model, "int8"), sources(4)
    if cpu_decoder_of(stepper).stack_tables is None:
        pytest.skip("a C compiler is missing: apt-get install gcc")
    model.embeddings["decoder"].table.weight.data[1] = torch.nan
    with pytest.raises(HeadwayError, match="row 0, output token 1: the model's log-probabilities are not numbers"):
        found(stepper, source, valid, "cpu")


@pytest.mark.parametrize("max_length", [300, 310])
def test_a_search_in_one_call_stays_within_learned_positions(max_length: int) -> None:
    stepper, (source, valid) = ModelStepper(model_of({"position": "learned(300)"}), "int8"), sources(4)
    search = {"max_length": max_length, "min_length": max_length, "beam_size": 2}
    native_decoder(stepper.model)
    if max_length == 300:
        assert [len(line[0].token_logps) for line in found(stepper, source, valid, "cpu", **search)] == [300] * 4
    else:
        with pytest.raises(HeadwayError, match="learned 300 positions"):
            found(stepper, source, valid, "cpu", **search)


def test_without_any_kernel_8_bits_are_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (source, valid) = model_of({}), sources(6)
    monkeypatch.setattr(native, "load_library", lambda: None)
    theirs = found(ModelStepper(model, "int8"), source, valid, "cpu")
    monkeypatch.setattr(int8, "unsupported", lambda: "no fbgemm")
    assert_alike(found(ModelStepper(model, "int8"), source, valid, "cpu"), theirs)


def test_threads_share_what_is_made_of_a_model() -> None:
    stepper = ModelStepper(model_of({}), "int8")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: (cpu_decoder_of(stepper), stepper.reference_model), range(8)))
    assert len({id(part) for pair in made for part in pair}) == 2


def test_other_models_have_8_bits_too(kernels: str) -> None:
    model = model_of({"mixer": "retention(2)", "position": "rope"}, encoder={"layers": 1, "mixer": "attention(2)"})
    stepper, (source, valid) = ModelStepper(model, "int8"), sources(4)
    assert "Retention" in unsupported(model) or "rope" in unsupported(model)
    lines = found(stepper, source, valid, "auto")
    assert all(hypothesis.logp < 0 for line in lines for hypothesis in line)
    assert lines != found(ModelStepper(model), source, valid, "auto")


@pytest.mark.parametrize(
    ("stack", "more", "reason"),
    [
        ({"position": "rope"}, {}, "its position is rope"),
        ({"residual": "residual_dual"}, {}, "its residual is residual_dual"),
        ({"feedforward": "moe(4)"}, {}, "it has a MixtureOfExperts"),
        ({"mixer": "attention(4, d_v=5)"}, {}, "keys and values of different widths"),
        ({"mixer": "attention(4, qk_norm='rmsnorm')"}, {}, "attention or feed-forward has norms inside"),
        ({"feedforward": "swiglu(24, output_norm='rmsnorm')"}, {}, "attention or feed-forward has norms inside"),
        ({}, {"linear": "bitnet"}, "its linear layers are not dense"),
        ({}, {"head": "logits(scale=0.5)"}, "its head scales its input"),
        ({}, {"decoder": {"layers": 1, "mask": "causal & local(4)"}}, "its mask is"),
        ({}, {"encoder": {"layers": 0}}, "it is no encoder with a decoder"),
    ],
)
def test_an_unsupported_model_says_why(stack: dict[str, Any], more: dict[str, Any], reason: str) -> None:
    assert reason in unsupported(model_of(stack, **more))


def test_an_unsupported_search_is_refused_if_asked_for() -> None:
    model, (source, valid) = model_of({}), sources(3)
    stepper = ModelStepper(model)
    cases: list[tuple[Any, Any, str]] = [
        (Ensemble([stepper, stepper]), None, "the model is an ensemble"),
        (stepper, [[5], [5, 6], []], "prefixes have different lengths"),
    ]
    for given, prefixes, reason in cases:
        with pytest.raises(HeadwayError, match=f'the "cpu" search does not support this: {reason}'):
            decode(given, source, valid, special_tokens=SPECIAL, search=Search(), search_kind="cpu", prefixes=prefixes)
    with pytest.raises(HeadwayError, match="there is no source"):
        decode(stepper, None, special_tokens=SPECIAL, search=Search(), search_kind="cpu", prefixes=[[5]])
    assert unsupported(model.train()) == "it is not on the CPU, in training, or not in float32"
