"""Recorded steps write what the reference search writes. Run with: pytest -m gpu tests/gpu"""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from decode.cuda.test_search import SPECIAL, assert_as_exact, assert_same, model, small, sources

from headway.decode import Search, decode
from headway.decode.reference.model import ModelStepper
from headway.translate.translator import load_translator

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the compiler warns of itself, in each version of something else
]


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Products in all of float32; a trainer that ran before has lowered that."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"position": "rope"},
        {"position": "alibi"},
        {"position": "learned(64)", "mixer": "attention(4, groups=2)"},
        {"position": "t5(8, 20)", "mask": "causal & local(9)", "feedforward": "swiglu(24)"},
        {"encoder": 0},
        {"residual": "post", "position": "rope", "mixer": "attention(4, groups=2)", "vocabulary": 700, "end": 4.0},
        {"vocabulary": 700, "end": 4.0},  # enough words for the kernels of a step
        {"reader": {"position": "rope", "mask": "local(3)"}},
        {"reader": {"position": "t5(8, 20)", "feedforward": "swiglu(24)"}},
        {"reader": {"position": "alibi"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("beam", [1, 4])
def test_graphs_write_what_the_loop_writes(beam: int, changes: dict[str, Any]) -> None:
    """Several times: first the steps are recorded, through several buffers, and at last the beginning."""
    built = model(1, **changes).cuda()
    stepper = small(ModelStepper(built), initial_length=32, min_shrink_rows=8)
    search = Search(beam_size=beam, n_best=beam, max_length=50)
    source, valid = (part.cuda() for part in sources(37))
    given: Any = (source, valid) if changes.get("encoder", 1) else (None, None)
    reference = decode(stepper, *given, special_tokens=SPECIAL, search=search, search_kind="reference")
    doubled = ModelStepper(copy.deepcopy(built).double())
    exact = decode(doubled, *given, special_tokens=SPECIAL, search=search, search_kind="reference")
    for _ in range(4):
        assert_as_exact(
            decode(stepper, *given, special_tokens=SPECIAL, search=search, search_kind="cuda"), reference, exact
        )
    runners = stepper.cuda_search.runners.by_size.values()
    assert any(runner.graphs for runner in runners), "nothing was recorded"
    assert any(runner.state.encodes and 0 in runner.graphs for runner in runners) == (
        bool(changes.get("encoder", 1)) and changes.get("reader") != {"position": "alibi"}
    )
    assert not any(runner.state.ids.is_cpu for runner in runners)


@pytest.mark.parametrize("vocabulary", [40, 700])
def test_prefixes_and_half_precision(vocabulary: int) -> None:
    prefixes = [[7, 8, 9, 10][: row % 5] for row in range(20)]
    stepper, search = (
        ModelStepper(model(3, vocabulary=vocabulary).cuda()),
        Search(beam_size=4, n_best=4, max_length=24, min_length=6),
    )
    source, valid = (part.cuda() for part in sources(20))
    both = [
        decode(stepper, source, valid, special_tokens=SPECIAL, search=search, prefixes=prefixes, search_kind=engine)  # type: ignore[arg-type]
        for engine in ("reference", "cuda", "auto")
    ]
    assert_same(both[1], both[0])
    assert_same(both[2], both[0])
    states = [runner.state for runner in stepper.cuda_search.runners.by_size.values()]
    assert all((state.fused is not None) == (vocabulary == 700) for state in states)
    stepper = ModelStepper(model(3, vocabulary=vocabulary).cuda().bfloat16())
    reference, cuda = (
        decode(stepper, source, valid, special_tokens=SPECIAL, search=search, search_kind=engine)  # type: ignore[arg-type]
        for engine in ("reference", "cuda")
    )
    assert sum(a[0].ids == b[0].ids for a, b in zip(reference, cuda)) >= 16


def test_bfloat16_translates_what_was_learned_by_heart(translator_dir: Path, toy: Path) -> None:
    lines, known = ((toy / f"train.{side}").read_text().splitlines()[:20] for side in ("en", "qtx"))
    translator = load_translator(translator_dir, device="cuda", compute="bfloat16")
    assert translator.engines.torch.compute == "bfloat16"
    assert next(translator.engines.loaded[0].model.parameters()).dtype == torch.bfloat16
    found = [one.text for one in translator.translate(lines)]
    assert sum(a == b for a, b in zip(found, known)) >= 18
