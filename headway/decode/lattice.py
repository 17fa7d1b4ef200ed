"""From the candidates of every step to hypotheses, after the search: the same judgement as in `turn`, for all steps at
once; on the device on which they were found, unless they are few.

T steps    B rows    C candidates of each    K beams    M hypotheses
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from headway.decode.reference.beam_search import not_numbers
from headway.decode.request import Job, Task
from headway.decode.types import Hypothesis

SMALL = 2**17  # numbers that the host is through with before a GPU has begun


class Trellis(NamedTuple):
    """All (T, C, B): rows last, where they lie side by side."""

    ids: Tensor
    parents: Tensor
    logps: Tensor
    sums: Tensor


class Ends(NamedTuple):
    """Where hypotheses ended, (M,) each."""

    steps: Tensor
    places: Tensor  # which of the candidates
    rows: Tensor


def joined(parts: list[tuple[Tensor, Tensor]], rows: int) -> Trellis:
    """What frames wrote, one after the other: which rows were in it, and words (steps, 4, frame's rows, C)."""
    words = [words for _, words in parts]
    steps, candidates = sum(len(part) for part in words), words[0].shape[3]
    whole, first = words[0].new_zeros(4, steps, candidates, rows), 0
    for (kept, _), part in zip(parts, words):
        whole[:, first : first + len(part), :, kept] = part[:, :, : len(kept)].permute(1, 0, 3, 2)
        first += len(part)
    if whole.numel() < SMALL:
        whole = whole.cpu()
    return Trellis(whole[0].long(), whole[1].long(), whole[2].view(torch.float32), whole[3].view(torch.float32))


def found(trellis: Trellis, jobs: list[Job], task: Task) -> Iterator[tuple[Job, Hypothesis]]:
    """The n_best of each row, best first."""
    beam, device = task.search.beam_size, trellis.ids.device
    exists, ends = trellis.sums > -torch.inf, trellis.ids == task.marks.end
    runs = exists & ~ends
    limits = torch.tensor([len(job.prefix) + job.room for job in jobs], device=device)
    last = torch.arange(1, len(ends) + 1, device=device)[:, None] >= limits  # (T, B)
    complete = exists & (ends | last[:, None])
    complete[:, beam:] = False  # only the K best may end; the others stand by to run on in their stead
    ended = complete.sum(1).cumsum(0)
    stays = (runs.any(1) & ~last & (ended < beam)).cumprod(0).bool()
    alive = torch.cat([torch.ones_like(stays[:1]), stays[:-1]])  # (T, B)
    for step, row in (~(trellis.sums[:, 0] < torch.inf) & alive).nonzero().tolist():
        raise not_numbers(jobs[row], step - len(jobs[row].prefix))
    complete &= alive[:, None]
    for step, row in (
        (alive & ~exists.any(1) & (ended == 0)).nonzero().tolist()
    ):  # nothing can follow: what it had is all
        if step == 0:
            yield jobs[row], task.hypothesis(jobs[row], [], [], 0.0)
        else:
            complete[step - 1, :, row] = runs[step - 1, :, row] & (runs[step - 1, :, row].cumsum(0) <= beam)
    best = _ranked(trellis, complete, jobs, task)
    ids, logps = _traced(trellis, runs, best)
    totals = trellis.sums[best].tolist()
    for step, row, line, values, total in zip(best.steps.tolist(), best.rows.tolist(), ids, logps, totals):
        job = jobs[row]
        yield job, task.hypothesis(job, line[: step + 1], values[len(job.prefix) : step + 1], total)


def _ranked(trellis: Trellis, complete: Tensor, jobs: list[Job], task: Task) -> Ends:
    """Where the n_best of each row ended."""
    ends = Ends(*complete.nonzero(as_tuple=True))
    prefixes = torch.tensor([len(job.prefix) for job in jobs], device=complete.device)
    lengths = ends.steps + 1 - prefixes[ends.rows]
    divisors = torch.tensor([task.search.divisor(n) for n in range(len(complete) + 1)], dtype=torch.float64)
    scores = trellis.sums[ends].double() / divisors.to(complete.device)[lengths]
    # By score, then by row; equal ones stay in the order in which they were found.
    order = scores.argsort(descending=True, stable=True)
    order = order[ends.rows[order].argsort(stable=True)]
    rows = ends.rows[order]
    rank = torch.arange(len(rows), device=rows.device) - torch.searchsorted(rows, rows)
    order = order[rank < task.search.n_best]
    return Ends(*(index[order] for index in ends))


def _traced(trellis: Trellis, runs: Tensor, ends: Ends) -> tuple[list[list[int]], list[list[float]]]:
    """Ids and log-probabilities of each hypothesis, (M, T), from its end back to the first step."""
    filled = (~runs).to(torch.uint8).argsort(dim=1, stable=True)  # (T, C, B) which candidate went into beam 0, 1 …
    before = filled[:-1].gather(1, trellis.parents[1:])  # (T - 1, C, B) which one each of the next step went on from
    place, path = ends.places, [ends.places]
    for now in range(len(before), 0, -1):
        place = torch.where(ends.steps >= now, before[now - 1, place, ends.rows], place)
        path.append(place)
    steps = torch.arange(len(path), device=place.device)
    where = (steps, torch.stack(path[::-1], 1), ends.rows[:, None])  # (M, T)
    return trellis.ids[where].tolist(), trellis.logps[where].tolist()
