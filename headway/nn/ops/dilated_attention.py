"""Dilated attention (LongNet): the text is cut into segments, and of each one every r-th token attends to every r-th.

Several branches do that at once, short segments that keep every token and longer ones that keep few, and one softmax
runs over the keys of all branches. A key that a query meets in two branches counts twice, so that

    o_t = Σ_s c_ts exp(q_t·k_s) v_s / Σ_s c_ts exp(q_t·k_s)       c_ts: the number of branches in which t meets s

Merging the branches by the log-sum-exp of their scores is the same sum. Two forms, equal up to rounding:
`dense_dilated` (the specification: `attend` with a mask and log c, for any positions of queries and keys) and
`gathered_dilated` (only pairs that meet are computed, for positions 0, 1, 2 …: linear).

Segments are counted from position 0 and never shrink, so whom a query meets depends on nothing that follows it.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.masks.masks import BoundMask, Mask
from headway.nn.ops.attention import attend
from headway.nn.ops.partial_softmax import PartialSoftmax, attend_partly, lowest, merge_parts
from headway.nn.positions.score_mod import BoundScoreMod, ScoreMod
from headway.nn.sequence import TokenPositions

HeadOffsets = Literal["grouped", "cyclic"]


class Branch(NamedTuple):
    segment: int  # tokens of a segment
    rate: int  # of its tokens a head keeps every rate-th


class Dilation(NamedTuple):
    """Which tokens meet in which branch. Heads begin at different tokens of a segment, so that together they keep all
    of them."""

    branches: tuple[Branch, ...]
    heads: int
    offsets: HeadOffsets = "grouped"  # neighbouring heads begin alike, as in the authors' code; or h mod r, the paper's

    @property
    def lookback(self) -> int:
        return max(branch.segment for branch in self.branches)

    def offset(self, h: Tensor, rate: int) -> Tensor:
        """The first token of a segment that head h keeps."""
        return h % rate if self.offsets == "cyclic" else h // -(-self.heads // rate)

    def count_branches(self, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """In how many branches positions q and k meet in head h; all tensors that broadcast."""
        count = torch.zeros((), dtype=torch.long, device=q.device)
        for segment, rate in self.branches:
            offset = self.offset(h, rate)
            kept = (q % segment % rate == offset) & (k % segment % rate == offset)
            count = count + (kept & (q // segment == k // segment))
        return count

    @property
    def mask(self) -> Mask:
        return Mask(
            f"dilated{self.branches}", lambda b, h, q, k: self.count_branches(h, q, k) > 0, lookback=self.lookback
        )

    @property
    def score_mod(self) -> ScoreMod:
        return ScoreMod(
            "dilated", lambda s, b, h, q, k: s + self.count_branches(h, q, k).clamp(min=1).to(s.dtype).log()
        )


class BoundDilation(NamedTuple):
    """A dilation applied to the positions of one batch: what `attend` needs for it."""

    mask: BoundMask
    score_mod: BoundScoreMod


def bind_dilation(dilation: Dilation, mask: Mask, queries: TokenPositions, keys: TokenPositions) -> BoundDilation:
    """`mask`: what is allowed besides, causal or full."""
    return BoundDilation(
        BoundMask(dilation.mask & mask, queries, keys, dilation.heads),
        BoundScoreMod(dilation.score_mod, queries, keys, dilation.heads),
    )


def dense_dilated(q: Tensor, k: Tensor, v: Tensor, bound: BoundDilation) -> Tensor:
    """Every pair: q (B, H, T, D), k (B, H, S, D), v (B, H, S, E) -> (B, H, T, E). A query that meets no key gets
    exactly 0."""
    return attend(q, k, v, mask=bound.mask, score_mod=bound.score_mod)


def gathered_dilated(
    q: Tensor, k: Tensor, v: Tensor, dilation: Dilation, *, causal: bool, valid: Tensor | None = None
) -> Tensor:
    """The same for queries and keys at positions 0, 1, 2 …, from only the pairs that meet. `valid` (B, T): false on
    padding."""
    branches = [_attend_branch(q, k, v, dilation, branch, causal, valid) for branch in dilation.branches]
    return merge_parts(PartialSoftmax(*map(torch.stack, zip(*branches))), 0).to(q.dtype)


def _attend_branch(
    q: Tensor, k: Tensor, v: Tensor, dilation: Dilation, branch: Branch, causal: bool, valid: Tensor | None
) -> PartialSoftmax:
    """At every position; nothing is seen where a head does not keep it."""
    segments = KeptTokens(q.shape[2], dilation, branch, q.device)
    queries, keys, values = (segments.gather(x) for x in (q, k, v))  # (B, H, N, M, D)
    scores = queries @ keys.mT * q.shape[-1] ** -0.5  # (B, H, N, M, M)
    allowed = segments.real[:, :, None, :]  # (H, N, 1, M)
    if valid is not None:
        given = valid[:, None, :, None].expand(-1, dilation.heads, -1, 1)
        allowed = allowed & segments.gather(given).mT  # (B, H, N, 1, M)
    if causal:
        size = scores.shape[-1]
        allowed = allowed & torch.ones(size, size, dtype=torch.bool, device=q.device).tril()
    output, total, peak = attend_partly(scores, values, allowed)
    return PartialSoftmax(
        segments.scatter(output, 0.0), segments.scatter(total, 0.0), segments.scatter(peak, lowest(peak))
    )


class KeptTokens:
    """The tokens that each head keeps in a branch: N segments of M tokens, some of them behind the end."""

    def __init__(self, length: int, dilation: Dilation, branch: Branch, device: torch.device) -> None:
        self.length, self.rate = length, branch.rate
        self.segment = min(branch.segment, length)  # what is behind the end of the text need not be cut
        self.count = -(-length // self.segment)
        self.kept = -(-self.segment // self.rate)
        offsets = dilation.offset(torch.arange(dilation.heads, device=device), self.rate)  # (H,)
        self.index = offsets[None, :, None, None, None, None]  # along the rate
        place = offsets[:, None] + self.rate * torch.arange(self.kept, device=device)  # (H, M) in the segment
        start = self.segment * torch.arange(self.count, device=device)  # (N,)
        inside = place[:, None] < torch.clamp(length - start, max=self.segment)[:, None]
        self.real = inside  # (H, N, M)

    def gather(self, x: Tensor) -> Tensor:
        """(B, H, T, D) -> (B, H, N, M, D)"""
        if self.count * self.segment > self.length:
            x = F.pad(x, (0, 0, 0, self.count * self.segment - self.length))
        x = x.unflatten(2, (self.count, self.segment))
        if self.kept * self.rate > self.segment:
            x = F.pad(x, (0, 0, 0, self.kept * self.rate - self.segment))
        x = x.unflatten(3, (self.kept, self.rate))  # (B, H, N, M, rate, D)
        return x.take_along_dim(self.index, 4).squeeze(4)

    def scatter(self, x: Tensor, fill: float) -> Tensor:
        """(B, H, N, M, D) -> (B, H, T, D), `fill` at positions that are not kept."""
        shape = (*x.shape[:4], self.rate, x.shape[4])
        index = self.index.expand(*x.shape[:4], 1, x.shape[4])
        spread = x.new_full(shape, fill).scatter(4, index, x[:, :, :, :, None])
        return spread.flatten(3, 4)[:, :, :, : self.segment].flatten(2, 3)[:, :, : self.length]
