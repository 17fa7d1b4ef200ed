"""The CUDA search finds what the reference search finds: ids and scores, whatever the model and the settings. It runs
here as on a GPU, but for the recording of its steps (tests/gpu/test_decoding.py)."""

import copy
import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.config.schema import from_dict
from headway.decode import Hypothesis, Search, SpecialTokens, decode
from headway.decode.cuda.search import CudaSearch
from headway.decode.reference.model import ModelStepper
from headway.errors import HeadwayError
from headway.nn.transformer import Transformer, valid_mask

SPECIAL = SpecialTokens(start=0, end=1)
SHORT = Search(beam_size=2, max_length=4)


def model(seed: int = 0, end: float = 1.0, vocabulary: int = 40, layers: int = 2, **changes: Any) -> Transformer:
    """Random weights, large enough that outputs differ, and end at different lengths."""
    torch.manual_seed(seed)
    side = {"mixer": "attention(4)", "feedforward": "relu(32)", "residual": "pre", "layers": layers}
    decoder = side | {
        name: value for name, value in changes.items() if name not in ("encoder", "reader", "linear", "norm")
    }
    table: dict[str, Any] = {"d_model": 16, "vocabulary": vocabulary, "head": "logits(bias=true)"}
    reader = side | {"layers": changes.get("encoder", 1)} | changes.get("reader", {})
    table |= {"embedding": {"tied": "none"}, "encoder": reader}
    table |= {name: changes[name] for name in ("linear", "norm") if name in changes}
    built = Transformer(from_dict(Transformer.Config, table | {"decoder": decoder})).eval()
    with torch.no_grad():
        for weight in built.parameters():
            weight.copy_(
                torch.randn_like(weight) * 0.5 if weight.dim() > 1 else weight + 0.1 * torch.randn_like(weight)
            )
        built.head.bias[1] += end
    return built


def sources(rows: int, longest: int = 9) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    lengths = torch.randint(1, longest + 1, (rows,), generator=generator)
    return torch.randint(2, 40, (rows, longest), generator=generator), valid_mask(lengths, longest)


def small(stepper: ModelStepper, initial_length: int = 4, min_shrink_rows: int = 2) -> ModelStepper:
    """With buffers so short and wide that a search has to leave them."""
    stepper.cuda_search = CudaSearch(stepper.model)
    stepper.cuda_search.initial_length, stepper.cuda_search.min_shrink_rows = initial_length, min_shrink_rows
    return stepper


Found = Sequence[Sequence[Hypothesis]]


def assert_same(mine: Found, theirs: Found) -> None:
    for one, other in zip(mine, theirs, strict=True):
        assert [(h.ids, h.finished, h.prefix) for h in one] == [(h.ids, h.finished, h.prefix) for h in other]
        for a, b in zip(one, other):
            assert a.score == pytest.approx(b.score, abs=1e-5, rel=1e-5)
            assert a.logp == pytest.approx(b.logp, abs=1e-5, rel=1e-5)
            assert a.token_logps == pytest.approx(b.token_logps, abs=1e-5, rel=1e-5)


def assert_as_exact(mine: Found, reference: Found, exact: Found) -> None:
    """The same tokens as the reference search's, and numbers about as far from those in float64 as its own. Some models
    make more of the last bits than others, so that no fixed distance between two computations is right for all."""
    errors: list[list[float]] = [[], []]
    for row in zip(mine, reference, exact, strict=True):
        assert [(h.ids, h.finished, h.prefix) for h in row[0]] == [(h.ids, h.finished, h.prefix) for h in row[1]]
        for *found, true in zip(*row):
            if true.ids == found[0].ids:
                for error, h in zip(errors, found):
                    error += [abs(a - b) for a, b in zip(h.token_logps, true.token_logps, strict=True)]
                    error += [abs(h.logp - true.logp), abs(h.score - true.score)]
    assert len(errors[0]) > 0.9 * sum(2 + len(h.token_logps) for row in reference for h in row)
    assert max(errors[0]) <= max(1e-5, 4 * max(errors[1]))


def both(
    stepper: ModelStepper, rows: int, search: Search, special: SpecialTokens = SPECIAL, **more: Any
) -> list[list[Hypothesis]]:
    source = sources(rows) if "encoder" in stepper.model.stacks else (None, None)
    plain, fast = (
        decode(stepper, *source, special_tokens=special, search=search, search_kind=e, **more)
        for e in ("reference", "cuda")
    )  # type: ignore[arg-type]
    assert_same(fast, plain)
    return plain


def test_it_is_as_exact_as_the_reference_search() -> None:
    built = model(1, residual="post", position="rope", vocabulary=700, end=4.0)
    stepper, search = small(ModelStepper(built)), Search(beam_size=4, n_best=4, max_length=50)
    exact = decode(
        ModelStepper(copy.deepcopy(built).double()),
        *sources(9),
        special_tokens=SPECIAL,
        search=search,
        search_kind="reference",
    )
    reference = decode(stepper, *sources(9), special_tokens=SPECIAL, search=search, search_kind="reference")
    fast = decode(stepper, *sources(9), special_tokens=SPECIAL, search=search, search_kind="cuda")
    assert_as_exact(fast, reference, exact)
    worse = [[dataclasses.replace(h, token_logps=[p + 1e-3 for p in h.token_logps]) for h in row] for row in fast]
    with pytest.raises(AssertionError):
        assert_as_exact(worse, reference, exact)


@pytest.mark.parametrize("rows", [1, 5, 37])
@pytest.mark.parametrize("beam", [1, 2, 4, 8])
def test_it_is_the_reference_search(beam: int, rows: int) -> None:
    found = both(small(ModelStepper(model())), rows, Search(beam_size=beam, n_best=beam, max_length=20))
    lengths = {len(h.ids) for row in found for h in row}
    assert rows < 37 or len(lengths) > 5


@pytest.mark.parametrize(
    "settings",
    [
        {"min_length": 6},
        {"max_length": 1},
        {"max_length": None, "max_ratio": 1.5, "max_extra": 2},
        {"penalty": "power", "alpha": 1.3},
        {"penalty": "none"},
        {"n_best": 1},
        {"min_length": 5, "max_length": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("beam", [1, 4])
def test_settings(beam: int, settings: dict[str, Any]) -> None:
    search = Search(beam_size=beam, **{"n_best": beam, "max_length": 17, **settings})
    both(small(ModelStepper(model(1))), 13, search, SpecialTokens(start=0, end=1, suppress=(0, 3, 5)))


@pytest.mark.parametrize(
    "changes",
    [
        {"position": "rope"},
        {"position": ["rope(layout='halves', spacing='closed')", "rope(100)"]},
        {"position": "learned(24)"},
        {"position": "none"},
        {"position": "alibi"},
        {"position": "t5(8, 20)"},
        {"position": ["rope", "alibi"], "mask": ["causal & local(3)", "causal"]},
        {"mask": "causal & strided(3)"},
        {"mixer": "attention(4, groups=2)"},
        {"mixer": "attention(4, groups=1)", "position": "alibi"},
        {"mixer": ["attention(4)", "attention(2, d_k=6)"], "position": "rope"},
        {"mixer": "attention(4, bias=false)", "feedforward": "swiglu(24)"},
        {"residual": "post"},
        {"residual": "residual_dual"},
        {"encoder": 0},
        *(
            {"reader": {"position": position}}
            for position in ("rope", "t5(8, 20)", "learned(16)", "learned(9)", "alibi")
        ),
        {"reader": {"mask": "local(3)", "feedforward": "swiglu(24)", "mixer": "attention(4, groups=2)"}},
        {"reader": {"mixer": "retention(2)", "position": "rope", "mask": "causal"}},
        {"reader": {"feedforward": "moe(2)"}},
    ],
    ids=str,
)
def test_kinds_of_models(changes: dict[str, Any]) -> None:
    both(small(ModelStepper(model(2, **changes))), 6, Search(beam_size=4, n_best=4, max_length=18))


@pytest.mark.parametrize("encoder", [1, 0], ids=["translates", "goes on"])
@pytest.mark.parametrize("beam", [1, 4])
def test_prefixes(beam: int, encoder: int) -> None:
    prefixes = [[7, 8, 9, 10, 11, 12][: row % 7] for row in range(9)]
    stepper = small(ModelStepper(model(3, encoder=encoder)))
    found = both(stepper, 9, Search(beam_size=beam, n_best=beam, max_length=12), prefixes=prefixes)
    assert [row[0].ids[: row[0].prefix] for row in found] == prefixes
    both(stepper, 9, Search(beam_size=beam, max_length=5), prefixes=prefixes)  # some have no room


def test_buffers_are_used_again() -> None:
    """What one search leaves behind changes nothing in the next."""
    stepper, search = small(ModelStepper(model())), Search(beam_size=4, n_best=4, max_length=20)
    for rows in (7, 3, 8, 7):
        both(stepper, rows, search)
    assert {size.rows for _, size in stepper.cuda_search.runners.by_size} >= {8}


def test_it_follows_the_weights() -> None:
    stepper, search = ModelStepper(model()), Search(beam_size=2, max_length=8)
    before, engine = both(stepper, 4, search), stepper.cuda_search
    both(stepper, 4, search)
    assert stepper.cuda_search is engine
    with torch.no_grad():
        stepper.model.stacks["decoder"].blocks[0].sublayers["self"].key.weight.mul_(-3)  # type: ignore[index,union-attr]
    assert both(stepper, 4, search) != before
    assert stepper.cuda_search is engine  # it copies them again
    stepper.model.double()
    both(stepper, 4, search)
    assert stepper.cuda_search is not engine


def test_nothing_can_follow() -> None:
    """A stuck row gives what it had."""
    every = tuple(token for token in range(40) if token != 1)
    for special, least in (
        (SpecialTokens(start=0, end=1, suppress=every), 2),
        (SpecialTokens(start=0, end=1, suppress=(*every, 1)), 0),
    ):
        for prefixes in (None, [[4, 5], [6], []]):
            found = both(
                ModelStepper(model()), 3, Search(beam_size=4, n_best=4, min_length=least, max_length=4), special,
                prefixes=prefixes,
            )  # fmt: skip
            assert all(row for row in found)


def test_a_small_vocabulary() -> None:
    stepper = ModelStepper(model(vocabulary=5, end=0.0, encoder=0))
    both(stepper, 1, Search(beam_size=8, n_best=8, max_length=9))


def test_equal_tokens_rank_alike() -> None:
    built = model(end=0.0)
    with torch.no_grad():
        for part in (built.head.weight, built.head.bias):
            part[2:].copy_(part[2:3].expand_as(part[2:]))  # all tokens but the special ones are the same
    both(ModelStepper(built), 4, Search(beam_size=4, n_best=4, max_length=6))


def test_broken_weights_are_told_alike() -> None:
    built = model()
    with torch.no_grad():
        built.stacks["decoder"].blocks[0].sublayers["feedforward"].outer.weight[0, 0] = torch.nan  # type: ignore[index,union-attr]
    source, told = sources(3), []
    for engine in ("reference", "cuda"):
        stepper = ModelStepper(built)
        with pytest.raises(HeadwayError, match="row 0, output token 1: the model's log-probabilities") as error:
            decode(
                stepper, *source, special_tokens=SPECIAL, search=Search(beam_size=2, max_length=5),
                prefixes=[[4, 5]] * 3, search_kind=engine,
            )  # fmt: skip
        told.append(str(error.value))
    assert told[0] == told[1]
    assert not stepper.cuda_search.runners.by_size, "what it left is not used again"


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_half_precision() -> None:
    """Rounding differs, so that a few lines do; scores are float32."""
    stepper = small(ModelStepper(model().bfloat16()))
    source, search = sources(60), Search(beam_size=4, max_length=16)
    with torch.backends.mkldnn.flags(enabled=False):  # it picks instructions that not every machine lets it use
        plain, fast = (
            decode(stepper, *source, special_tokens=SPECIAL, search=search, search_kind=e)
            for e in ("reference", "cuda")
        )  # type: ignore[arg-type]
    same = sum(a[0].ids == b[0].ids for a, b in zip(plain, fast))
    assert same >= 50
    close = [abs(a[0].score - b[0].score) < 0.05 for a, b in zip(plain, fast) if a[0].ids == b[0].ids]
    assert all(close)


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_a_large_vocabulary(beam: int) -> None:
    both(small(ModelStepper(model(vocabulary=700, end=4.0))), 9, Search(beam_size=beam, n_best=beam, max_length=20))


def test_weights_that_an_optimiser_changes_without_telling_are_noticed() -> None:
    trained = model().eval()
    stepper, source = ModelStepper(trained), torch.randint(4, 40, (3, 6))
    search, special = Search(beam_size=2, max_length=8), SPECIAL
    decode(stepper, source, special_tokens=special, search=search, search_kind="cuda")
    optimiser = torch.optim.AdamW(trained.parameters(), lr=0.05, fused=True)
    with torch.enable_grad():
        trained.logits(trained(source, source).hidden).square().sum().backward()
    optimiser.step()
    found = [
        decode(stepper, source, special_tokens=special, search=search, search_kind=engine)
        for engine in ("cuda", "reference")
    ]  # type: ignore[arg-type]
    assert [row[0].ids for row in found[0]] == [row[0].ids for row in found[1]]
    assert [row[0].score for row in found[0]] == pytest.approx([row[0].score for row in found[1]], rel=1e-5)


def test_inference_mode_before_and_ordinary_after() -> None:
    stepper, source = ModelStepper(model().eval()), torch.randint(4, 40, (3, 6))
    search, special = Search(beam_size=2, max_length=8), SPECIAL
    with torch.inference_mode():
        first = decode(stepper, source, special_tokens=special, search=search, search_kind="cuda")
    assert decode(stepper, source, special_tokens=special, search=search, search_kind="cuda") == first


def test_two_threads_search_one_after_the_other() -> None:
    """The first of them makes what is kept of the model."""
    stepper, source = ModelStepper(model().eval()), torch.randint(4, 40, (3, 6))
    search, special = Search(beam_size=2, max_length=8), SPECIAL
    with ThreadPoolExecutor(4) as pool:
        tasks = [
            pool.submit(decode, stepper, source, special_tokens=special, search=search, search_kind="cuda")
            for _ in range(8)
        ]
    assert all(task.result() == tasks[0].result() for task in tasks)


def test_engines_are_named() -> None:
    stepper = ModelStepper(model().eval())
    with pytest.raises(HeadwayError, match='there is no search "statik": use one of auto, reference, cpu, cuda.'):
        decode(
            stepper, torch.zeros(1, 1, dtype=torch.long), special_tokens=SPECIAL, search=Search(), search_kind="statik"
        )  # type: ignore[arg-type]
