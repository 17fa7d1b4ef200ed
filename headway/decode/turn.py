"""One step seen from the host: what became of each candidate, found out with one small transfer."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.decode.batch import Batch
from headway.decode.choose import Picks
from headway.decode.hypothesis import Choice, Fate, Hypothesis
from headway.decode.task import Job, Task
from headway.errors import HeadwayError

DEAD, RUNS, ENDS = 0, 1, 2  # a candidate does not exist, could go on, is complete


@dataclass(frozen=True)
class Turn:
    picks: Picks  # (B, C)
    order: Tensor  # (B, K) the candidates for the slots of the next step, best first
    codes: NDArray[np.uint8]  # (B, C) DEAD, RUNS or ENDS
    found: NDArray[np.bool_]  # (B, C) has ended, or is cut at the maximum length
    stuck: NDArray[np.bool_]  # (B,) nothing can follow and nothing was found
    stays: NDArray[np.bool_]  # (B,) is searched further
    moved: bool  # some hypothesis is not in the slot of its parent


def look(picks: Picks, batch: Batch, task: Task) -> Turn:
    """Judge the candidates. Only the K best may end or be cut; the others stand by to run on in their stead."""
    width = task.search.beam_size
    ends = picks.ids == task.marks.end
    codes = (picks.sums > -torch.inf).to(torch.uint8) * (1 + ends.to(torch.uint8))  # (B, C)
    order = (codes != RUNS).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]  # (B, K)
    moved = picks.parents.gather(1, order) != torch.arange(width, device=task.device)
    broken = ~(picks.sums[:, 0] < torch.inf)
    flags = torch.stack([broken, moved.any(1)], dim=1).to(torch.uint8)
    told = torch.cat([codes, flags], dim=1).cpu().numpy()  # the transfer
    for row in told[:, -2].nonzero()[0]:
        raise not_numbers(batch.jobs[row], batch.step)
    return _judge(picks, order, told[:, :-2], bool(told[:, -1].any()), batch, task)


def not_numbers(job: Job, step: int) -> HeadwayError:
    """For a row whose log-probabilities were NaN or infinite after `step` tokens."""
    return HeadwayError(
        f"row {job.row}, output token {step + 1}: the model's log-probabilities are not numbers (NaN or infinite). Its "
        "weights are damaged, or it overflows in this precision: try float32."
    )


def _judge(picks: Picks, order: Tensor, codes: NDArray[np.uint8], moved: bool, batch: Batch, task: Task) -> Turn:
    width = task.search.beam_size
    last = batch.step + 1 >= batch.room  # (B,)
    found = (codes == ENDS) | (last[:, None] & (codes == RUNS))
    found[:, width:] = False
    batch.ended += found.sum(1)
    runs = (codes == RUNS).any(1)
    stays = runs & ~last & (batch.ended < width)
    return Turn(picks, order, codes, found, ~(codes != DEAD).any(1) & (batch.ended == 0), stays, moved)


def harvest(turn: Turn, batch: Batch, task: Task) -> Iterator[tuple[Job, Hypothesis]]:
    """What this step has found. A stuck row gives the hypotheses it had, so that no line is lost."""
    if turn.found.any():
        places = turn.found.nonzero()
        row, place = (torch.from_numpy(index).to(task.device) for index in places)  # (E,)
        parent = turn.picks.parents[row, place]
        ids = torch.cat([batch.history[row, parent], turn.picks.ids[row, place, None]], dim=1)
        logps = torch.cat([batch.logps[row, parent], turn.picks.logps[row, place, None]], dim=1)
        yield from _collect(task, [batch.jobs[index] for index in places[0]], ids, logps, turn.picks.sums[row, place])
    for index in turn.stuck.nonzero()[0]:
        live = (batch.sums[index] > -torch.inf).nonzero()[:, 0]
        lines = (batch.history[index, live], batch.logps[index, live], batch.sums[index, live])
        yield from _collect(task, [batch.jobs[index]] * len(live), *lines)


def _collect(task: Task, jobs: list[Job], ids: Tensor, logps: Tensor, sums: Tensor) -> Iterator[tuple[Job, Hypothesis]]:
    """ids: (E, P + t), logps: (E, t), sums: (E,)."""
    numbers = torch.cat([logps, sums[:, None]], dim=1).tolist()
    for job, line, values in zip(jobs, ids.tolist(), numbers):
        yield job, task.hypothesis(job, [token for token in line if token >= 0], values[:-1], values[-1])


def narrate(turn: Turn, batch: Batch, task: Task) -> Iterator[Choice]:
    """The same step for a recorder, row by row."""
    parts = (turn.picks.parents, turn.picks.ids, turn.picks.sums)
    for index, (job, parents, ids, sums) in enumerate(zip(batch.jobs, *(part.tolist() for part in parts))):
        codes, found = turn.codes[index], turn.found[index]
        ahead = np.cumsum(codes == RUNS)  # how many run, this one included
        goes = (codes == RUNS) & (ahead <= task.search.beam_size) & turn.stays[index]
        live = [place for place, code in enumerate(codes) if code != DEAD]
        fates: list[Fate] = [
            "ends" if found[i] and codes[i] == ENDS else "cut" if found[i] else "runs" if goes[i] else "pruned"
            for i in live
        ]
        kept = [[part[i] for i in live] for part in (parents, ids, sums)]
        yield Choice(job.row, batch.step, kept[0], kept[1], kept[2], fates, job.copy)
