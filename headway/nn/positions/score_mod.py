"""score_mod: positions that change attention scores, as in FlexAttention.

A ScoreMod is a pure function (score, b, h, q, k) -> score of absolute positions, a bias that each query has for each
bucket of distances, or both. Applied to the positions of one batch it becomes a BoundScoreMod.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from headway.nn.masks.masks import Mask
from headway.nn.sequence import TokenPositions


class ScoreModInputs(NamedTuple):
    """What a position may need to know of one attention layer to change its scores."""

    q: Tensor  # (B, H, T, D), before any rotation
    queries: TokenPositions
    keys: TokenPositions
    mask: Mask
    scale: float  # of scores
    layer: int  # index among the layers that share the position


def keep_score(s: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return s


@dataclass(frozen=True)
class ScoreMod:
    name: str
    modify: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] = keep_score
    additive: bool = True  # what is added does not depend on the score, so that fused kernels can take it as a bias
    query_bias: Tensor | None = None  # (B, H, T, C): what each query adds to the score of a key in bucket c
    bucket: Callable[[Tensor, Tensor], Tensor] | None = None  # positions (q, k) -> the bucket of the pair
    # Weights and buckets (B, H, T, S) -> what is added to the output (B, H, T, E).
    value_bias: Callable[[Tensor, Tensor], Tensor] | None = None


class BoundScoreMod:
    """A ScoreMod applied to the query and key positions of one batch."""

    def __init__(self, score_mod: ScoreMod, queries: TokenPositions, keys: TokenPositions, heads: int) -> None:
        self.score_mod, self.queries, self.keys, self.heads = score_mod, queries, keys, heads

    @property
    def name(self) -> str:
        return self.score_mod.name

    @property
    def additive(self) -> bool:
        return self.score_mod.additive

    @property
    def needs_weights(self) -> bool:
        return self.score_mod.value_bias is not None

    def __call__(self, scores: Tensor, batch: int) -> Tensor:
        """scores (B, H, T, S), or anything that broadcasts with it."""
        q, k = self._positions()
        rows = torch.arange(batch, device=q.device)[:, None, None, None]
        heads = torch.arange(self.heads, device=q.device)[None, :, None, None]
        modified = self.score_mod.modify(scores, rows, heads, q, k)
        bias = self.score_mod.query_bias
        return modified if bias is None else modified + bias.gather(-1, self.buckets(batch)).to(modified.dtype)

    def at_positions(self, queries: TokenPositions, keys: TokenPositions) -> "BoundScoreMod":
        """The same for some of the queries and keys; only without a query_bias."""
        return BoundScoreMod(self.score_mod, queries, keys, self.heads)

    def value_bias(self, weights: Tensor) -> Tensor | float:
        """What the weights (B, H, T, S) add to the output, beside the values."""
        value_bias = self.score_mod.value_bias
        return 0.0 if value_bias is None else value_bias(weights, self.buckets(weights.shape[0]))

    def at_index(self, s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """The same by index into queries and keys: FlexAttention's score_mod."""
        q, k = i, j
        if not (self.queries.in_order and self.keys.in_order):
            queries, keys = self.queries.positions, self.keys.positions
            q, k = queries[b % queries.shape[0], i], keys[b % keys.shape[0], j]
        modified = self.score_mod.modify(s, b, h, q, k)
        if self.score_mod.query_bias is None or self.score_mod.bucket is None:
            return modified
        return modified + self.score_mod.query_bias[b, h, i, self.score_mod.bucket(q, k)].to(s.dtype)

    def _positions(self) -> tuple[Tensor, Tensor]:
        return self.queries.positions[:, None, :, None], self.keys.positions[:, None, None, :]

    def buckets(self, batch: int) -> Tensor:
        """The bucket of each pair: (B, H, T, S)."""
        assert self.score_mod.bucket is not None
        buckets = self.score_mod.bucket(*self._positions())  # (B or 1, 1, T, S)
        return buckets.expand(batch, self.heads, *buckets.shape[2:])
