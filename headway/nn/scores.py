"""Positions that bend scores: pure functions (score, b, h, q, k) -> score of absolute positions, with a name."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.nn.places import Places


@dataclass(frozen=True)
class Score:
    """`adds`: the function adds a bias that does not depend on the score, so that fused kernels can take it."""

    name: str
    bend: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
    adds: bool = True


class Bend:
    """A score function laid over one batch."""

    def __init__(self, score: Score, queries: Places, keys: Places, heads: int) -> None:
        self.score, self.queries, self.keys, self.heads = score, queries, keys, heads

    @property
    def adds(self) -> bool:
        return self.score.adds

    def __call__(self, scores: Tensor, batch: int) -> Tensor:
        """scores (B, H, T, S), or anything that broadcasts with it."""
        q = self.queries.positions[:, None, :, None]
        k = self.keys.positions[:, None, None, :]
        rows = torch.arange(batch, device=q.device)[:, None, None, None]
        heads = torch.arange(self.heads, device=q.device)[None, :, None, None]
        return self.score.bend(scores, rows, heads, q, k)

    def at_index(self, s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """The same by index into queries and keys, as FlexAttention asks."""
        q, k = self.queries.positions, self.keys.positions
        return self.score.bend(s, b, h, q[b % q.shape[0], i], k[b % k.shape[0], j])
