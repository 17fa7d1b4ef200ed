"""A search whose tensors keep their shape and their place, so that a step can be recorded once and played again.

A step asks the host nothing. Rows that are done run on without effect; what became of them is read from the trellis,
in which every step writes its candidates, by the rules of the plain loop (see trellis.py).

B rows    K beams of each    C candidates of each    L positions at most    V vocabulary


What follows from the scores of a step, by two kernels where there is a GPU; Frame.settle in plain operations, some
sixty of them, is the definition."""

import functools
import os
import shutil
from typing import NamedTuple

import torch
from torch import Tensor

from headway.config.search import Search
from headway.decode import constraints_torch
from headway.decode.cuda.decoder import Folded
from headway.decode.reference import candidates as choose
from headway.decode.request import Job
from headway.nn.ops.triton import HAS_TRITON


class Plan(NamedTuple):
    """What is fixed in a recorded step."""

    beam: int
    start: int
    end: int
    suppress: tuple[int, ...]
    forced: bool  # some output has a prefix

    @property
    def candidates(self) -> int:
        return 1 if self.beam == 1 else 2 * self.beam


class Size(NamedTuple):
    rows: int
    source: int
    length: int


class Frame:
    def __init__(self, model: Folded, plan: Plan, size: Size) -> None:
        self.model, self.plan, self.size = model, plan, size
        rows, beam, length = size.rows, plan.beam, size.length
        device = model.model.device
        self.past = model.new_past(rows, beam, length, size.source)
        self.reads = model.can_read(rows, size.source)  # whether it reads its sources as part of `begin`
        self.source = torch.zeros(rows, size.source if self.reads else 0, dtype=torch.long, device=device)
        self.real = torch.zeros_like(self.source, dtype=torch.bool)  # which of them are
        self.ids = torch.zeros(rows, beam, dtype=torch.long, device=device)  # read next
        self.sums = torch.zeros(rows, beam, device=device)  # log-probability of each beam; -inf: it is empty
        self.limit = torch.zeros(rows, dtype=torch.long, device=device)  # of tokens, a prefix counted
        self.ended = torch.zeros(rows, dtype=torch.long, device=device)  # hypotheses
        self.active = torch.zeros(rows, dtype=torch.bool, device=device)
        self.left = torch.zeros(1, dtype=torch.long, device=device)  # how many are active
        self.early = torch.zeros(length, device=device)  # -inf where the end would come before the least length
        self.forced = torch.full((rows, length), -1, device=device)  # ids of the prefix; -1: free
        # Of each step ids, parents, and the bits of the floats logps and sums.
        self.trellis = torch.zeros(length, 4, rows, plan.candidates, dtype=torch.int32, device=device)
        self.suppress = torch.tensor(plan.suppress, dtype=torch.long, device=device)
        self.fused = Fused(self) if able(self) else None

    @property
    def bytes(self) -> int:
        big = [*self.past.own, *self.past.source, self.past.owners, self.trellis]
        return sum(part.nbytes for part in big)

    def load(self, search: Search, jobs: list[Job], source: Tensor | None, valid: Tensor | None) -> None:
        """Lay ready what `begin` needs, these jobs in the first rows. source (B, S)."""
        if source is not None and self.reads:
            rows, size = source.shape
            self.source[:rows, :size] = source
            self.real.zero_()
            self.real[rows:, 0] = True  # whoever hears nothing would be no number
            self.real[:rows, :size] = True if valid is None else valid
        elif source is not None:
            self.model.hear(self.model.model.encode(source, valid), self.past)
        self.limit.zero_()
        self.set_rules(search, jobs)

    def begin(self) -> None:
        """Before the first step. Rows without a limit are done."""
        past = self.past
        if self.reads:
            self.model.hear(self.model.model.encode(self.source, self.real), past)
        past.now.zero_()
        for own in past.own:
            own.zero_()  # a search before may have left what is no number, and nothing times that is not nothing
        past.owners.fill_(-1)
        past.owners[:, :, 0] = past.beams
        self.ids.fill_(self.plan.start)
        self.sums.fill_(-torch.inf)
        self.sums[:, 0].zero_()
        self.ended.zero_()
        torch.gt(self.limit, 0, out=self.active)
        torch.sum(self.active, 0, keepdim=True, out=self.left)

    def set_rules(self, search: Search, jobs: list[Job]) -> None:
        """What the settings say of each position and row."""
        count, length = len(jobs), self.size.length
        self.early.zero_()
        self.early[: max(search.min_length - 1, 0)] = -torch.inf
        limits = [len(job.prefix) + job.room for job in jobs]
        self.limit[:count] = torch.tensor(limits, device=self.limit.device)
        if self.plan.forced:
            lines = [[*job.prefix[:length], *[-1] * (length - len(job.prefix))] for job in jobs]
            self.forced[:count] = torch.tensor(lines, device=self.forced.device)

    def take(self, other: "Frame", rows: Tensor, search: Search, jobs: list[Job]) -> None:
        """Go on where another frame was, with these rows of it. Its trellis is not taken along."""
        count, known = len(rows), min(self.size.length, other.size.length)
        mine, theirs = self.past, other.past
        for to, what in zip(mine.own, theirs.own):
            to.zero_()
            to[:, :count, :, :known] = what[:, rows, :, :known]
        for to, what in zip(mine.source, theirs.source):
            to[:, :count] = what[:, rows]
        for to, what in ((mine.heard, theirs.heard), (self.ids, other.ids), (self.sums, other.sums)):
            to[:count] = what[rows]
        mine.heard[count:] = 0.0
        mine.owners.fill_(-1)
        mine.owners[:, :, 0] = self.past.beams  # the rows that are empty look at something, too
        mine.owners[:count, :, : known + 1] = theirs.owners[rows, :, : known + 1]
        mine.now.copy_(theirs.now)
        self.ended[:count] = other.ended[rows]
        self.active.zero_()
        self.active[:count] = other.active[rows]
        self.left.copy_(other.left)
        self.set_rules(search, jobs)

    def read(self, first: int, last: int) -> Tensor:
        """What the trellis says of these steps: (steps, 4, B, C), a copy."""
        return self.trellis[first:last].clone()

    def step(self, reach: int) -> None:
        """One more token for each beam. No position reaches `reach`."""
        logits = self.model.logits(self.ids, self.past, reach)  # (B · K, V)
        self.settle(logits) if self.fused is None else self.fused(logits)

    def settle(self, logits: Tensor) -> None:
        """What follows from these scores. fused.py does the same."""
        logps = logits.log_softmax(-1, dtype=torch.float32)
        if self.plan.suppress:
            constraints_torch.ban_ids(logps, self.suppress)
        logps[:, self.plan.end].add_(self.early.index_select(0, self.past.now))
        picks = self._pick(logps)
        self._advance(self._obeyed(picks) if self.plan.forced else picks)

    def _pick(self, logps: Tensor) -> choose.Picks:
        if self.plan.beam == 1:
            values, ids = logps.max(1, keepdim=True)  # the first of equal ones
            return choose.Picks(self.sums + values, values, ids, torch.zeros_like(ids))
        return choose.beam(logps, self.sums, self.plan.beam)

    def _obeyed(self, picks: choose.Picks) -> choose.Picks:
        """Where a prefix says what comes next, only that may, and it costs nothing."""
        token = self.forced.index_select(1, self.past.now)  # (B, 1)
        free, first = token < 0, torch.arange(self.plan.candidates, device=token.device) == 0
        cost = torch.where(first, 0.0, -torch.inf)
        return choose.Picks(
            torch.where(free, picks.sums, cost),
            torch.where(free, picks.logps, cost),
            torch.where(free, picks.ids, token),
            torch.where(free, picks.parents, 0),
        )

    def _advance(self, picks: choose.Picks) -> None:
        """Write the candidates down and let the best of those that run on fill the beams, as `turn` and `loop` do."""
        past, beam, now = self.past, self.plan.beam, self.past.now
        words = [picks.ids.int(), picks.parents.int(), picks.logps.view(torch.int32), picks.sums.view(torch.int32)]
        self.trellis.index_copy_(0, now, torch.stack(words)[None])
        exists, ends = picks.sums > -torch.inf, picks.ids == self.plan.end  # (B, C)
        idle = ends | ~exists
        last = now + 1 >= self.limit  # (B,)
        found = exists & (ends | last[:, None])
        self.ended.add_(found[:, :beam].sum(1))
        self.active.logical_and_(~(idle.all(1) | last | (self.ended >= beam)))
        torch.sum(self.active, 0, keepdim=True, out=self.left)
        past.now.add_(1)
        sums = picks.sums.masked_fill(idle, -torch.inf)
        if beam == 1:
            self.ids.copy_(picks.ids)
            self.sums.copy_(sums)
            past.owners.index_fill_(2, now, 0)
            return
        order = idle.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]  # (B, K)
        torch.gather(picks.ids, 1, order, out=self.ids)
        torch.gather(sums, 1, order, out=self.sums)
        parents = picks.parents.gather(1, order)[:, :, None].expand_as(past.owners)
        past.owners.copy_(past.owners.gather(1, parents))
        past.owners.index_copy_(2, now, past.beams[:, None].expand(self.size.rows, -1, 1))


PART = 64  # words of which only the highest is compared at first
BLOCK = 16_384  # words that a program holds at a time


def able(frame: "Frame") -> bool:
    """There must be parts enough for all candidates, and an index must fit into 31 bits."""
    beam, vocabulary = frame.plan.beam, frame.model.model.config.vocabulary or 0
    fits = vocabulary >= 4 * PART and beam * vocabulary < 2**31 and beam <= 64
    return fits and frame.sums.is_cuda and frame.sums.dtype != torch.float64 and HAS_TRITON and _has_compiler()


@functools.cache
def _has_compiler() -> bool:
    """Triton compiles what launches a kernel with a C compiler."""
    return bool(os.environ.get("CC") or any(map(shutil.which, ("cc", "gcc", "clang"))))


def round_to_power(size: int) -> int:
    """Up to a power of two, 2 at least."""
    return 1 << max(1, (size - 1).bit_length())


class Fused:
    def __init__(self, frame: "Frame") -> None:
        lines, vocabulary = frame.ids.numel(), frame.model.model.config.vocabulary or 0
        self.frame, self.parts = frame, -(-vocabulary // PART)
        self.banned = torch.zeros(vocabulary, device=frame.ids.device).index_fill_(0, frame.suppress, -torch.inf)
        self.norms = torch.zeros(lines, device=frame.ids.device)
        self.peaks = torch.zeros(lines, self.parts, device=frame.ids.device)

    def __call__(self, logits: Tensor) -> None:
        """logits (B · K, V)"""
        from headway.nn.ops.triton import beam_step

        f, plan, size = self.frame, self.frame.plan, logits.shape[1]
        block = min(BLOCK, round_to_power(size))
        read = (logits, self.banned, f.early, f.past.now, self.norms, self.peaks)
        beam_step.survey[(len(logits),)](
            *read, f.left, logits.stride(0), size, self.parts,
            END=plan.end, PART=PART, BLOCK=block, num_warps=max(4, block // 2048),
        )  # fmt: skip
        beam_step.advance[(f.size.rows,)](
            *read, f.forced, f.limit, f.ids, f.sums, f.past.owners, f.trellis, f.ended, f.active.view(torch.uint8), f.left,
            logits.stride(0), size, self.parts, f.size.length,
            K=plan.beam, C=plan.candidates, BEAMS=round_to_power(plan.beam), PICKS=round_to_power(plan.candidates),
            PARTS=round_to_power(self.parts), END=plan.end, PART=PART, FORCED=plan.forced, SPAN=32,
            num_warps=1 if plan.beam * self.parts <= 2048 else 4,
        )  # fmt: skip
        f.past.now.add_(1)
