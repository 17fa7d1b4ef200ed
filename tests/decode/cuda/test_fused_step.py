"""The Triton kernels of a step do what plain operations do: on a GPU, or anywhere with TRITON_INTERPRET=1."""

import os
from typing import Any

import pytest
import torch
from decode.cuda.test_search import both, model, small
from torch import Tensor

from headway.decode import Search
from headway.decode.cuda import beam_state
from headway.decode.cuda.beam_state import BeamState, BufferSize, FusedBeamStep, StepSpec
from headway.decode.cuda.search import CudaSearch
from headway.decode.reference.model import ModelStepper

pytest.importorskip("triton", reason="Triton is missing: pip install triton")
if os.environ.get("TRITON_INTERPRET") != "1" and not torch.cuda.is_available():
    pytest.skip("a CUDA device is missing: Triton also runs with TRITON_INTERPRET=1", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore:invalid value")  # the interpreter's, where a number is NaN
DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"


def states(beam: int, vocabulary: int, forced: bool) -> list[BeamState]:
    """Two alike; the second has the kernels."""
    folded = CudaSearch(model(vocabulary=vocabulary).to(DEVICE)).decoder
    spec = StepSpec(beam, start=0, end=1, suppress=(0, 3, vocabulary - 1), has_prefixes=forced)
    made = [BeamState(folded, spec, BufferSize(5, 8, 40)) for _ in range(2)]
    for state in made:
        state.limit.copy_(torch.tensor([3, 40, 0, 9, 40]))
        state.end_bias[:2] = -torch.inf
        state.forced[1, :2], state.forced[3, :1] = torch.tensor([7, 8]), 9
        state.begin()
    made[0].fused, made[1].fused = None, FusedBeamStep(made[1])
    return made


def snapshot(state: BeamState) -> dict[str, Tensor]:
    names = ("ids", "ended", "active", "active_count", "sums")
    codes = state.lattice[: int(state.cache.now)]
    real = codes[:, 3].view(torch.float32) > -torch.inf  # the others may be anything
    tensors = {
        "ids and parents": codes[:, :2] * real[:, None],
        "values": codes[:, 2:].view(torch.float32).nan_to_num(neginf=-1e9),
    }
    tensors["values"] = tensors["values"].where(real[:, None], -1e9)
    alive = state.sums > -torch.inf
    tensors["owners"], tensors["now"] = state.cache.owners * alive[:, :, None], state.cache.now
    return tensors | {name: getattr(state, name) for name in names} | {"ids": state.ids * alive}


def assert_alike(mine: BeamState, other: BeamState) -> None:
    tensors = snapshot(other)
    for name, value in snapshot(mine).items():
        torch.testing.assert_close(value, tensors[name], atol=1e-5, rtol=1e-6, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize(
    ("beam", "vocabulary", "forced", "dtype"),
    [
        (1, 300, False, torch.float32),
        (1, 256, True, torch.bfloat16),
        (2, 256, True, torch.float32),
        (3, 1025, False, torch.float32),
        (4, 300, True, torch.bfloat16),
    ],
    ids=str,
)
def test_steps(beam: int, vocabulary: int, forced: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam_state, "MAX_BLOCK_TOKENS", 512)  # the largest vocabulary takes several
    plain, fused = states(beam, vocabulary, forced)
    generator = torch.Generator().manual_seed(beam)
    for step in range(8):
        logits = (3 * torch.randn(5 * beam, vocabulary, generator=generator)).to(DEVICE, dtype)
        logits[:, 1] += step / 2
        plain.apply_logits(logits)
        assert fused.fused is not None
        fused.fused(logits)
        assert_alike(fused, plain)


@pytest.mark.parametrize("beam", [1, 4])
def test_equal_ones_rank_by_beam_and_word(beam: int) -> None:
    plain, fused = states(beam, 300, False)
    for state in (plain, fused):
        state.end_bias.zero_()
        state.sums.zero_()
    line = torch.randint(0, 3, (1, 300), generator=torch.Generator().manual_seed(0)).float().to(DEVICE)
    for _ in range(4):
        plain.apply_logits(line.expand(5 * beam, -1).contiguous())
        assert fused.fused is not None
        fused.fused(line.expand(5 * beam, -1).contiguous())
        assert_alike(fused, plain)
        for state in (plain, fused):
            state.sums.zero_()


def test_little_is_left_to_choose() -> None:
    """Most words are impossible: candidates that do not exist, then rows that are stuck."""
    plain, fused = states(4, 300, False)
    generator = torch.Generator().manual_seed(0)
    for allowed in (6, 2, 1, 1):
        logits = torch.full((20, 300), -torch.inf)
        logits[:, 4 : 4 + allowed] = torch.randn(allowed, generator=generator)
        logits[:, 2] = 0.5
        for state in (plain, fused):
            state.suppress = torch.tensor([2], device=DEVICE)
        fused.fused = FusedBeamStep(fused)
        plain.apply_logits(logits.to(DEVICE))
        fused.fused(logits.to(DEVICE))
        assert_alike(fused, plain)


def test_nan_is_reported() -> None:
    plain, fused = states(4, 300, False)
    logits = torch.zeros(20, 300, device=DEVICE)
    logits[4, 5] = torch.nan  # the first beam of the second row
    logits[9, 5] = torch.inf  # the second of the third, which is empty
    assert fused.fused is not None
    fused.fused(logits)
    plain.apply_logits(logits)
    for state in (plain, fused):
        first = state.lattice[0, 3, :, 0].view(torch.float32)
        assert first[1].isnan()
        assert first[[0, 3, 4]].isfinite().all()


@pytest.mark.parametrize(
    ("beam", "changes"),
    [
        (4, {"residual": "post"}),
        (3, {"mixer": "attention(4, groups=2)", "position": "rope"}),
        (1, {"mixer": "attention(2, d_k=6)", "encoder": 0, "end": -9.0}),
        (2, {"position": ["rope", "alibi"], "mask": ["causal", "causal & local(3)"], "norm": "rmsnorm"}),
    ],
    ids=str,
)
def test_whole_searches(beam: int, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Through several buffers, in which some rows are empty."""
    monkeypatch.setattr(beam_state, "unsupported", lambda state: "")
    stepper = small(
        ModelStepper(model(**{"vocabulary": 300, "end": 4.0, **changes}).to(DEVICE)),
        initial_length=4,
        min_shrink_rows=2,
    )
    both(stepper, 5, Search(beam_size=beam, n_best=beam, max_length=10))
