"""Trace mask-predict: which tokens each iteration masked, what it put there, and how sure it was.

The decoder of such a translator reads all of its output at once. Beside the iterations one of its passes is traced: by
default the last in which there was a mask. It read the output of the iteration before, with masks in place of the
tokens that it was to predict again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headway.config.search import Search
from headway.decode.mask_predict import choose_masked, find_method, mask_predict
from headway.errors import HeadwayError
from headway.translate.search import MIN_RETRY_BEAM

if TYPE_CHECKING:
    from headway.translate.translator import Translator


@dataclass(frozen=True)
class Iteration:
    """What one pass of the decoder made of the output."""

    read: list[int]  # (N,) with masks
    ids: list[int]  # (N,) afterwards
    logps: list[float]  # (N,) each as of the iteration that predicted it

    def to_dict(self) -> dict[str, Any]:
        return {"read": self.read, "ids": self.ids, "logps": [round(logp, 5) for logp in self.logps]}


def choose_traced(iterations: Sequence[Iteration], mask: int, wanted: int | None) -> Iteration:
    """The pass whose tensors are shown."""
    if wanted is None:
        return next((one for one in reversed(iterations) if mask in one.read), iterations[-1])
    if not 0 <= wanted < len(iterations):
        raise HeadwayError(f"there is no iteration {wanted}: this search has {len(iterations)}, counted from 0.")
    return iterations[wanted]


def writes_at_once(translator: "Translator") -> bool:
    return translator.steppers[0].model.length_predictor is not None


@torch.no_grad()
def trace_iterations(
    translator: "Translator", source: list[int], search: Search, output: Sequence[int]
) -> list[Iteration]:
    """Those by which one row of source ids became this output, which such a search has found, or its retry with more
    lengths."""
    stepper = translator.steppers[0]
    method = find_method(stepper, search)
    assert method is not None
    width = max(MIN_RETRY_BEAM, search.beam_size)
    for settings in (search, replace(search, beam_size=width, n_best=width)):
        seen: list[tuple[Tensor, Tensor]] = []  # ids and log-probabilities (L, N) after each iteration
        mask_predict(
            stepper,
            torch.tensor([source], device=stepper.reference_model.device),
            None,
            special_tokens=translator.special_tokens,
            search=settings,
            method=method,
            on_iteration=lambda number, ids, logps, seen=seen: seen.append((ids.cpu().clone(), logps.cpu().clone())),  # type: ignore[misc]
        )
        last_ids, last_logps = seen[-1]
        for row, length in enumerate(last_logps.isfinite().sum(1).tolist()):
            if last_ids[row, :length].tolist() == list(output):
                own = [(ids[row : row + 1, :length], logps[row : row + 1, :length]) for ids, logps in seen]
                return _read_iterations(own, translator.special_tokens.mask)
    raise HeadwayError("the iterations of mask_predict do not end in its output: please report this.")


def _read_iterations(seen: list[tuple[Tensor, Tensor]], mask: int) -> list[Iteration]:
    """seen: ids and log-probabilities (1, N) after each."""
    length = seen[0][0].shape[1]
    ids, logps = torch.full((1, length), mask), torch.full((1, length), -torch.inf)
    iterations = []
    for number, (new_ids, new_logps) in enumerate(seen):
        count = torch.tensor([length * (len(seen) - number) // len(seen)])
        masked = choose_masked(logps, torch.ones(1, length, dtype=torch.bool), count)
        read = ids.masked_fill(masked, mask)[0].tolist()
        ids, logps = new_ids, new_logps
        iterations.append(Iteration(read, ids[0].tolist(), logps[0].tolist()))
    return iterations
