"""Kolmogorov-Arnold layers (KAN, Liu 2024): every connection has a function of its own, a spline that is learned."""

import math
from dataclasses import dataclass, replace

import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.context import Context
from headway.nn.layers.linear import ScaledDense
from headway.nn.ops.dropout import Dropout
from headway.nn.ops.splines import spline_bases


class KAN(nn.Module):
    """Two layers of learned functions: yₒ = Σᵢ φₒᵢ(xᵢ), φ(x) = w·silu(x) + s·Σ_g c_g B_g(x)"""

    residual_outputs = ("inner.base", "inner.spline", "outer.base", "outer.spline")

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "kan"
        hidden: int | None = number(None, low=1)  # = 4 · d_model / (grid + order + 1): as many weights as relu
        grid: int = number(5, low=1)  # intervals between low and high
        order: int = number(3, low=1)  # degree of the splines
        low: float = -1.0
        high: float = 1.0
        scaler: bool | None = None  # a factor for each spline; = true where linear layers are dense
        dropout: float | None = number(None, low=0, high=1)  # = the model's

        def resolved(self, scope: Scope) -> "KAN.Config":
            if not (self.low < self.high and math.isfinite(self.high - self.low)):
                raise ConfigError(
                    f"splines need an interval, and low = {self.low} is not below high = {self.high} by a finite "
                    "distance. Give other values, such as -1 and 1.",
                    "low",
                )
            is_dense = scope.linear.kind == "dense"
            if self.scaler and not is_dense:
                raise ConfigError(
                    f'a scaler multiplies single weights, which linear = "{scope.linear.kind}" rounds. Set scaler = '
                    "false, or leave it out.",
                    "scaler",
                )
            return replace(
                self,
                hidden=self.hidden or -(-4 * scope.d_model // (self.grid + self.order + 1)),
                scaler=is_dense if self.scaler is None else self.scaler,
                dropout=scope.dropout if self.dropout is None else self.dropout,
            )

        @property
        def bases(self) -> int:
            return self.grid + self.order

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.hidden is not None
            parameters = 0
            for inputs, outputs in ((scope.d_model, c.hidden), (c.hidden, scope.d_model)):
                parameters += scope.linear_parameters(inputs, outputs, False)
                parameters += scope.linear_parameters(inputs * c.bases, outputs, False)
                parameters += inputs * outputs if c.scaler else 0
            return Cost(parameters=parameters, flops_per_query=4 * scope.d_model * c.hidden * (1 + c.bases))

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        config = config.resolved(scope)
        assert config.hidden is not None
        self.inner = KANLayer(config, scope.d_model, config.hidden, scope)
        self.outer = KANLayer(config, config.hidden, scope.d_model, scope)
        self.dropout = Dropout(config.dropout or 0.0)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        hidden: Tensor = self.inner(x)
        ctx.record("hidden", hidden)
        result: Tensor = self.outer(self.dropout(hidden))
        return result


class KANLayer(nn.Module):
    """One layer: a product with silu(x), and one with the bases of all inputs side by side."""

    def __init__(self, config: KAN.Config, inputs: int, outputs: int, scope: Scope) -> None:
        super().__init__()
        self.config = config
        self.base = make_linear(inputs, outputs, scope, bias=False)
        self.spline = (
            ScaledDense(inputs, config.bases, outputs)
            if config.scaler
            else make_linear(inputs * config.bases, outputs, scope, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        c = self.config
        bases = spline_bases(x, c.grid, c.order, c.low, c.high)  # (B, T, inputs, bases)
        result: Tensor = self.base(F.silu(x)) + self.spline(bases.flatten(-2))
        return result
