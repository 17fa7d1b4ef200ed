"""Hard attention: every query attends to exactly one key (Xu 2015), trained by a straight-through gradient."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from headway.config.schema import number
from headway.nn.build import Cost, Scope
from headway.nn.context import Context
from headway.nn.layers.linear import Dense
from headway.nn.mixers.scored_attention import Pairs, ScoredAttention, ScoredAttentionConfig
from headway.nn.ops.hard_attention import choose_keys, gumbel_noise


class HardAttention(ScoredAttention):
    """yW_v of the key with the highest score; gradients are those of softmax(score / temperature)"""

    config: "HardAttention.Config"
    keep_float = ("query", "key")  # rounding would choose other keys

    @dataclass(frozen=True, kw_only=True)
    class Config(ScoredAttentionConfig):
        kind: str = "hard_attention"
        choice: Literal["argmax", "gumbel"] = "argmax"  # in training: the best key, or one drawn by its weight
        temperature: float = number(1.0, low=1e-3)  # of the softmax that gradients are taken of

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k
            sizes = (scope.d_model, c.heads * c.d_k, c.bias)
            more = 2 * (Dense.Config().parameters(*sizes) - scope.linear_parameters(*sizes))
            return super().cost(scope) + Cost(parameters=more)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__(config, scope)
        c = self.config
        assert c.d_k
        width = c.heads * c.d_k
        self.query, self.key = (Dense(Dense.Config(), scope.d_model, width, bias=c.bias) for _ in range(2))

    def weigh(self, x: Tensor, pairs: Pairs, ctx: Context) -> Tensor:
        scores = pairs.add_position(pairs.dot_products())
        ctx.record("scores", scores)
        if self.training and self.config.choice == "gumbel":
            scores = scores + gumbel_noise(scores)
        hard, soft = choose_keys(scores, pairs.mask, self.config.temperature)
        ctx.record("soft_weights", soft)
        return hard
