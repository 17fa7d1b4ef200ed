"""From the candidates of every step to hypotheses, on the host and after the search: the same judgement as in `turn`,
for all steps at once.

T steps    B rows    C candidates of each    K beams    M hypotheses
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.decode.hypothesis import Hypothesis
from headway.decode.task import Job, Task
from headway.decode.turn import not_numbers

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Trellis:
    """All (T, B, C)."""

    ids: NDArray[np.int32]
    parents: NDArray[np.int32]
    logps: NDArray[np.float32]
    sums: NDArray[np.float32]

    @property
    def exists(self) -> NDArray[np.bool_]:
        return self.sums > -np.inf


def joined(parts: list[tuple[Ints, NDArray[np.int32]]], rows: int) -> Trellis:
    """What was read from one frame after the other: which rows were in it, and (steps, 4, frame's rows, C) words."""
    steps, candidates = sum(len(words) for _, words in parts), parts[0][1].shape[3]
    whole, first = np.zeros((4, steps, rows, candidates), dtype=np.int32), 0
    for kept, words in parts:
        whole[:, first : first + len(words), kept] = words[:, :, : len(kept)].swapaxes(0, 1)
        first += len(words)
    return Trellis(whole[0], whole[1], whole[2].view(np.float32), whole[3].view(np.float32))


def found(trellis: Trellis, jobs: list[Job], task: Task) -> Iterator[tuple[Job, Hypothesis]]:
    """The n_best of each row, best first."""
    beam, exists = task.search.beam_size, trellis.exists
    steps = np.arange(len(exists))[:, None]
    ends = trellis.ids == task.marks.end
    runs = exists & ~ends
    last = steps + 1 >= np.array([len(job.prefix) + job.room for job in jobs])  # (T, B)
    complete = exists & (ends | last[:, :, None])
    complete[:, :, beam:] = False  # only the K best may end; the others stand by to run on in their stead
    ended = complete.sum(2).cumsum(0)
    stays = np.logical_and.accumulate(runs.any(2) & ~last & (ended < beam))
    alive = np.concatenate([np.ones_like(stays[:1]), stays[:-1]])  # (T, B)
    for step, row in np.argwhere(~(trellis.sums[:, :, 0] < np.inf) & alive):
        raise not_numbers(jobs[row], step - len(jobs[row].prefix))
    complete &= alive[:, :, None]
    for step, row in np.argwhere(alive & ~exists.any(2) & (ended == 0)):  # nothing can follow: what it had is all
        if step == 0:
            yield jobs[row], task.hypothesis(jobs[row], [], [], 0.0)
        else:
            complete[step - 1, row] = runs[step - 1, row] & (runs[step - 1, row].cumsum() <= beam)
    best = _ranked(trellis, complete, jobs, task)
    lines = _traced(trellis, runs, *best)
    for step, row, line, logps, total in zip(best[0], best[1], *lines, trellis.sums[best].tolist()):
        job = jobs[row]
        yield job, task.hypothesis(job, line[: step + 1], logps[len(job.prefix) : step + 1], total)


def _ranked(trellis: Trellis, complete: NDArray[np.bool_], jobs: list[Job], task: Task) -> tuple[NDArray[np.intp], ...]:
    """Where the n_best of each row ended: steps, rows and candidates, (M,) each."""
    where = complete.nonzero()
    step, row = where[0], where[1]
    length = step + 1 - np.array([len(job.prefix) for job in jobs])[row]
    divisors = np.array([task.search.divisor(length) for length in range(len(complete) + 1)])
    scores = trellis.sums[where].astype(np.float64) / divisors[length]
    order = np.lexsort((-scores, row))  # equal ones stay in the order in which they were found
    counted = row[order]
    firsts = np.searchsorted(counted, counted)  # where each row begins
    order = order[np.arange(len(order)) - firsts < task.search.n_best]
    return tuple(index[order] for index in where)


def _traced(
    trellis: Trellis, runs: NDArray[np.bool_], step: NDArray[np.intp], row: NDArray[np.intp], place: NDArray[np.intp]
) -> tuple[list[list[int]], list[list[float]]]:
    """Ids and log-probabilities of each hypothesis, (M, T), from its end back to the first step."""
    size = (len(row), len(runs))
    ids, logps = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.float64)
    place = place.copy()
    for now in range(len(runs) - 1, -1, -1):
        ids[:, now], logps[:, now] = trellis.ids[now, row, place], trellis.logps[now, row, place]
        if now:
            slot = trellis.parents[now, row, place]  # the beam that it went on from: which of those that ran it was
            before = (runs[now - 1, row].cumsum(1) == slot[:, None] + 1).argmax(1)
            place = np.where(now <= step, before, place)
    return ids.tolist(), logps.tolist()
