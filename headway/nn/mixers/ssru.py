"""SSRU: a running average in every channel whose weights depend on the token alone (Kim 2019)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.mixer import MixerConfig, check_running_state, check_unpacked
from headway.nn.ops.retention import accumulator_dtype
from headway.nn.ops.scan import scan
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory


class SSRU(nn.Module):
    """c_t = f_t ⊙ c_{t-1} + (1 - f_t) ⊙ x̃_t, then relu(c_t); with f = sigmoid(xW_f + b_f) and x̃ = xW"""

    residual_outputs = ("candidate",)  # relu(s·c) = s·relu(c) for s > 0

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "ssru"

        def check(self, mask: Mask, position: Position.Config) -> None:
            check_running_state(self.kind, mask, position)

        def bounded(self, mask: Mask) -> bool:
            return True

        def cost(self, scope: Scope) -> Cost:
            width = scope.d_model
            return Cost(
                parameters=scope.linear_parameters(width, width) + scope.linear_parameters(width, width, bias=False),
                flops_per_query=2 * 2 * width**2,
                cached_per_text=width,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = config
        self.gate = make_linear(scope.d_model, scope.d_model, scope)
        self.candidate = make_linear(scope.d_model, scope.d_model, scope, bias=False)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        assert source is None
        check_unpacked(self.config.kind, ctx.queries)
        gate, candidate = project_together(x, self.gate, self.candidate)  # (B, T, d)
        gate = gate.to(accumulator_dtype(gate))
        if ctx.queries.valid is not None:
            gate = gate.masked_fill(~ctx.queries.valid[..., None], torch.inf)  # padding leaves the state as it is
        forget, state = torch.sigmoid(gate), None if cache is None else cache.get("state")
        states, state = scan(forget, torch.sigmoid(-gate) * candidate, state)
        if cache is not None:
            cache.advance(ctx.queries, state=state)
        for name, value in (("gate", forget), ("candidate", candidate), ("states", states)):
            ctx.record(name, value)
        return torch.relu(states).to(x.dtype)

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)
