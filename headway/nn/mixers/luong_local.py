"""Luong's local attention: each query attends to a window around a centre, which it predicts (Luong 2015)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.context import Context
from headway.nn.mixers.attention import split_heads
from headway.nn.mixers.scored_attention import Pairs, ScoredAttention, ScoredAttentionConfig
from headway.nn.ops.attention import masked_softmax
from headway.nn.ops.local_window import count_keys, gaussian, within_window
from headway.nn.ops.retention import accumulator_dtype


class LuongLocalAttention(ScoredAttention):
    """softmax(q·k / √d_k where |s - p| ≤ D) · exp(-(s - p)² / 2σ²), p = S · sigmoid(uᵀ tanh(xW_p)), σ = D / 2"""

    config: "LuongLocalAttention.Config"

    @dataclass(frozen=True, kw_only=True)
    class Config(ScoredAttentionConfig):
        kind: str = "luong_local"
        max_distance: int = number(10, low=1)  # D, of a key from the centre
        centre: Literal["predicted", "monotonic"] = "predicted"  # local-p; local-m: the query's own position

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k
            if c.centre == "monotonic":
                return super().cost(scope)
            hidden = c.heads * c.d_k
            return super().cost(scope) + Cost(
                parameters=scope.linear_parameters(scope.d_model, hidden, c.bias) + hidden,
                flops_per_query=2 * hidden * (scope.d_model + 1),
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__(config, scope)
        c = self.config
        assert c.d_k
        self.centre = self.to_centre = None
        if c.centre == "predicted":
            self.centre = make_linear(scope.d_model, c.heads * c.d_k, scope, bias=c.bias)
            self.to_centre = nn.Parameter(torch.randn(c.heads, c.d_k, 1) * c.d_k**-0.5)

    def weigh(self, x: Tensor, pairs: Pairs, ctx: Context) -> Tensor:
        c, keys = self.config, pairs.keys.positions
        scores = pairs.add_position(pairs.dot_products())
        centre = self._centres(x, pairs, ctx)  # (B or 1, H or 1, T, 1)
        window = within_window(centre, keys, c.max_distance)
        weights = masked_softmax(scores, window if pairs.mask is None else window & pairs.mask)
        if c.centre == "predicted":
            weights = weights * gaussian(centre, keys, c.max_distance).to(weights.dtype)
        ctx.record("scores", scores)
        ctx.record("centre", centre.squeeze(-1).expand(*scores.shape[:3]))
        return weights

    def _centres(self, x: Tensor, pairs: Pairs, ctx: Context) -> Tensor:
        """Among the keys that a query can see: those up to itself where the future is hidden, else all real ones."""
        own = ctx.queries.positions
        lengths = own + 1 if ctx.mask.hides_future else count_keys(ctx.queries, pairs.keys)  # (B or 1, T or 1)
        if self.centre is None or self.to_centre is None:
            return torch.minimum(own, lengths - 1)[:, None, :, None]
        hidden = torch.tanh(split_heads(self.centre(x), self.config.heads))  # (B, H, T, D)
        share = (hidden @ self.to_centre.to(hidden.dtype)).to(accumulator_dtype(hidden)).sigmoid()
        return lengths[:, None, :, None] * share
