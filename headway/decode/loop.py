"""The search: one token a turn for all rows. Greedy, beam and sampling differ only in how they choose.

A row never looks at another. It leaves the batch when `beam_size` of its hypotheses have ended, when it is at its
maximum length, or when nothing can follow.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from headway.decode import choose, constrain, demanded
from headway.decode.batch import Batch, first_batch, prefill
from headway.decode.hypothesis import Hypothesis
from headway.decode.past import Past
from headway.decode.stepper import Remembered, S, Stepper
from headway.decode.task import Job, Task
from headway.decode.turn import Turn, harvest, look, narrate


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
        constrain.ban_ids(logps, suppress)
    if task.search.min_length:
        early = [len(job.prefix) + batch.step + 1 < task.search.min_length for job in batch.jobs]
        width = batch.sums.shape[1]
        constrain.ban_end(logps, task.marks.end, torch.tensor(early, device=task.device).repeat_interleave(width))
    if task.search.no_repeat_ngram:
        constrain.ban_repeats(logps, batch.history.flatten(0, 1), task.search.no_repeat_ngram)


def _pick(logps: Tensor, batch: Batch, task: Task) -> choose.Picks:
    search = task.search
    if any(job.demands for job in batch.jobs):
        return demanded.beam(logps, batch, task)
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
