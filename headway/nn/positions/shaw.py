"""Shaw's relative positions: a learned vector for each distance, added to every key and every value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.nn.build import Cost, Scope
from headway.nn.positions.positions import Position
from headway.nn.positions.score_mod import ScoreMod, ScoreModInputs
from headway.nn.positions.t5 import shared_setting


class Shaw(Position):
    """score = q·(k + a[c]) / √d, output = Σ weight · (v + b[c]), c the distance k - q, clipped"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        applies_to = "scores"
        needs_weights = True
        kind: str = "shaw"
        max_distance: int = number(16, low=1)  # larger ones are clipped to it
        # Tables for each layer and head; for each layer; one for all.
        shared: Literal["nothing", "heads", "all"] = "heads"
        heads: int | None = number(None, low=1)  # = the mixer's
        d_k: int | None = number(None, low=1)
        d_v: int | None = number(None, low=1)

        def resolved(self, scope: Scope, mixers: Sequence[Any]) -> "Shaw.Config":
            heads, d_k, d_v = (shared_setting(name, self, mixers) for name in ("heads", "d_k", "d_v"))
            return replace(self, heads=heads, d_k=d_k, d_v=d_v)

        def tables(self, scope: Scope) -> tuple[int, int]:
            """For how many layers, and for how many heads of each."""
            layers = 1 if self.shared == "all" else scope.layers
            heads = (self.heads or 1) if self.shared == "nothing" else 1
            return layers, heads

        def cost(self, scope: Scope) -> Cost:
            layers, heads = self.tables(scope)
            rows, width = 2 * self.max_distance + 1, (self.d_k or 0) + (self.d_v or 0)
            return Cost(
                parameters=layers * heads * rows * width,
                flops_per_query=2 * (self.heads or 0) * rows * width * scope.layers,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = config
        size = (*config.tables(scope), 2 * config.max_distance + 1)  # (layers, heads or 1, distances)
        self.keys = nn.Parameter(torch.zeros(*size, config.d_k or 1))
        self.values = nn.Parameter(torch.zeros(*size, config.d_v or 1))

    def score_mod(self, inputs: ScoreModInputs) -> ScoreMod | None:
        far = self.config.max_distance
        layer = inputs.layer % len(self.keys)
        keys, values = self.keys[layer], self.values[layer]  # (H or 1, C, D)

        def value_bias(weights: Tensor, buckets: Tensor) -> Tensor:
            per_bucket = weights.new_zeros(*weights.shape[:-1], 2 * far + 1).scatter_add(-1, buckets, weights)
            return per_bucket @ values.to(weights.dtype)

        return ScoreMod(
            "shaw",
            query_bias=inputs.q @ keys.transpose(-1, -2).to(inputs.q.dtype) * inputs.scale,  # (B, H, T, C)
            bucket=lambda q, k: (k - q).clamp(-far, far) + far,
            value_bias=value_bias,
        )
