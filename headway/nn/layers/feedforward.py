"""Feed-forward layers, applied to each token by itself: two linear layers with an activation, gated ones, or
nothing."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number, slot
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, build_norm, make_linear
from headway.nn.context import Context
from headway.nn.ops.dropout import Dropout

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """activation(xW₁ + b₁)W₂ + b₂, the same for every token"""

    residual_outputs = ("inner", "outer")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "relu"
        hidden: int | None = number(None, low=1)  # = 4 · d_model
        bias: bool = True
        dropout: float | None = number(None, low=0, high=1)  # = the model's

        def resolved(self, scope: Scope) -> "FeedForward.Config":
            dropout = scope.dropout if self.dropout is None else self.dropout
            return replace(self, hidden=self.hidden or 4 * scope.d_model, dropout=dropout)

        def cost(self, scope: Scope) -> Cost:
            hidden = self.hidden or 4 * scope.d_model
            parameters = scope.linear_parameters(scope.d_model, hidden, self.bias)
            parameters += scope.linear_parameters(hidden, scope.d_model, self.bias)
            return Cost(parameters=parameters, flops_per_query=4 * scope.d_model * hidden)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        config = config.resolved(scope)
        assert config.hidden is not None
        self.inner = make_linear(scope.d_model, config.hidden, scope, bias=config.bias)
        self.outer = make_linear(config.hidden, scope.d_model, scope, bias=config.bias)
        self.activation = ACTIVATIONS[config.kind]
        self.dropout = Dropout(config.dropout or 0.0)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        inner = self.inner(x)
        fusable = self.activation is F.relu
        result: Tensor = self.outer(self.dropout.relu(inner) if fusable else self.dropout(self.activation(inner)))
        return result


def squared_relu(x: Tensor) -> Tensor:
    return F.relu(x).square()


GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "swiglu": ACTIVATIONS["silu"],
    "geglu": ACTIVATIONS["gelu"],
    "geglu_tanh": ACTIVATIONS["gelu_tanh"],
    "reglu_squared": squared_relu,
}


class GatedFeedForward(nn.Module):
    """(activation(xW) ⊙ xV)W₂"""

    residual_outputs = ("inner", "outer")

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "swiglu"
        hidden: int | None = number(
            None, low=1
        )  # = ⅔ · 4 · d_model, rounded up to a multiple of 64: as many weights as relu
        bias: bool = False
        dropout: float | None = number(None, low=0, high=1)  # = the model's
        output_norm: Any = slot("norm", None)  # no norm before W₂; BitNet: "rmsnorm"

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.output_norm is not None and self.output_norm.streams_only:
                raise ConfigError(
                    f'a feed-forward normalises single vectors, and "{self.output_norm.kind}" is a norm of the '
                    'residual stream. Choose "layernorm", "rmsnorm" or "none".',
                    "output_norm",
                )

        @property
        def needs_norm(self) -> bool:
            """Whether its outputs would grow beyond all bounds without norms: with the third power of its input."""
            return self.kind == "reglu_squared" and self.output_norm is None

        def resolved(self, scope: Scope) -> "GatedFeedForward.Config":
            dropout = scope.dropout if self.dropout is None else self.dropout
            return replace(self, hidden=self.hidden or -(-8 * scope.d_model // 3 // 64) * 64, dropout=dropout)

        def cost(self, scope: Scope) -> Cost:
            hidden = self.resolved(scope).hidden
            assert hidden is not None
            parameters = 2 * scope.linear_parameters(scope.d_model, hidden, self.bias)
            parameters += scope.linear_parameters(hidden, scope.d_model, self.bias)
            parameters += 0 if self.output_norm is None else self.output_norm.parameters(hidden)
            return Cost(parameters=parameters, flops_per_query=6 * scope.d_model * hidden)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        config = config.resolved(scope)
        assert config.hidden is not None
        self.gate = make_linear(scope.d_model, config.hidden, scope, bias=config.bias)
        self.inner = make_linear(scope.d_model, config.hidden, scope, bias=config.bias)
        self.outer = make_linear(config.hidden, scope.d_model, scope, bias=config.bias)
        self.output_norm = None if config.output_norm is None else build_norm(config.output_norm, config.hidden)
        self.gate_activation = GATES[config.kind]
        self.dropout = Dropout(config.dropout or 0.0)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        inner = self.gate_activation(self.gate(x)) * self.inner(x)
        normed = inner if self.output_norm is None else self.output_norm(inner)
        result: Tensor = self.outer(self.dropout(normed))
        return result

    @property
    def has_norms(self) -> bool:
        """Whether it has a norm inside, which fast decoders, which take its linear layers alone, do not."""
        return self.output_norm is not None


class NoFeedForward:
    """No feed-forward: a layer is its mixer alone, as a gated attention unit is"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "none"

        def resolved(self, scope: Scope) -> "NoFeedForward.Config":
            return self

        def cost(self, scope: Scope) -> Cost:
            return Cost()
