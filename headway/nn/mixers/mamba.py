"""Mamba: a selective state space model (S6, Gu 2023), with a short convolution before it and a gate behind it."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.mixer import MixerConfig, check_running_state, check_unpacked
from headway.nn.ops.causal_convolution import convolve_causally
from headway.nn.ops.retention import accumulator_dtype
from headway.nn.ops.selective_scan import CHUNK_TOKENS, selective_scan
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory

STEP_RANGE = (0.001, 0.1)  # of Δ before training, spread over the channels by equal factors


class Mamba(nn.Module):
    """(silu(xW_z) ⊙ (SSM(u) + D ⊙ u)) W_o with u = silu(convolution(xW_x)); Δ, B and C of the SSM depend on u"""

    residual_outputs = ("output",)

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        needs_norm: ClassVar[bool] = True  # its output grows with the fourth power of its input
        kind: str = "mamba"
        expand: int = number(2, low=1)  # channels inside / d_model
        d_state: int = number(16, low=1)  # numbers that the state has for each channel
        d_conv: int = number(4, low=1)  # tokens that the convolution sees
        dt_rank: int | None = number(None, low=1)  # of the projection to Δ; = d_model / 16, rounded up
        chunk: int = number(CHUNK_TOKENS, low=1)
        bias: bool = False

        def resolved(self, scope: Scope) -> Self:
            return replace(self, dt_rank=self.dt_rank or -(-scope.d_model // 16))

        def check(self, mask: Mask, position: Position.Config) -> None:
            check_running_state(self.kind, mask, position)

        def bounded(self, mask: Mask) -> bool:
            return True

        def cost(self, scope: Scope) -> Cost:
            c, d, inner = self.resolved(scope), scope.d_model, self.expand * scope.d_model
            assert c.dt_rank
            selected = c.dt_rank + 2 * c.d_state
            return Cost(
                parameters=2 * scope.linear_parameters(d, inner, c.bias)
                + scope.linear_parameters(inner, selected, False)
                + scope.linear_parameters(c.dt_rank, inner, False)
                + scope.linear_parameters(inner, d, c.bias)
                + inner * (c.d_conv + 1 + c.d_state + 1 + 1),  # convolution, A, D, bias of Δ
                flops_per_query=2 * inner * (3 * d + selected + c.dt_rank + c.d_state),
                cached_per_text=inner * (c.d_state + c.d_conv - 1),
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.dt_rank
        d, inner = scope.d_model, c.expand * scope.d_model
        self.input, self.gate = (make_linear(d, inner, scope, bias=c.bias) for _ in range(2))
        self.conv_weight = nn.Parameter(_uniform(c.d_conv, 1, inner, bound=c.d_conv**-0.5))
        self.conv_bias = nn.Parameter(torch.zeros(inner))
        self.select = make_linear(inner, c.dt_rank + 2 * c.d_state, scope, bias=False)
        self.step = make_linear(c.dt_rank, inner, scope, bias=False)
        slowest, fastest = STEP_RANGE
        steps = torch.linspace(math.log(slowest), math.log(fastest), inner).exp()
        self.step_bias = nn.Parameter(steps + torch.log(-torch.expm1(-steps)))  # whose softplus is steps
        self.log_rate = nn.Parameter(torch.arange(1, c.d_state + 1).float().log().repeat(1, inner, 1))  # A = -exp of it
        self.skip = nn.Parameter(torch.ones(inner))
        self.output = make_linear(inner, d, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        assert source is None
        c, valid = self.config, ctx.queries.valid
        check_unpacked(c.kind, ctx.queries)
        window, state = (None if cache is None else cache.get(name) for name in ("window", "state"))
        u, gate = project_together(x, self.input, self.gate)  # (B, T, inner)
        passed_over = None if cache is None else valid  # without a cache, padding is at the end of a row
        u, window = convolve_causally(u, self.conv_weight[:, 0], self.conv_bias, window, passed_over)
        u = F.silu(u)
        step, b, readout = self.select(u).split([c.dt_rank, c.d_state, c.d_state], -1)
        dtype = accumulator_dtype(u)
        step = F.softplus(self.step(step).to(dtype) + self.step_bias.to(dtype))
        if valid is not None:
            step = step.masked_fill(~valid[..., None], 0.0)
        rates = -self.log_rate[0].to(dtype).exp()  # (inner, N)
        y, state = selective_scan(u.to(dtype), step, rates, b.to(dtype), readout.to(dtype), state, chunk=c.chunk)
        if cache is not None:
            cache.advance(ctx.queries, window=window, state=state)
        for name, value in (("step", step), ("b", b), ("c", readout)):
            ctx.record(name, value)
        result: Tensor = self.output(((y + self.skip * u) * F.silu(gate)).to(x.dtype))
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)


def _uniform(*shape: int, bound: float) -> Tensor:
    return torch.empty(shape).uniform_(-bound, bound)
