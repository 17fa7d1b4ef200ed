"""Positions that bend scores: by pure functions (score, b, h, q, k) -> score of absolute positions, or by what each
query says to each distance."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from headway.nn.masks.masks import Mask
from headway.nn.sequence import Places


class Looking(NamedTuple):
    """One layer that looks: what a position may need to bend its scores."""

    q: Tensor  # (B, H, T, D), not turned
    queries: Places
    keys: Places
    mask: Mask
    scale: float  # of scores
    layer: int  # which of the layers that share the position


def unbent(s: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return s


@dataclass(frozen=True)
class Score:
    """`adds`: what is added does not depend on the score, so that fused kernels can take it."""

    name: str
    bend: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] = unbent
    adds: bool = True
    asks: Tensor | None = None  # (B, H, T, C): what each query adds to the score of a key in column c
    column: Callable[[Tensor, Tensor], Tensor] | None = None  # positions (q, k) -> the column that the pair meets
    hear: Callable[[Tensor, Tensor], Tensor] | None = (
        None  # weights and columns (B, H, T, S) -> more to hear (B, H, T, E)
    )


class Bend:
    """A score function laid over one batch."""

    def __init__(self, score: Score, queries: Places, keys: Places, heads: int) -> None:
        self.score, self.queries, self.keys, self.heads = score, queries, keys, heads

    @property
    def adds(self) -> bool:
        return self.score.adds

    @property
    def hears(self) -> bool:
        return self.score.hear is not None

    def __call__(self, scores: Tensor, batch: int) -> Tensor:
        """scores (B, H, T, S), or anything that broadcasts with it."""
        q, k = self._positions()
        rows = torch.arange(batch, device=q.device)[:, None, None, None]
        heads = torch.arange(self.heads, device=q.device)[None, :, None, None]
        bent = self.score.bend(scores, rows, heads, q, k)
        asks = self.score.asks
        return bent if asks is None else bent + asks.gather(-1, self.columns(batch)).to(bent.dtype)

    def heard(self, weights: Tensor) -> Tensor | float:
        """What the weights (B, H, T, S) fetch beside the values."""
        return 0.0 if self.score.hear is None else self.score.hear(weights, self.columns(len(weights)))

    def at_index(self, s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """The same by index into queries and keys, as FlexAttention asks."""
        q, k = i, j
        if not (self.queries.in_order and self.keys.in_order):
            queries, keys = self.queries.positions, self.keys.positions
            q, k = queries[b % queries.shape[0], i], keys[b % keys.shape[0], j]
        bent = self.score.bend(s, b, h, q, k)
        if self.score.asks is None or self.score.column is None:
            return bent
        return bent + self.score.asks[b, h, i, self.score.column(q, k)].to(s.dtype)

    def _positions(self) -> tuple[Tensor, Tensor]:
        return self.queries.positions[:, None, :, None], self.keys.positions[:, None, None, :]

    def columns(self, batch: int) -> Tensor:
        """Which column each pair meets: (B, H, T, S)."""
        assert self.score.column is not None
        columns = self.score.column(*self._positions())  # (B or 1, 1, T, S)
        return columns.expand(batch, self.heads, *columns.shape[2:])
