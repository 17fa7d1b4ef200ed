"""Transformer-XL's relative positions: a term for each query and distance, beside that for each query and key.

They depend on distances only, not on how far into a text a token is, so that a layer can attend to the cached inputs of
the previous segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.masks.masks import Mask
from headway.nn.positions.positions import Position, sinusoids
from headway.nn.positions.score_mod import ScoreMod, ScoreModInputs
from headway.nn.positions.t5 import shared_setting
from headway.nn.sequence import TokenPositions


def _distance_counts(mask: Mask, length: int) -> tuple[int, int]:
    """How many distances there are ahead of a query, and how many behind it, 0 included."""
    behind = length if mask.lookback is None else min(length, mask.lookback)
    return 0 if mask.hides_future else max(behind - 1, 0), behind


class TransformerXL(Position):
    """score = ((q + u)·k + (q + v)·Wr[distance]) / √d, r the sinusoids of the distance q - k"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        applies_to = "scores"
        kind: str = "transformer_xl"
        base: float = number(10000.0, low=1)
        tied: bool = True  # u and v are the same in all layers; W never is
        heads: int | None = number(None, low=1)  # = the mixer's
        d_k: int | None = number(None, low=1)

        def resolved(self, scope: Scope, mixers: Sequence[Any]) -> "TransformerXL.Config":
            return replace(self, heads=shared_setting("heads", self, mixers), d_k=shared_setting("d_k", self, mixers))

        def cost(self, scope: Scope) -> Cost:
            width = (self.heads or 0) * (self.d_k or 0)
            weights = scope.layers * scope.linear_parameters(scope.d_model, width, False)
            parameters = weights + 2 * width * (1 if self.tied else scope.layers)

            def flops(length: int, _: int) -> int:
                """Every distance is projected, and multiplied with every query."""
                distances = sum(sum(_distance_counts(mask, length)) for mask in scope.masks)
                return 2 * width * (scope.d_model + length) * distances

            return Cost(parameters=parameters, flops_by_length=(flops,))

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config, self.width = config, scope.d_model
        size = (1 if config.tied else scope.layers, config.heads or 1, 1, config.d_k or 1)
        self.to_keys, self.to_distances = (nn.Parameter(torch.zeros(size)) for _ in range(2))  # u, v
        outputs = (config.heads or 1) * (config.d_k or 1)
        self.project = nn.ModuleList(
            make_linear(scope.d_model, outputs, scope, bias=False) for _ in range(scope.layers)
        )

    def transform_query(self, q: Tensor, tokens: TokenPositions, layer: int) -> Tensor:
        return q + self.to_keys[layer % len(self.to_keys)].to(q.dtype)

    def score_mod(self, inputs: ScoreModInputs) -> ScoreMod | None:
        q, layer = inputs.q, inputs.layer
        ahead, behind = _distance_counts(inputs.mask, max(inputs.queries.end, inputs.keys.end, 1))
        distances = torch.arange(-ahead, behind, device=q.device)
        waves = sinusoids(distances, self.width, self.config.base, "halves").to(q.dtype)  # (C, d)
        directions = self.project[layer](waves).view(distances.shape[0], q.shape[1], -1).permute(1, 2, 0)  # (H, D, C)
        shifted = q + self.to_distances[layer % len(self.to_distances)].to(q.dtype)
        return ScoreMod(
            "transformer_xl",
            query_bias=shifted @ directions.to(q.dtype) * inputs.scale,  # (B, H, T, C)
            bucket=lambda q, k: (q - k).clamp(-ahead, behind - 1) + ahead,
        )
