"""Channel mixing of RWKV: the feed-forward of its blocks, whose input is mixed with that of the previous token."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.ops.token_shift import initial_shares, mix_previous, shift_tokens


class RWKVChannelMix(nn.Module):
    """sigmoid(x'W_r) ⊙ relu(x''W_k)²W_v, with x' and x'' between the token and the one before; RWKV-7 has no gate"""

    residual_outputs = ("inner", "outer")

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        reads_previous: ClassVar[bool] = True  # a token's output depends on the one before
        kind: str = "rwkv_channel_mix"
        hidden: int | None = number(None, low=1)  # = 4 · d_model
        gated: bool = True  # by sigmoid(x'W_r): RWKV-4 to 6; RWKV-7: false

        def resolved(self, scope: Scope) -> "RWKVChannelMix.Config":
            return replace(self, hidden=self.hidden or 4 * scope.d_model)

        def cost(self, scope: Scope) -> Cost:
            d, hidden = scope.d_model, self.hidden or 4 * scope.d_model
            parameters = scope.linear_parameters(d, hidden, False) + scope.linear_parameters(hidden, d, False) + d
            flops = 4 * d * hidden
            if self.gated:
                parameters += scope.linear_parameters(d, d, False) + d
                flops += 2 * d * d
            return Cost(parameters=parameters, flops_per_query=flops, cached_per_text=d)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        config = config.resolved(scope)
        assert config.hidden is not None
        self.inner = make_linear(scope.d_model, config.hidden, scope, bias=False)
        self.outer = make_linear(config.hidden, scope.d_model, scope, bias=False)
        self.gate = make_linear(scope.d_model, scope.d_model, scope, bias=False) if config.gated else None
        shares = initial_shares(scope.d_model, 1 - scope.layer / scope.layers)
        self.inner_share = nn.Parameter(shares)  # of the previous token in the input of `inner`,
        self.gate_share = nn.Parameter(shares.clone()) if config.gated else None  # and of `gate`

    def forward(self, x: Tensor, ctx: Context, *, cache: RecurrentState | None = None) -> Tensor:
        previous, last = shift_tokens(x, ctx.queries, None if cache is None else cache.get("last"))
        if cache is not None:
            cache.advance(ctx.queries, last=last)
        inner = self.inner(mix_previous(x, previous, self.inner_share))
        result: Tensor = self.outer(F.relu(inner).square())
        if self.gate is None or self.gate_share is None:
            return result
        return torch.sigmoid(self.gate(mix_previous(x, previous, self.gate_share))) * result

    def new_cache(self, batch: int, device: torch.device) -> RecurrentState:
        return RecurrentState(batch, device)
