"""Additive attention: a score is a small network over query and key, not their product (Bahdanau 2015)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.nn.build import Cost, Scope
from headway.nn.context import Context
from headway.nn.masks.masks import Mask
from headway.nn.mixers.scored_attention import Pairs, ScoredAttention, ScoredAttentionConfig, softmax_pairs
from headway.nn.ops.additive import additive_scores
from headway.nn.positions.positions import Position


class AdditiveAttention(ScoredAttention):
    """softmax(eᵀ tanh(xW_q + yW_k)) yW_v, with e for each head"""

    @dataclass(frozen=True, kw_only=True)
    class Config(ScoredAttentionConfig):
        kind: str = "additive"

        def check(self, mask: Mask, position: Position.Config) -> None:
            if position.applies_to == "qk":
                raise ConfigError(
                    f"{position.kind} rotates queries and keys so that their product depends on distance, and additive "
                    'attention has no products. Choose a position that is added, such as "sinusoidal", or that changes '
                    'scores, such as "alibi".',
                    "position",
                )

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k
            return super().cost(scope) + Cost(parameters=c.heads * c.d_k)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__(config, scope)
        c = self.config
        assert c.d_k
        self.energy = nn.Parameter(torch.randn(c.heads, c.d_k, 1) * c.d_k**-0.5)

    def weigh(self, x: Tensor, pairs: Pairs, ctx: Context) -> Tensor:
        return softmax_pairs(additive_scores(pairs.q, pairs.k, self.energy.to(pairs.q.dtype)), pairs, ctx)
