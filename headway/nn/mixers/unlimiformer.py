"""Attention to the best keys alone: Unlimiformer's retrieval over an encoder's output of any length (Bertsch 2023)."""

from dataclasses import dataclass

from torch import Tensor

from headway.config.schema import number
from headway.nn.build import Scope
from headway.nn.context import Context
from headway.nn.mixers.scored_attention import Pairs, ScoredAttention, ScoredAttentionConfig
from headway.nn.ops.attention import masked_softmax
from headway.nn.ops.retrieval import best_keys


class Unlimiformer(ScoredAttention):
    """softmax(q·k / √d_k over the `top_k` keys with the highest scores) · v, for each query and head"""

    config: "Unlimiformer.Config"

    @dataclass(frozen=True, kw_only=True)
    class Config(ScoredAttentionConfig):
        kind: str = "unlimiformer"
        top_k: int = number(16, low=1)  # keys that a query of a head retrieves

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__(config, scope)

    def weigh(self, x: Tensor, pairs: Pairs, ctx: Context) -> Tensor:
        scores = pairs.add_position(pairs.dot_products())
        ctx.record("scores", scores)
        return masked_softmax(scores, best_keys(scores, pairs.mask, self.config.top_k))
