"""The int8 search, greedy or a beam, in C (nn/ops/native/search.c): Python's lock is free meanwhile, so that threads
that search different batches do not wait for each other. It finds what the reference search finds.

    rows ── hw_encode ──► cross-attention caches ── hw_decode: forced prefix ── hw_search ──► lattice ──► hypotheses

Two ways to end a search: within a step, another thread sets its StopFlag (NativeEngine.stop does so; run_search raises
KeyboardInterrupt); and decode.stop.check_stop, which is called every STEPS_PER_CALL steps.
"""

import ctypes
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headway.decode import lattice
from headway.decode.native.kv_cache import Array, NativeKVCache, encode_source, pack_ids
from headway.decode.request import SearchJob, SearchTask, describe_other_method
from headway.decode.stop import check_stop
from headway.decode.types import Hypothesis
from headway.nn.ops import native
from headway.nn.ops.native.tables import LayerTable, LinearTable, SearchTable, StackStruct

STEPS_PER_CALL = 8  # between which it is asked whether to stop


class StackTables(Protocol):
    """An encoder or a decoder as the kernels read it."""

    width: int

    @property
    def tables(self) -> list[LayerTable]: ...

    def table(self, length: int) -> StackStruct:
        """For sequences of up to this length. Its layers are a copy, into which a search writes where its cache is."""


@dataclass(frozen=True)
class SearchModel:
    """A model whose parts are all known to the kernels."""

    encoder: StackTables
    decoder: StackTables
    output: LinearTable
    max_positions: float  # that the decoder has learned; inf: any number


class StopFlag:
    """An integer that the kernels look at before each step."""

    def __init__(self) -> None:
        self.value = np.zeros(1, np.int32)

    def set(self) -> None:
        self.value[0] = 1

    def is_set(self) -> bool:
        return bool(self.value[0])


def unsupported(max_positions: float, task: SearchTask) -> str:
    """Why this search has to run in Python; "" if it need not."""
    if reason := describe_other_method(task.search):
        return reason
    for name in ("sample", "shortlist"):
        if getattr(task.search, name):
            return f"{name} is set"
    if any(job.constraints for job in task.jobs):
        return "outputs have constraints"
    if task.record is not None:
        return "its steps are recorded"
    max_length = max((len(job.prefix) + job.max_new_tokens for job in task.jobs), default=0)
    return "an output may exceed the learned positions" if max_length > max_positions else ""


def run_search(
    model: SearchModel, task: SearchTask, rows: Sequence[Sequence[int]], stop: StopFlag
) -> Iterator[tuple[SearchJob, Hypothesis]]:
    """The n_best of every job that may produce a token. Jobs whose prefixes are equally long are searched together."""
    jobs = sorted(task.open_jobs, key=lambda job: len(job.prefix))
    for _, group in itertools.groupby(jobs, key=lambda job: len(job.prefix)):
        own = list(group)
        steps = list(_search_steps(model, task, own, [rows[job.row] for job in own], stop))
        yield from lattice.extract_hypotheses(lattice.join_steps(steps), own, task)


def _search_steps(
    model: SearchModel, task: SearchTask, jobs: list[SearchJob], rows: list[Sequence[int]], stop: StopFlag
) -> Iterator[Array]:
    """The steps of each call, which makes as many as fit into the cache: (steps, 4, P, C), see lattice.join_steps."""
    count = len(jobs)
    beam = task.search.beam_size
    candidates = 1 if beam == 1 else 2 * beam
    limit = np.array([len(job.prefix) + job.max_new_tokens for job in jobs], np.int64)
    max_length = int(limit.max())
    cache = NativeKVCache(pack_ids(rows), model.decoder.tables, beam)
    encode_source(model.encoder, model.decoder, cache)
    live = np.arange(count, dtype=np.int64)
    forced = np.array([[task.special_tokens.start, *job.prefix] for job in jobs], np.int64)  # (P, 1 + prefix)
    _feed_prefix(model, cache, live, forced[:, :-1])
    ids = np.zeros(count * beam, np.int64)
    ids[:count] = forced[:, -1]
    sums = np.zeros(count * beam, np.float32)
    ended = np.zeros(count, np.int64)
    suppress = np.array(task.special_tokens.suppress, np.int64)
    best_scores = np.full((count, beam), -np.inf) if task.search.stopping == "score" and beam > 1 else None
    width, active = 1, count  # hypotheses of each sentence; sentences that are not done
    while active and cache.length < max_length:
        if cache.length == cache.capacity:
            cache.grow()
        steps = min(STEPS_PER_CALL, cache.capacity - cache.length, max_length - cache.length)
        first = cache.length - forced.shape[1] + 2  # how many tokens are produced after the next step
        penalties = np.array([task.length_penalty(n) for n in range(first, first + steps)])
        codes = np.zeros((steps, 4, count, candidates), np.int32)
        arrays = (live, ids, sums, ended, limit, suppress, codes, cache.inputs, stop.value, penalties, best_scores)
        search = SearchTable(
            *map(native.address_of, arrays), len(suppress), active, beam, candidates, task.special_tokens.end,
            task.search.min_length, task.search.no_repeat_ngram, steps, task.search.force_end, task.search.renormalise,
        )  # fmt: skip
        stack = model.decoder.table(cache.length + steps)
        cache.write_addresses(stack)
        cached = cache.table(width)
        native.call("hw_search", *_addresses((stack, model.output, cached, search)))
        if stop.is_set():
            raise KeyboardInterrupt
        check_stop()
        yield codes[: cached.length - cache.length]
        cache.length, width, active = cached.length, cached.now, search.active


def _feed_prefix(model: SearchModel, cache: NativeKVCache, live: Array, ids: Array) -> None:
    """ids (P, T): inputs whose outputs are forced, so that nothing is searched."""
    while cache.capacity < ids.shape[1] + 1:
        cache.grow()
    output = np.empty((len(ids), model.decoder.width), np.float32)
    for column in ids.T:
        cache.inputs[:, cache.length] = column[:, None]
        cache.length += 1  # owners of these positions are 0: all hypotheses continue slot 0
        stack = model.decoder.table(cache.length)
        cache.write_addresses(stack)
        cached = cache.table(1)
        native.call("hw_decode", *_addresses((stack, cached)), live, len(live), np.ascontiguousarray(column), output)


def _addresses(structures: Iterable[ctypes.Structure]) -> list[int]:
    return [ctypes.addressof(structure) for structure in structures]
