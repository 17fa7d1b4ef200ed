"""A lean search in 8 bits, greedy or a beam, as one call of a kernel: Python's lock is free meanwhile, so that threads that
search different batches do not wait for each other. What it finds is what the plain loop finds over the same model."""

import ctypes
from collections.abc import Iterator

import torch
from torch import Tensor

from headway.decode import lattice
from headway.decode.cpu.cache import WholePast
from headway.decode.cpu.decoder import Lean
from headway.decode.cpu.native_tables import SearchTable, output_table, past_table
from headway.decode.request import Job, Task
from headway.decode.types import Hypothesis
from headway.nn.ops import native


def why_not(lean: Lean, task: Task) -> str:
    """Why this search has to take the plain loop; nothing if it need not."""
    if lean.sides is None or lean.output is None:
        return "there are no kernels for this model"
    for name in ("sample", "no_repeat_ngram", "shortlist"):
        if getattr(task.search, name):
            return f"{name} is set"
    if any(job.demands for job in task.jobs):
        return "something must be said"
    if task.record is not None:
        return "it is being recorded"
    if any(job.prefix for job in task.jobs):
        return "outputs begin with something given"
    longest = max((job.room for job in task.jobs), default=0)
    return "an output may outgrow the positions" if longest > lean.positions else ""


def run(lean: Lean, task: Task, source: Tensor, valid: Tensor | None) -> Iterator[tuple[Job, Hypothesis]]:
    jobs = [job for job in task.jobs if job.room > 0]
    if not jobs:
        return iter(())
    if len(jobs) < len(source):
        rows = [job.row for job in jobs]
        source, valid = source[rows], None if valid is None else valid[rows]
    past = lean.start(source, valid, len(jobs))
    assert isinstance(past, WholePast)
    steps = [(past.live.clone(), words) for words in _searched(lean, task, jobs, past)]
    return lattice.found(lattice.joined(steps, len(jobs)), jobs, task)


def _searched(lean: Lean, task: Task, jobs: list[Job], past: WholePast) -> Iterator[Tensor]:
    """The steps of each call, which makes as many as the past has room for: (steps, 4, P, C), see lattice.joined."""
    assert lean.sides is not None and lean.output is not None
    decoder, output = lean.sides[1], output_table(lean.output)
    count, beam = len(jobs), task.search.beam_size
    candidates, longest = 1 if beam == 1 else 2 * beam, max(job.room for job in jobs)
    past.widen(beam)
    live, limit, ended = (
        past.live.clone(),
        torch.tensor([job.room for job in jobs]),
        torch.zeros(count, dtype=torch.long),
    )
    ids, sums = torch.full((count * beam,), task.marks.start), torch.zeros(count * beam)
    suppress = torch.tensor(task.marks.suppress, dtype=torch.long)
    now, left = 1, count
    while left and past.length < longest:
        past.make_room()
        capacity = past.owners.shape[2]
        words = torch.zeros(capacity - past.length, 4, count, candidates, dtype=torch.int32)
        search = SearchTable(
            *(part.data_ptr() for part in (live, ids, sums, ended, limit, suppress, words)), len(suppress), left, beam,
            candidates, task.marks.end, task.search.min_length,
        )  # fmt: skip
        table = decoder.table(min(capacity, longest))
        remembered = past_table(decoder, past, table, now)
        native.call("hw_search", *map(ctypes.addressof, (table, output, remembered, search)))
        yield words[: remembered.length - past.length]
        past.length, now, left = remembered.length, remembered.now, search.left
