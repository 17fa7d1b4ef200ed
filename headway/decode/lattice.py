"""From the candidates of every step to hypotheses, after a search by the C kernels: the beam search stopping rule (see
reference/beam_search.py) for all steps at once, then a backtrace. In numpy; cuda/lattice.py is the same on a GPU.

T steps    B rows    C candidates of each    K beams    M hypotheses
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from headway.decode.request import SearchJob, SearchTask, non_finite_error
from headway.decode.types import Hypothesis

Array = np.ndarray[Any, Any]


class Lattice(NamedTuple):
    """All candidates of a search, (T, B, C) each, of the steps after a forced prefix."""

    ids: Array
    parents: Array
    logps: Array
    sums: Array


class HypothesisEnds(NamedTuple):
    """Where hypotheses ended, (M,) each."""

    steps: Array
    rows: Array
    candidates: Array  # which of the candidates of that step


def join_steps(parts: list[Array]) -> Lattice:
    """From what was written part by part, int32 codes (steps, 4, B, C): ids, parents, and the bits of the floats logps
    and sums."""
    codes = np.concatenate(parts) if len(parts) > 1 else parts[0]
    ids, parents, logps, sums = (codes[:, index] for index in range(4))
    return Lattice(ids, parents, logps.view(np.float32), sums.view(np.float32))


def extract_hypotheses(
    lattice: Lattice, jobs: list[SearchJob], task: SearchTask
) -> Iterator[tuple[SearchJob, Hypothesis]]:
    """The n_best of each row, best first."""
    beam = task.search.beam_size
    exists = lattice.sums > -np.inf
    ends = lattice.ids == task.special_tokens.end
    runs = exists & ~ends
    limits = np.array([job.max_new_tokens for job in jobs])
    last = np.arange(1, len(ends) + 1)[:, None] >= limits  # (T, B)
    complete = exists & (ends | last[:, :, None])
    complete[:, :, beam:] = False  # only the K best may end; the others are spare ones that may run on instead
    ended = complete.sum(2).cumsum(0)
    by_score = task.search.stopping == "score" and beam > 1
    improves = _may_improve(lattice, complete, runs, task) if by_score else ended < beam
    stays = np.logical_and.accumulate(runs.any(2) & ~last & improves)
    alive = np.concatenate([np.ones_like(stays[:1]), stays[:-1]])  # (T, B)
    for step, row in np.argwhere(~(lattice.sums[:, :, 0] < np.inf) & alive):
        raise non_finite_error(jobs[row], int(step))
    complete &= alive[:, :, None]
    stuck = alive & ~exists.any(2) & (ended == 0)  # nothing can follow: the row's hypotheses so far are its output
    for step, row in np.argwhere(stuck):
        if step == 0:
            yield jobs[row], task.hypothesis(jobs[row], jobs[row].prefix, [], 0.0)
        else:
            before = runs[step - 1, row]
            complete[step - 1, row] = before & (before.cumsum() <= beam)
    best = _rank_ends(lattice, complete, task)
    ids, logps = _backtrace(lattice, runs, best)
    totals = lattice.sums[best].tolist()
    for step, row, own_ids, own_logps, total in zip(best.steps.tolist(), best.rows.tolist(), ids, logps, totals):
        job = jobs[row]
        yield job, task.hypothesis(job, [*job.prefix, *own_ids[: step + 1]], own_logps[: step + 1], total)


def _may_improve(lattice: Lattice, complete: Array, runs: Array, task: SearchTask) -> Array:
    """(T, B) after each step: the best that runs on would be one of the K best that have finished, or there are fewer
    than K. As long as a row is searched; what follows has no meaning."""
    beam = task.search.beam_size
    best = np.full((complete.shape[1], beam), -np.inf)
    improves = np.zeros(complete.shape[:2], bool)
    for step in range(len(complete)):
        scores = lattice.sums[step].astype(np.float64) / task.length_penalty(step + 1)  # (B, C)
        found = np.concatenate([best, np.where(complete[step], scores, -np.inf)], axis=1)
        best = -np.sort(-found, axis=1)[:, :beam]
        improves[step] = np.where(runs[step], scores, -np.inf).max(1) > best[:, -1]
    return improves


def _rank_ends(lattice: Lattice, complete: Array, task: SearchTask) -> HypothesisEnds:
    """Where the n_best of each row ended."""
    steps, rows, candidates = complete.nonzero()
    penalties = np.array([task.length_penalty(n) for n in range(len(complete) + 1)])
    scores = lattice.sums[steps, rows, candidates].astype(np.float64) / penalties[steps + 1]
    # By row, then by score; equal ones stay in the order in which they were found.
    order = np.lexsort((-scores, rows))
    rows = rows[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
    order = order[rank < task.search.n_best]
    return HypothesisEnds(steps[order], rows[rank < task.search.n_best], candidates[order])


def _backtrace(lattice: Lattice, runs: Array, ends: HypothesisEnds) -> tuple[list[list[int]], list[list[float]]]:
    """Ids and log-probabilities of each hypothesis, (M, T), from its end back to the first step."""
    slots = np.argsort(~runs, axis=2, kind="stable")  # (T, B, C) which candidate went into beam 0, 1 …
    candidate = ends.candidates
    path = [candidate]
    for now in range(len(runs) - 1, 0, -1):
        parent = lattice.parents[now, ends.rows, candidate]
        candidate = np.where(ends.steps >= now, slots[now - 1, ends.rows, parent], candidate)
        path.append(candidate)
    index = (np.arange(len(path)), ends.rows[:, None], np.stack(path[::-1], 1))  # (M, T)
    return lattice.ids[index].tolist(), lattice.logps[index].tolist()
