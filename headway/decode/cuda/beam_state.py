"""The state of a beam search in tensors of fixed shape and address, so that a step can be recorded as a CUDA graph.

A step needs nothing from the host. Rows that are done run on without effect: every step writes its candidates into a
lattice, from which lattice.py reads the hypotheses. BeamState._advance is a form of the beam search stopping rule (see
reference/beam_search.py).

B rows    K beams of each    C candidates of each    L positions at most    V vocabulary
"""

import functools
import os
import shutil
from typing import NamedTuple

import torch
from torch import Tensor

from headway.config.search import Search
from headway.decode import banned_tokens
from headway.decode.cuda.decoder import CudaDecoder
from headway.decode.reference.candidates import Candidates, pick_beam
from headway.decode.request import SearchJob
from headway.nn.ops.triton import HAS_TRITON

TOKENS_PER_PART = 64  # of the vocabulary, of which only the highest logit is compared at first
MAX_BLOCK_TOKENS = 16_384  # logits that a program holds at a time


class StepSpec(NamedTuple):
    """What is fixed in a recorded step."""

    beam: int
    start: int
    end: int
    suppress: tuple[int, ...]
    has_prefixes: bool  # some output has a forced prefix

    @property
    def candidates(self) -> int:
        return 1 if self.beam == 1 else 2 * self.beam


class BufferSize(NamedTuple):
    rows: int
    source: int  # tokens
    length: int  # positions of the output


class BeamState:
    """All tensors of a search of up to `size.rows` rows."""

    def __init__(self, decoder: CudaDecoder, spec: StepSpec, size: BufferSize) -> None:
        self.decoder = decoder
        self.spec = spec
        self.size = size
        rows, beam, length = size.rows, spec.beam, size.length
        device = decoder.model.device
        self.cache = decoder.new_cache(rows, beam, length, size.source)
        self.encodes = not decoder.encoder_unsupported(rows, size.source)  # whether `begin` encodes the source, too
        self.source = torch.zeros(rows, size.source if self.encodes else 0, dtype=torch.long, device=device)
        self.source_valid = torch.zeros_like(self.source, dtype=torch.bool)  # which of them are real
        self.ids = torch.zeros(rows, beam, dtype=torch.long, device=device)  # that are read next
        self.sums = torch.zeros(rows, beam, device=device)  # log-probability of each beam; -inf: it is empty
        self.limit = torch.zeros(rows, dtype=torch.long, device=device)  # of tokens, a prefix counted
        self.ended = torch.zeros(rows, dtype=torch.long, device=device)  # how many hypotheses have
        self.active = torch.zeros(rows, dtype=torch.bool, device=device)  # whether a row is searched further
        self.active_count = torch.zeros(1, dtype=torch.long, device=device)
        self.end_bias = torch.zeros(length, device=device)  # -inf where an end would come before the minimum length
        self.forced = torch.full((rows, length), -1, device=device)  # ids of the prefix; -1: free
        # Of each step int32 codes: ids, parents, and the bits of the floats logps and sums. See lattice.join_steps.
        self.lattice = torch.zeros(length, 4, rows, spec.candidates, dtype=torch.int32, device=device)
        self.suppress = torch.tensor(spec.suppress, dtype=torch.long, device=device)
        self.fused = None if unsupported(self) else FusedBeamStep(self)

    @property
    def bytes(self) -> int:
        large = [*self.cache.self_kv, *self.cache.cross_kv, self.cache.owners, self.lattice]
        return sum(part.nbytes for part in large)

    def load(self, search: Search, jobs: list[SearchJob], source: Tensor | None, valid: Tensor | None) -> None:
        """Fill in what `begin` needs, with these jobs in the first rows. source (B, S)."""
        if source is not None and self.encodes:
            rows, size = source.shape
            self.source[:rows, :size] = source
            self.source_valid.zero_()
            self.source_valid[rows:, 0] = True  # a fully masked row would give NaN
            self.source_valid[:rows, :size] = True if valid is None else valid
        elif source is not None:
            self.decoder.store_source(self.decoder.model.encode(source, valid), self.cache)
        self.limit.zero_()
        self.set_limits(search, jobs)

    def begin(self) -> None:
        """Before the first step. Rows without a limit are done."""
        cache = self.cache
        if self.encodes:
            self.decoder.store_source(self.decoder.model.encode(self.source, self.source_valid), cache)
        cache.now.zero_()
        for kv in cache.self_kv:
            kv.zero_()  # a previous search may have left NaN here, and 0 · NaN is NaN
        cache.owners.fill_(-1)
        cache.owners[:, :, 0] = cache.beams
        self.ids.fill_(self.spec.start)
        self.sums.fill_(-torch.inf)
        self.sums[:, 0].zero_()
        self.ended.zero_()
        torch.gt(self.limit, 0, out=self.active)
        torch.sum(self.active, 0, keepdim=True, out=self.active_count)

    def set_limits(self, search: Search, jobs: list[SearchJob]) -> None:
        """Minimum and maximum lengths, and forced prefixes."""
        count, length = len(jobs), self.size.length
        self.end_bias.zero_()
        self.end_bias[: max(search.min_length - 1, 0)] = -torch.inf
        limits = [len(job.prefix) + job.max_new_tokens for job in jobs]
        self.limit[:count] = torch.tensor(limits, device=self.limit.device)
        if self.spec.has_prefixes:
            prefixes = [[*job.prefix[:length], *[-1] * (length - len(job.prefix))] for job in jobs]
            self.forced[:count] = torch.tensor(prefixes, device=self.forced.device)

    def continue_from(self, other: "BeamState", rows: Tensor, search: Search, jobs: list[SearchJob]) -> None:
        """Go on where another state was, with these rows of it. Its lattice is not copied."""
        count = len(rows)
        known = min(self.size.length, other.size.length)
        mine, theirs = self.cache, other.cache
        for to, kv in zip(mine.self_kv, theirs.self_kv):
            to.zero_()
            to[:, :count, :, :known] = kv[:, rows, :, :known]
        for to, kv in zip(mine.cross_kv, theirs.cross_kv):
            to[:, :count] = kv[:, rows]
        for to, part in ((mine.source_bias, theirs.source_bias), (self.ids, other.ids), (self.sums, other.sums)):
            to[:count] = part[rows]
        mine.source_bias[count:] = 0.0
        mine.owners.fill_(-1)
        mine.owners[:, :, 0] = self.cache.beams  # empty rows attend to something, too: a fully masked one gives NaN
        mine.owners[:count, :, : known + 1] = theirs.owners[rows, :, : known + 1]
        mine.now.copy_(theirs.now)
        self.ended[:count] = other.ended[rows]
        self.active.zero_()
        self.active[:count] = other.active[rows]
        self.active_count.copy_(other.active_count)
        self.set_limits(search, jobs)

    def read_steps(self, first: int, last: int) -> Tensor:
        """The candidates of these steps: (steps, 4, B, C), a copy."""
        return self.lattice[first:last].clone()

    def step(self, span: int) -> None:
        """One more token for each beam. All positions are below `span`."""
        logits = self.decoder.logits(self.ids, self.cache, span)  # (B · K, V)
        self.apply_logits(logits) if self.fused is None else self.fused(logits)

    def apply_logits(self, logits: Tensor) -> None:
        """Candidates, and the next beams, from the logits of a step, in some sixty plain operations: the definition of
        FusedBeamStep, which does it in two kernels."""
        logps = logits.log_softmax(-1, dtype=torch.float32)
        if self.spec.suppress:
            banned_tokens.ban_ids(logps, self.suppress)
        logps[:, self.spec.end].add_(self.end_bias.index_select(0, self.cache.now))
        candidates = self._pick_candidates(logps)
        self._advance(self._force_prefixes(candidates) if self.spec.has_prefixes else candidates)

    def _pick_candidates(self, logps: Tensor) -> Candidates:
        if self.spec.beam == 1:
            values, ids = logps.max(1, keepdim=True)  # the first of equal ones
            return Candidates(self.sums + values, values, ids, torch.zeros_like(ids))
        return pick_beam(logps, self.sums, self.spec.beam)

    def _force_prefixes(self, candidates: Candidates) -> Candidates:
        """Where a prefix has the next token, it is the only candidate, with a log-probability of 0."""
        token = self.forced.index_select(1, self.cache.now)  # (B, 1)
        free = token < 0
        first = torch.arange(self.spec.candidates, device=token.device) == 0
        forced_logps = torch.where(first, 0.0, -torch.inf)
        return Candidates(
            torch.where(free, candidates.sums, forced_logps),
            torch.where(free, candidates.logps, forced_logps),
            torch.where(free, candidates.ids, token),
            torch.where(free, candidates.parents, 0),
        )

    def _advance(self, candidates: Candidates) -> None:
        """Write the candidates into the lattice, and fill the beams with the best of those that run on: the beam search
        stopping rule of reference/beam_search.py."""
        cache, beam, now = self.cache, self.spec.beam, self.cache.now
        codes = [
            candidates.ids.int(),
            candidates.parents.int(),
            candidates.logps.view(torch.int32),
            candidates.sums.view(torch.int32),
        ]
        self.lattice.index_copy_(0, now, torch.stack(codes)[None])
        exists, ends = candidates.sums > -torch.inf, candidates.ids == self.spec.end  # (B, C)
        stops = ends | ~exists
        last = now + 1 >= self.limit  # (B,)
        finished = exists & (ends | last[:, None])
        self.ended.add_(finished[:, :beam].sum(1))
        self.active.logical_and_(~(stops.all(1) | last | (self.ended >= beam)))
        torch.sum(self.active, 0, keepdim=True, out=self.active_count)
        cache.now.add_(1)
        sums = candidates.sums.masked_fill(stops, -torch.inf)
        if beam == 1:
            self.ids.copy_(candidates.ids)
            self.sums.copy_(sums)
            cache.owners.index_fill_(2, now, 0)
            return
        order = stops.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]  # (B, K)
        torch.gather(candidates.ids, 1, order, out=self.ids)
        torch.gather(sums, 1, order, out=self.sums)
        parents = candidates.parents.gather(1, order)[:, :, None].expand_as(cache.owners)
        cache.owners.copy_(cache.owners.gather(1, parents))
        cache.owners.index_copy_(2, now, cache.beams[:, None].expand(self.size.rows, -1, 1))


def unsupported(state: BeamState) -> str:
    """Why FusedBeamStep cannot be used; "" if it can. There must be parts enough for all candidates, and an index must
    fit into 31 bits."""
    beam, vocabulary = state.spec.beam, state.decoder.model.config.vocabulary or 0
    if vocabulary < 4 * TOKENS_PER_PART or beam * vocabulary >= 2**31 or beam > 64:
        return f"not for a vocabulary of {vocabulary} and a beam of {beam}"
    if not state.sums.is_cuda or state.sums.dtype == torch.float64:
        return f"not for {state.sums.dtype} on {state.sums.device.type}"
    return "" if HAS_TRITON and _has_compiler() else "there is no Triton, or no C compiler"


@functools.cache
def _has_compiler() -> bool:
    """Triton compiles the launchers of its kernels with a C compiler."""
    return bool(os.environ.get("CC") or any(map(shutil.which, ("cc", "gcc", "clang"))))


def round_to_power_of_two(size: int) -> int:
    """Up, to 2 at least."""
    return 1 << max(1, (size - 1).bit_length())


class FusedBeamStep:
    """BeamState.apply_logits in two Triton kernels."""

    def __init__(self, state: BeamState) -> None:
        beams, vocabulary = state.ids.numel(), state.decoder.model.config.vocabulary or 0
        device = state.ids.device
        self.state = state
        self.parts = -(-vocabulary // TOKENS_PER_PART)
        self.banned = torch.zeros(vocabulary, device=device).index_fill_(0, state.suppress, -torch.inf)
        self.norms = torch.zeros(beams, device=device)
        self.peaks = torch.zeros(beams, self.parts, device=device)

    def __call__(self, logits: Tensor) -> None:
        """logits (B · K, V)"""
        from headway.nn.ops.triton import beam_step

        state, spec, size = self.state, self.state.spec, logits.shape[1]
        block = min(MAX_BLOCK_TOKENS, round_to_power_of_two(size))
        inputs = (logits, self.banned, state.end_bias, state.cache.now, self.norms, self.peaks)
        beam_step.reduce_logits[(len(logits),)](
            *inputs, state.active_count, logits.stride(0), size, self.parts,
            END=spec.end, PART=TOKENS_PER_PART, BLOCK=block, num_warps=max(4, block // 2048),
        )  # fmt: skip
        beam_step.advance_beams[(state.size.rows,)](
            *inputs, state.forced, state.limit, state.ids, state.sums, state.cache.owners, state.lattice, state.ended,
            state.active.view(torch.uint8), state.active_count, logits.stride(0), size, self.parts, state.size.length,
            K=spec.beam, C=spec.candidates, BEAMS=round_to_power_of_two(spec.beam),
            PICKS=round_to_power_of_two(spec.candidates), PARTS=round_to_power_of_two(self.parts), END=spec.end,
            PART=TOKENS_PER_PART, FORCED=spec.has_prefixes, SPAN=32,
            num_warps=1 if spec.beam * self.parts <= 2048 else 4,
        )  # fmt: skip
        state.cache.now.add_(1)
