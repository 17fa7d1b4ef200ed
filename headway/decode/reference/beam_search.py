"""One step seen from the host: what became of each candidate, found out with one small transfer.

The search: one token a turn for all rows. Greedy, beam and sampling differ only in how they choose.

A row never looks at another. It leaves the batch when `beam_size` of its hypotheses have ended, when it is at its
maximum length, or when nothing can follow.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.decode import constraints_torch
from headway.decode.cpu.cache import Past
from headway.decode.reference import candidates as choose
from headway.decode.reference import constrained_beam
from headway.decode.reference.beam import Batch, first_batch, prefill
from headway.decode.reference.candidates import Picks
from headway.decode.reference.model import Remembered, S, Stepper
from headway.decode.request import Job, Task
from headway.decode.types import Choice, Fate, Hypothesis
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


def run(
    stepper: Stepper[S], task: Task, source: Tensor | None, valid: Tensor | None
) -> Iterator[tuple[Batch, list[tuple[Job, Hypothesis]]]]:
    """After each turn, the batch that is left and what was found."""
    jobs = [job for job in task.jobs if job.room > 0]
    if not jobs:
        return
    state = _start(stepper, jobs, source, valid)
    suppress = torch.tensor(task.marks.suppress, dtype=torch.long, device=task.device)
    batch, (ids, real) = first_batch(jobs, task.device), prefill(jobs, task)
    while batch.jobs:
        logps = stepper.step(state, ids, real)  # (B·W, V)
        _forbid(logps, batch, task, suppress)
        turn = look(_pick(logps, batch, task), batch, task)
        new = list(harvest(turn, batch, task))
        if task.record is not None:
            for choice in narrate(turn, batch, task):
                task.record(choice)
        if turn.stays.any():
            _advance(batch, turn, state, task)
            ids, real = batch.history[:, :, -1].reshape(-1, 1), None  # (B·W, 1)
        else:
            batch.jobs = []
        yield batch, new


def _start(stepper: Stepper[S], jobs: list[Job], source: Tensor | None, valid: Tensor | None) -> S:
    """Read each source once, though several hypotheses may be drawn for it."""
    rows = sorted({job.row for job in jobs})
    if source is not None and len(rows) < source.shape[0]:
        source, valid = source[rows], None if valid is None else valid[rows]
    source, valid = (None if part is None else part.to(stepper.device) for part in (source, valid))
    state = stepper.start(source, valid, len(rows))
    if len(rows) < len(jobs):
        place = {row: index for index, row in enumerate(rows)}
        state.select(torch.tensor([place[job.row] for job in jobs], device=stepper.device))
    return state


def _forbid(logps: Tensor, batch: Batch, task: Task, suppress: Tensor) -> None:
    """Set to -inf, in logps (B·W, V), what the settings do not allow."""
    if len(suppress):
        constraints_torch.ban_ids(logps, suppress)
    if task.search.min_length:
        early = [len(job.prefix) + batch.step + 1 < task.search.min_length for job in batch.jobs]
        width = batch.sums.shape[1]
        constraints_torch.ban_end(
            logps, task.marks.end, torch.tensor(early, device=task.device).repeat_interleave(width)
        )
    if task.search.no_repeat_ngram:
        constraints_torch.ban_repeats(logps, batch.history.flatten(0, 1), task.search.no_repeat_ngram)


def _pick(logps: Tensor, batch: Batch, task: Task) -> choose.Picks:
    search = task.search
    if any(job.demands for job in batch.jobs):
        return constrained_beam.beam(logps, batch, task)
    if search.sample:  # 32 bits each, so that the product with a sum stays below the sum
        drawn = [job.noise.getrandbits(32) / 2**32 for job in batch.jobs if job.noise is not None]
        noise = torch.tensor(drawn, dtype=torch.float64, device=task.device)[:, None]
        return choose.draw(logps, batch.sums, noise, search)
    if search.beam_size == 1:
        return choose.greedy(logps, batch.sums)
    return choose.beam(logps, batch.sums, search.beam_size)


def _advance(batch: Batch, turn: Turn, state: Remembered, task: Task) -> None:
    """Move to the next step: the rows that stay, each with the candidates that run on."""
    picks, width = turn.picks, batch.sums.shape[1]
    parents, ids, logps, sums = (
        part.gather(1, turn.order) for part in (picks.parents, picks.ids, picks.logps, picks.sums)
    )  # (B, K)
    rows = torch.arange(len(batch.jobs), device=task.device)  # (B,)
    if not turn.stays.all():
        stays = turn.stays.nonzero()[0]
        batch.keep(stays)
        rows = torch.from_numpy(stays).to(task.device)
        parents, ids, logps, sums = (part[rows] for part in (parents, ids, logps, sums))
    if turn.moved or not turn.stays.all():
        if isinstance(state, Past):
            state.follow(rows, parents)
        else:
            state.select((rows[:, None] * width + parents).flatten())
        batch.take(rows, parents)
    # Where too few run on, the last slots hold candidates that ended or never were. They stay empty.
    batch.append(ids, logps, sums.masked_fill(ids == task.marks.end, -torch.inf))
