"""Shaw's relative positions: a vector for each distance beside every key and every value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.nn.build import Cost, Scope
from headway.nn.positions.positions import Position
from headway.nn.positions.score_mod import Looking, Score
from headway.nn.positions.t5 import same


class Shaw(Position):
    """score = q·(k + a[c]) / √d, heard = Σ weight · (v + b[c]), c the distance k - q, clipped"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        acts = "bends"
        hears = True
        kind: str = "shaw"
        distance: int = number(16, low=1)  # from which on all is equally far
        shared: Literal["nothing", "heads", "all"] = (
            "heads"  # own tables for a layer and head; for a layer; one for all
        )
        heads: int | None = number(None, low=1)  # = the mixer's
        d_k: int | None = number(None, low=1)
        d_v: int | None = number(None, low=1)

        def resolved(self, scope: Scope, mixers: Sequence[Any]) -> "Shaw.Config":
            heads, d_k, d_v = (same(name, self, mixers) for name in ("heads", "d_k", "d_v"))
            return replace(self, heads=heads, d_k=d_k, d_v=d_v)

        def tables(self, scope: Scope) -> tuple[int, int]:
            """For how many layers, and for how many heads of each."""
            return 1 if self.shared == "all" else scope.layers, (self.heads or 1) if self.shared == "nothing" else 1

        def cost(self, scope: Scope) -> Cost:
            layers, heads = self.tables(scope)
            rows, width = 2 * self.distance + 1, (self.d_k or 0) + (self.d_v or 0)
            return Cost(
                parameters=layers * heads * rows * width,
                flops_per_query=2 * (self.heads or 0) * rows * width * scope.layers,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = config
        size = (*config.tables(scope), 2 * config.distance + 1)  # (layers, heads or 1, distances)
        self.keys = nn.Parameter(torch.zeros(*size, config.d_k or 1))
        self.values = nn.Parameter(torch.zeros(*size, config.d_v or 1))

    def score(self, looking: Looking) -> Score | None:
        far, layer = self.config.distance, looking.layer % len(self.keys)
        keys, values = self.keys[layer], self.values[layer]  # (H or 1, C, D)

        def hear(weights: Tensor, columns: Tensor) -> Tensor:
            shares = weights.new_zeros(*weights.shape[:-1], 2 * far + 1).scatter_add(-1, columns, weights)
            return shares @ values.to(weights.dtype)

        return Score(
            "shaw",
            asks=looking.q @ keys.transpose(-1, -2).to(looking.q.dtype) * looking.scale,  # (B, H, T, C)
            column=lambda q, k: (k - q).clamp(-far, far) + far,
            hear=hear,
        )
