"""The int8 search on the CPU, greedy or a beam, as one call into C (nn/ops/native/search.c): Python's lock is free
meanwhile, so that threads that search different batches do not wait for each other. It finds what the reference search
finds over the same CpuDecoder."""

import ctypes
from collections.abc import Iterator

import torch
from torch import Tensor

from headway.decode import lattice
from headway.decode.cpu.cache import Int8KVCache
from headway.decode.cpu.decoder import CpuDecoder
from headway.decode.cpu.native_tables import SearchTable, cache_table, linear_table
from headway.decode.request import SearchJob, SearchTask
from headway.decode.types import Hypothesis
from headway.nn.ops import native


def unsupported(decoder: CpuDecoder, task: SearchTask) -> str:
    """Why this search has to run in Python; "" if it need not."""
    if decoder.stack_tables is None or decoder.output is None:
        return "there are no kernels for this model"
    for name in ("sample", "no_repeat_ngram", "shortlist"):
        if getattr(task.search, name):
            return f"{name} is set"
    if any(job.constraints for job in task.jobs):
        return "outputs have constraints"
    if task.record is not None:
        return "its steps are recorded"
    if any(job.prefix for job in task.jobs):
        return "outputs have a forced prefix"
    max_length = max((job.max_new_tokens for job in task.jobs), default=0)
    return "an output may exceed the learned positions" if max_length > decoder.max_positions else ""


def run_search(
    decoder: CpuDecoder, task: SearchTask, source: Tensor, valid: Tensor | None
) -> Iterator[tuple[SearchJob, Hypothesis]]:
    """The n_best of every job that may produce a token."""
    jobs = task.open_jobs
    if not jobs:
        return iter(())
    if len(jobs) < len(source):
        rows = [job.row for job in jobs]
        source = source[rows]
        valid = None if valid is None else valid[rows]
    cache = decoder.start(source, valid, len(jobs))
    assert isinstance(cache, Int8KVCache)
    steps = [(cache.live.clone(), codes) for codes in _search_steps(decoder, task, jobs, cache)]
    return lattice.extract_hypotheses(lattice.join_steps(steps, len(jobs)), jobs, task)


def _search_steps(decoder: CpuDecoder, task: SearchTask, jobs: list[SearchJob], cache: Int8KVCache) -> Iterator[Tensor]:
    """The steps of each call, which makes as many as fit into the cache: (steps, 4, P, C), see lattice.join_steps."""
    assert decoder.stack_tables is not None and decoder.output is not None
    decoder_tables = decoder.stack_tables[1]
    output = linear_table(decoder.output)
    count = len(jobs)
    beam = task.search.beam_size
    candidates = 1 if beam == 1 else 2 * beam
    max_length = max(job.max_new_tokens for job in jobs)
    cache.widen(beam)
    live = cache.live.clone()
    limit = torch.tensor([job.max_new_tokens for job in jobs])
    ended = torch.zeros(count, dtype=torch.long)
    ids = torch.full((count * beam,), task.special_tokens.start)
    sums = torch.zeros(count * beam)
    suppress = torch.tensor(task.special_tokens.suppress, dtype=torch.long)
    width, active = 1, count  # hypotheses of each sentence; sentences that are not done
    while active and cache.length < max_length:
        cache.grow()
        capacity = cache.owners.shape[2]
        codes = torch.zeros(capacity - cache.length, 4, count, candidates, dtype=torch.int32)
        search = SearchTable(
            *(part.data_ptr() for part in (live, ids, sums, ended, limit, suppress, codes)), len(suppress), active,
            beam, candidates, task.special_tokens.end, task.search.min_length,
        )  # fmt: skip
        stack = decoder_tables.table(min(capacity, max_length))
        cached = cache_table(decoder_tables, cache, stack, width)
        native.call("hw_search", *map(ctypes.addressof, (stack, output, cached, search)))
        yield codes[: cached.length - cache.length]
        cache.length, width, active = cached.length, cached.now, search.active
