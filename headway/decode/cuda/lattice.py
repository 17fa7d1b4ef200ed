"""From the candidates of every step to hypotheses, after a CUDA search: the beam search stopping rule (see
reference/beam_search.py) for all steps at once, then a backtrace. On the GPU, unless there is little to do;
decode/lattice.py is the same in numpy.

T steps    B rows    C candidates of each    K beams    M hypotheses
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from headway.decode.request import SearchJob, SearchTask, non_finite_error
from headway.decode.types import Hypothesis

MAX_HOST_ELEMENTS = 2**17  # so many the host is done with before a GPU has begun


class CudaLattice(NamedTuple):
    """All candidates of a search, (T, C, B) each: rows last, so that they are contiguous."""

    ids: Tensor
    parents: Tensor
    logps: Tensor
    sums: Tensor


class CudaEnds(NamedTuple):
    """Where hypotheses ended, (M,) each."""

    steps: Tensor
    candidates: Tensor  # which of the candidates of that step
    rows: Tensor


def join_steps(parts: list[tuple[Tensor, Tensor]], rows: int) -> CudaLattice:
    """From what was written part by part: which rows a part has (B',), and its int32 codes (steps, 4, ≥ B', C): ids,
    parents, and the bits of the floats logps and sums."""
    codes = [codes for _, codes in parts]
    steps = sum(len(part) for part in codes)
    joined = codes[0].new_zeros(4, steps, codes[0].shape[3], rows)
    first = 0
    for (own_rows, _), part in zip(parts, codes):
        joined[:, first : first + len(part), :, own_rows] = part[:, :, : len(own_rows)].permute(1, 0, 3, 2)
        first += len(part)
    if joined.numel() < MAX_HOST_ELEMENTS:
        joined = joined.cpu()
    return CudaLattice(joined[0].long(), joined[1].long(), joined[2].view(torch.float32), joined[3].view(torch.float32))


def extract_hypotheses(
    lattice: CudaLattice, jobs: list[SearchJob], task: SearchTask
) -> Iterator[tuple[SearchJob, Hypothesis]]:
    """The n_best of each row, best first."""
    beam = task.search.beam_size
    device = lattice.ids.device
    exists = lattice.sums > -torch.inf
    ends = lattice.ids == task.special_tokens.end
    runs = exists & ~ends
    limits = torch.tensor([len(job.prefix) + job.max_new_tokens for job in jobs], device=device)
    last = torch.arange(1, len(ends) + 1, device=device)[:, None] >= limits  # (T, B)
    complete = exists & (ends | last[:, None])
    complete[:, beam:] = False  # only the K best may end; the others are spare ones that may run on instead
    ended = complete.sum(1).cumsum(0)
    stays = (runs.any(1) & ~last & (ended < beam)).cumprod(0).bool()
    alive = torch.cat([torch.ones_like(stays[:1]), stays[:-1]])  # (T, B)
    for step, row in (~(lattice.sums[:, 0] < torch.inf) & alive).nonzero().tolist():
        raise non_finite_error(jobs[row], step - len(jobs[row].prefix))
    complete &= alive[:, None]
    stuck = alive & ~exists.any(1) & (ended == 0)  # nothing can follow: the row's hypotheses so far are its output
    for step, row in stuck.nonzero().tolist():
        if step == 0:
            yield jobs[row], task.hypothesis(jobs[row], [], [], 0.0)
        else:
            before = runs[step - 1, :, row]
            complete[step - 1, :, row] = before & (before.cumsum(0) <= beam)
    best = _rank_ends(lattice, complete, jobs, task)
    ids, logps = _backtrace(lattice, runs, best)
    totals = lattice.sums[best].tolist()
    for step, row, own_ids, own_logps, total in zip(best.steps.tolist(), best.rows.tolist(), ids, logps, totals):
        job = jobs[row]
        yield job, task.hypothesis(job, own_ids[: step + 1], own_logps[len(job.prefix) : step + 1], total)


def _rank_ends(lattice: CudaLattice, complete: Tensor, jobs: list[SearchJob], task: SearchTask) -> CudaEnds:
    """Where the n_best of each row ended."""
    ends = CudaEnds(*complete.nonzero(as_tuple=True))
    prefixes = torch.tensor([len(job.prefix) for job in jobs], device=complete.device)
    lengths = ends.steps + 1 - prefixes[ends.rows]
    penalties = torch.tensor([task.length_penalty(n) for n in range(len(complete) + 1)], dtype=torch.float64)
    scores = lattice.sums[ends].double() / penalties.to(complete.device)[lengths]
    # By score, then by row; equal ones stay in the order in which they were found.
    order = scores.argsort(descending=True, stable=True)
    order = order[ends.rows[order].argsort(stable=True)]
    rows = ends.rows[order]
    rank = torch.arange(len(rows), device=rows.device) - torch.searchsorted(rows, rows)
    order = order[rank < task.search.n_best]
    return CudaEnds(*(index[order] for index in ends))


def _backtrace(lattice: CudaLattice, runs: Tensor, ends: CudaEnds) -> tuple[list[list[int]], list[list[float]]]:
    """Ids and log-probabilities of each hypothesis, (M, T), from its end back to the first step."""
    slots = (~runs).to(torch.uint8).argsort(dim=1, stable=True)  # (T, C, B) which candidate went into beam 0, 1 …
    before = slots[:-1].gather(1, lattice.parents[1:])  # (T - 1, C, B) which candidate each of the next step continues
    candidate = ends.candidates
    path = [candidate]
    for now in range(len(before), 0, -1):
        candidate = torch.where(ends.steps >= now, before[now - 1, candidate, ends.rows], candidate)
        path.append(candidate)
    steps = torch.arange(len(path), device=candidate.device)
    index = (steps, torch.stack(path[::-1], 1), ends.rows[:, None])  # (M, T)
    return lattice.ids[index].tolist(), lattice.logps[index].tolist()
