"""Performer: linear attention by random features that approximate the softmax (FAVOR+, Choromanski 2021)."""

import math
from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from headway.config.schema import number
from headway.nn.build import Cost, Scope
from headway.nn.mixers.linear_attention import LinearAttention, LinearAttentionConfig
from headway.nn.ops.random_features import draw_projection, key_features, query_features


class Performer(LinearAttention):
    """Linear attention with φ(q)·φ(k) ≈ exp(q·k / √d_k); φ is drawn once and not trained."""

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearAttentionConfig):
        kind: str = "performer"
        features: int | None = number(None, low=1, high=65_536)  # = d_k ln d_k
        seed: int = number(0, low=0, high=2**32 - 1)

        def resolved(self, scope: Scope) -> Self:
            c = super().resolved(scope)
            assert c.d_k
            return replace(c, features=c.features or max(1, int(c.d_k * math.log(c.d_k))))

        @property
        def feature_count(self) -> int:
            assert self.features
            return self.features

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k
            projection = 2 * c.heads * c.d_k * c.feature_count
            return super().cost(scope) + Cost(flops_per_query=projection, flops_per_key=projection)

    projection: Tensor  # (F, D)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__(config, scope)
        c = self.config
        seed = [c.seed, scope.layer, scope.side == "decoder"]  # layers draw their own, so that errors do not add up
        projection = draw_projection(c.feature_count, c.d_k, seed)
        self.register_buffer("projection", projection.float(), persistent=False)

    def map_query(self, q: Tensor) -> Tensor:
        return query_features(q, self.projection)

    def map_key(self, k: Tensor) -> Tensor:
        return key_features(k, self.projection)

    @property
    def eps(self) -> float:
        return 0.0
