"""minGRU: a recurrent unit whose gate depends on the token alone, so that a scan trains it (Feng 2024)."""

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
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


class MinGRU(nn.Module):
    """h_t = (1 - z_t) ⊙ h_{t-1} + z_t ⊙ h̃_t, then hW_o; with z = sigmoid(xW_z) and h̃ = xW_h, or g(xW_h)"""

    residual_outputs = ("output",)

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "mingru"
        expansion: float = number(1.0, low=0, high=64)  # width of the state / d_model
        activation: Literal["identity", "positive"] = "identity"  # of the candidate
        bias: bool = False

        def resolved(self, scope: Scope) -> Self:
            if self.width(scope) < 1:
                raise ConfigError(
                    f"expansion = {self.expansion} of d_model = {scope.d_model} leaves no channel. Give a larger one.",
                    "expansion",
                )
            return self

        def width(self, scope: Scope) -> int:
            """Channels of the state."""
            return int(scope.d_model * self.expansion)

        def check(self, mask: Mask, position: Position.Config) -> None:
            check_running_state(self.kind, mask, position)

        def bounded(self, mask: Mask) -> bool:
            return True

        def cost(self, scope: Scope) -> Cost:
            width = self.width(scope)
            return Cost(
                parameters=2 * scope.linear_parameters(scope.d_model, width, self.bias)
                + scope.linear_parameters(width, scope.d_model, self.bias),
                flops_per_query=2 * 3 * scope.d_model * width,
                cached_per_text=width,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        self.gate, self.candidate = (make_linear(scope.d_model, c.width(scope), scope, bias=c.bias) for _ in range(2))
        self.output = make_linear(c.width(scope), scope.d_model, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        assert source is None
        check_unpacked(self.config.kind, ctx.queries)
        gate, candidate = project_together(x, self.gate, self.candidate)  # (B, T, width)
        gate = gate.to(accumulator_dtype(gate))
        if ctx.queries.valid is not None:
            gate = gate.masked_fill(~ctx.queries.valid[..., None], -torch.inf)  # padding leaves the state as it is
        if self.config.activation == "positive":
            candidate = make_positive(candidate)
        z, state = torch.sigmoid(gate), None if cache is None else cache.get("state")
        states, state = scan(torch.sigmoid(-gate), z * candidate, state)
        if cache is not None:
            cache.advance(ctx.queries, state=state)
        for name, value in (("gate", z), ("candidate", candidate), ("states", states)):
            ctx.record(name, value)
        result: Tensor = self.output(states.to(x.dtype))
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)


def make_positive(x: Tensor) -> Tensor:
    """g(x) = x + ½ for x ≥ 0, else sigmoid(x): what the paper's form in logarithms needs."""
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))
