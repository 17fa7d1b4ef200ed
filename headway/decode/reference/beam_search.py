"""Beam search, greedy search and sampling: one token a step for all rows. They differ only in their candidates.

The beam search stopping rule, with K = beam_size. This is its definition; the CUDA search (cuda/beam_state.py and
nn/ops/triton/beam_step.py), the CPU search (nn/ops/native/search.c), lattice.py, cuda/lattice.py and the tests' plain
form (tests/decode/tables.py) are other forms of it.

At each step a row has up to C candidates (2K; 1 when greedy or sampling), best first: a running hypothesis and one
more token. A candidate exists if its sum is above -inf.

  - A candidate is finished if it is one of the K best and either its token is the end token (it "ends"), or this step
    is the row's last, by its maximum length (it is "cut"). Ended candidates below the K best are dropped.
  - The K best of those that exist and do not end run on: they are the row's beam at the next step, in this order. All
    C take part, so that K can run on even if some of the K best have ended.
  - The row stops when K of its hypotheses have finished, at its last step, or when nothing runs on. Scores play no
    part in that (as with early_stopping=True in Hugging Face). With search.stopping = "score", which only this search
    and nn/ops/native/search.c have, it is not enough that K have finished: the best that runs on must not score above
    the K-th best of them.
  - If no candidate exists and nothing has finished, the row is stuck: its running hypotheses are its output.

Its output are the n_best of its finished hypotheses by score, logp / penalty(length); equal scores keep the order in
which they finished. Rows do not influence each other: a row that stops leaves the batch.

B rows    W hypotheses each, now    K hypotheses each, from the next step on    C candidates    V vocabulary
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.decode import banned_tokens
from headway.decode.reference.beam import Beam, initial_beam, prefill_ids
from headway.decode.reference.candidates import Candidates, pick_beam, pick_greedy, pick_sample
from headway.decode.reference.constrained_beam import pick_constrained
from headway.decode.reference.model import ReorderableState, S, Stepper, StepperState
from headway.decode.request import SearchJob, SearchTask, non_finite_error
from headway.decode.stop import check_stop
from headway.decode.types import BeamStep, Fate, Hypothesis

MISSING, RUNS, ENDS = 0, 1, 2  # a candidate does not exist, could run on, has the end token


def beam_search(
    stepper: Stepper[S], task: SearchTask, source: Tensor | None, valid: Tensor | None
) -> Iterator[tuple[Beam, list[tuple[SearchJob, Hypothesis]]]]:
    """After each step, the beam that is left and the hypotheses that have finished."""
    jobs = task.open_jobs
    if not jobs:
        return
    state = _start(stepper, jobs, source, valid)
    suppress = torch.tensor(task.special_tokens.suppress, dtype=torch.long, device=task.device)
    beam = initial_beam(jobs, task)
    ids, real = prefill_ids(jobs, task)
    while beam.jobs:
        check_stop()
        logps = stepper.step(state, ids, real)  # (B·W, V)
        _ban_tokens(logps, beam, task, suppress)
        outcome = classify(_pick_candidates(logps, beam, task), beam, task)
        new = list(collect_finished(outcome, beam, task))
        if task.record is not None:
            for step in record_step(outcome, beam, task):
                task.record(step)
        if outcome.stays.any():
            _advance(beam, outcome, state, task)
            ids = beam.history[:, :, -1].reshape(-1, 1)  # (B·W, 1)
            real = None
        else:
            beam.jobs = []
        yield beam, new


def _start(stepper: Stepper[S], jobs: list[SearchJob], source: Tensor | None, valid: Tensor | None) -> S:
    """Encode each source once, though several hypotheses may be drawn for it."""
    rows = sorted({job.row for job in jobs})
    if source is not None and len(rows) < source.shape[0]:
        source = source[rows]
        valid = None if valid is None else valid[rows]
    source, valid = (None if part is None else part.to(stepper.device) for part in (source, valid))
    state = stepper.start(source, valid, len(rows))
    if len(rows) < len(jobs):
        index_of = {row: index for index, row in enumerate(rows)}
        state.select(torch.tensor([index_of[job.row] for job in jobs], device=stepper.device))
    return state


def _ban_tokens(logps: Tensor, beam: Beam, task: SearchTask, suppress: Tensor) -> None:
    """Set to -inf, in logps (B·W, V), what the settings do not allow."""
    if len(suppress):
        banned_tokens.ban_ids(logps, suppress)
    if task.search.min_length:
        early = [len(job.prefix) + beam.step + 1 < task.search.min_length for job in beam.jobs]
        width = beam.sums.shape[1]
        early_slots = torch.tensor(early, device=task.device).repeat_interleave(width)
        banned_tokens.ban_end(logps, task.special_tokens.end, early_slots)
    if task.search.no_repeat_ngram:
        banned_tokens.ban_repeats(logps, beam.history.flatten(0, 1), task.search.no_repeat_ngram)
    if task.search.force_end:
        last = torch.from_numpy(beam.step + 1 >= beam.max_new_tokens).to(task.device)
        banned_tokens.force_end(logps, task.special_tokens.end, last.repeat_interleave(beam.sums.shape[1]))
    if task.search.renormalise:
        banned_tokens.renormalise(logps)


def _pick_candidates(logps: Tensor, beam: Beam, task: SearchTask) -> Candidates:
    search = task.search
    if any(job.constraints for job in beam.jobs):
        return pick_constrained(logps, beam, task)
    if search.sample:  # 32 bits each, so that the product with a sum stays below the sum
        drawn = [job.rng.getrandbits(32) / 2**32 for job in beam.jobs if job.rng is not None]
        noise = torch.tensor(drawn, dtype=torch.float64, device=task.device)[:, None]
        return pick_sample(logps, beam.sums, noise, search)
    if search.beam_size == 1:
        return pick_greedy(logps, beam.sums)
    return pick_beam(logps, beam.sums, search.beam_size)


@dataclass(frozen=True)
class StepOutcome:
    """What became of the candidates of a step: the stopping rule, applied."""

    candidates: Candidates  # (B, C)
    order: Tensor  # (B, K) the candidates for the slots of the next step, best first
    codes: NDArray[np.uint8]  # (B, C) MISSING, RUNS or ENDS
    finished: NDArray[np.bool_]  # (B, C) has ended, or is cut at the maximum length
    stuck: NDArray[np.bool_]  # (B,) nothing can follow and nothing has finished
    stays: NDArray[np.bool_]  # (B,) is searched further
    reordered: bool  # some hypothesis is not in the slot of its parent


def classify(candidates: Candidates, beam: Beam, task: SearchTask) -> StepOutcome:
    """Apply the stopping rule, with one small transfer from the device to the host."""
    width = task.search.beam_size
    ends = candidates.ids == task.special_tokens.end
    codes = (candidates.sums > -torch.inf).to(torch.uint8) * (1 + ends.to(torch.uint8))  # (B, C)
    order = (codes != RUNS).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]  # (B, K)
    reordered = candidates.parents.gather(1, order) != torch.arange(width, device=task.device)
    non_finite = ~(candidates.sums[:, 0] < torch.inf)
    flags = torch.stack([non_finite, reordered.any(1)], dim=1).to(torch.uint8)
    on_host = torch.cat([codes, flags], dim=1).cpu().numpy()  # the transfer
    for row in on_host[:, -2].nonzero()[0]:
        raise non_finite_error(beam.jobs[row], beam.step)
    return _apply_stopping_rule(candidates, order, on_host[:, :-2], bool(on_host[:, -1].any()), beam, task)


def _apply_stopping_rule(
    candidates: Candidates, order: Tensor, codes: NDArray[np.uint8], reordered: bool, beam: Beam, task: SearchTask
) -> StepOutcome:
    width = task.search.beam_size
    last = beam.step + 1 >= beam.max_new_tokens  # (B,)
    finished = (codes == ENDS) | (last[:, None] & (codes == RUNS))
    finished[:, width:] = False
    beam.ended += finished.sum(1)
    runs = (codes == RUNS).any(1)
    stays = runs & ~last
    stays &= _may_improve(candidates, codes, finished, beam, task) if beam.best_scores.size else beam.ended < width
    stuck = ~(codes != MISSING).any(1) & (beam.ended == 0)
    return StepOutcome(candidates, order, codes, finished, stuck, stays, reordered)


def _may_improve(
    candidates: Candidates, codes: NDArray[np.uint8], finished: NDArray[np.bool_], beam: Beam, task: SearchTask
) -> NDArray[np.bool_]:
    """(B,) fewer than K have finished, or the best that runs on would be one of the K best."""
    sums = candidates.sums.double().cpu().numpy()
    scores = sums / task.length_penalty(beam.step + 1)  # (B, C)
    found = np.concatenate([beam.best_scores, np.where(finished, scores, -np.inf)], axis=1)
    beam.best_scores = -np.sort(-found, axis=1)[:, : task.search.beam_size]
    best_running = np.where(codes == RUNS, scores, -np.inf).max(1)
    result: NDArray[np.bool_] = best_running > beam.best_scores[:, -1]
    return result


def collect_finished(outcome: StepOutcome, beam: Beam, task: SearchTask) -> Iterator[tuple[SearchJob, Hypothesis]]:
    """The hypotheses that finished at this step. A stuck row gives those it had, so that every row has an output."""
    candidates = outcome.candidates
    if outcome.finished.any():
        indices = outcome.finished.nonzero()
        row, candidate = (torch.from_numpy(index).to(task.device) for index in indices)  # (E,)
        parent = candidates.parents[row, candidate]
        ids = torch.cat([beam.history[row, parent], candidates.ids[row, candidate, None]], dim=1)
        logps = torch.cat([beam.logps[row, parent], candidates.logps[row, candidate, None]], dim=1)
        jobs = [beam.jobs[index] for index in indices[0]]
        yield from _make_hypotheses(task, jobs, ids, logps, candidates.sums[row, candidate])
    for index in outcome.stuck.nonzero()[0]:
        live = (beam.sums[index] > -torch.inf).nonzero()[:, 0]
        jobs = [beam.jobs[index]] * len(live)
        yield from _make_hypotheses(
            task, jobs, beam.history[index, live], beam.logps[index, live], beam.sums[index, live]
        )


def _make_hypotheses(
    task: SearchTask, jobs: list[SearchJob], ids: Tensor, logps: Tensor, sums: Tensor
) -> Iterator[tuple[SearchJob, Hypothesis]]:
    """ids: (E, P + t), logps: (E, t), sums: (E,)."""
    numbers = torch.cat([logps, sums[:, None]], dim=1).tolist()
    for job, tokens, values in zip(jobs, ids.tolist(), numbers):
        yield job, task.hypothesis(job, [token for token in tokens if token >= 0], values[:-1], values[-1])


def record_step(outcome: StepOutcome, beam: Beam, task: SearchTask) -> Iterator[BeamStep]:
    """The same step for a recorder, row by row."""
    candidates = outcome.candidates
    parts = (candidates.parents, candidates.ids, candidates.sums)
    for index, (job, parents, ids, sums) in enumerate(zip(beam.jobs, *(part.tolist() for part in parts))):
        codes, finished = outcome.codes[index], outcome.finished[index]
        rank = np.cumsum(codes == RUNS)  # of each that could run on, from 1
        runs = (codes == RUNS) & (rank <= task.search.beam_size) & outcome.stays[index]
        existing = [i for i, code in enumerate(codes) if code != MISSING]
        fates: list[Fate] = [
            "ends" if finished[i] and codes[i] == ENDS else "cut" if finished[i] else "runs" if runs[i] else "pruned"
            for i in existing
        ]
        own_parents, own_ids, own_sums = ([part[i] for i in existing] for part in (parents, ids, sums))
        yield BeamStep(job.row, beam.step, own_parents, own_ids, own_sums, fates, job.copy)


def _advance(beam: Beam, outcome: StepOutcome, state: StepperState, task: SearchTask) -> None:
    """Move to the next step: the rows that stay, each with the candidates that run on."""
    candidates = outcome.candidates
    width = beam.sums.shape[1]
    parents, ids, logps, sums = (
        part.gather(1, outcome.order)
        for part in (candidates.parents, candidates.ids, candidates.logps, candidates.sums)
    )  # (B, K)
    rows = torch.arange(len(beam.jobs), device=task.device)  # (B,)
    if not outcome.stays.all():
        stays = outcome.stays.nonzero()[0]
        beam.keep_rows(stays)
        rows = torch.from_numpy(stays).to(task.device)
        parents, ids, logps, sums = (part[rows] for part in (parents, ids, logps, sums))
    if outcome.reordered or not outcome.stays.all():
        if isinstance(state, ReorderableState):
            state.reorder(rows, parents)
        else:
            state.select((rows[:, None] * width + parents).flatten())
        beam.reorder(rows, parents)
    # Where too few run on, the last slots hold candidates that ended or do not exist. They stay empty.
    beam.append(ids, logps, sums.masked_fill(ids == task.special_tokens.end, -torch.inf))
