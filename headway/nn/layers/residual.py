"""Residual wiring: how a sub-layer's output joins the stream that runs through the stack.

A residual has start(x) -> s before the first layer, wrap(s, sublayer) -> s around each sub-layer, and
finish(s) -> x after the last. s is a tensor, or whatever the wiring needs to carry (ResiDual: a pair).
One instance with role "sublayer" wraps each sub-layer; one with role "stack" stands at both ends. Its config's gain(scope)
says how large the weights start that add to the stream: those that a sub-layer names in `adds`, by their
paths inside it.


Residuals for depth: DeepNorm weighs the stream more the deeper the model is; ResiDual carries a second stream."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.build import Scope, make_norm
from headway.nn.ops.dropout import Dropout

Role = Literal["sublayer", "stack"]
Sublayer = Callable[[Tensor], Tensor]


class Residual(Protocol):
    def start(self, x: Tensor) -> Any: ...
    def wrap(self, s: Any, sublayer: Sublayer) -> Any: ...
    def finish(self, s: Any) -> Tensor: ...


def streams(s: Any) -> tuple[Tensor, ...]:
    """What a residual carries: one vector a place, or several. Sub-layers hear the first."""
    return s if isinstance(s, tuple) else (s,)


class Post(nn.Module):
    """norm(x + dropout(f(x))): the paper's"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "post"

        def build(self, scope: Scope, role: Role) -> "Post":
            return Post(scope, role)

        def parameters(self, scope: Scope, role: Role) -> int:
            return scope.norm_parameters() if role == "sublayer" else 0

        def gain(self, scope: Scope) -> float:
            return 1.0

    def __init__(self, scope: Scope, role: Role) -> None:
        super().__init__()
        self.norm = make_norm(scope) if role == "sublayer" else nn.Identity()
        self.dropout = Dropout(scope.dropout)

    def start(self, x: Tensor) -> Tensor:
        return x

    def wrap(self, s: Tensor, sublayer: Sublayer) -> Tensor:
        result: Tensor = self.norm(self.dropout.add(s, sublayer(s)))
        return result

    def finish(self, s: Tensor) -> Tensor:
        return s


class Pre(nn.Module):
    """x + dropout(f(norm(x))), and one norm after the last layer"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "pre"

        def build(self, scope: Scope, role: Role) -> "Pre":
            return Pre(scope, role)

        def parameters(self, scope: Scope, role: Role) -> int:
            return scope.norm_parameters()

        def gain(self, scope: Scope) -> float:
            return 1.0

    def __init__(self, scope: Scope, role: Role) -> None:
        super().__init__()
        self.norm = make_norm(scope)
        self.dropout = Dropout(scope.dropout)

    def start(self, x: Tensor) -> Tensor:
        return x

    def wrap(self, s: Tensor, sublayer: Sublayer) -> Tensor:
        return self.dropout.add(s, sublayer(self.norm(s)))

    def finish(self, s: Tensor) -> Tensor:
        result: Tensor = self.norm(s)
        return result


class DeepNorm(nn.Module):
    """norm(α·x + dropout(f(x))), and weights that start β times as large"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "deepnorm"

        def build(self, scope: Scope, role: Role) -> "DeepNorm":
            return DeepNorm(scope, role)

        def parameters(self, scope: Scope, role: Role) -> int:
            return scope.norm_parameters() if role == "sublayer" else 0

        def alpha(self, scope: Scope) -> float:
            """How much of the stream is kept. N layers here, M on the other side."""
            n, m = scope.layers, scope.other_layers
            if not m:
                return float((2 * n) ** 0.25)
            return float(0.81 * (n**4 * m) ** 0.0625 if scope.side == "encoder" else (3 * n) ** 0.25)

        def gain(self, scope: Scope) -> float:
            """β: by which what adds to the stream starts smaller."""
            n, m = scope.layers, scope.other_layers
            if not m:
                return float((8 * n) ** -0.25)
            return float(0.87 * (n**4 * m) ** -0.0625 if scope.side == "encoder" else (12 * n) ** -0.25)

    def __init__(self, scope: Scope, role: Role) -> None:
        super().__init__()
        self.alpha = self.Config().alpha(scope)
        self.norm = make_norm(scope) if role == "sublayer" else nn.Identity()
        self.dropout = Dropout(scope.dropout)

    def start(self, x: Tensor) -> Tensor:
        return x

    def wrap(self, s: Tensor, sublayer: Sublayer) -> Tensor:
        result: Tensor = self.norm(self.dropout.add(self.alpha * s, sublayer(s)))
        return result

    def finish(self, s: Tensor) -> Tensor:
        return s


class ResiDual(nn.Module):
    """Two streams: x = norm(x + f(x)) as in `post`, and r = r + f(x), which no norm touches; in the end x + norm(r)"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "resi_dual"
        scale: float = number(1.0, low=1e-6)  # of the second stream: smaller keeps float16 from overflowing

        def build(self, scope: Scope, role: Role) -> "ResiDual":
            return ResiDual(scope, self.scale)

        def parameters(self, scope: Scope, role: Role) -> int:
            return scope.norm_parameters()

        def gain(self, scope: Scope) -> float:
            return 1.0

    def __init__(self, scope: Scope, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.norm = make_norm(scope)  # of the sub-layer's sum, or of the second stream at the end
        self.dropout = Dropout(scope.dropout)

    def start(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.scale * x

    def wrap(self, s: tuple[Tensor, Tensor], sublayer: Sublayer) -> tuple[Tensor, Tensor]:
        x, r = s
        y = self.dropout(sublayer(x))
        return self.norm(x + y), r + self.scale * y

    def finish(self, s: tuple[Tensor, Tensor]) -> Tensor:
        x, r = s
        result: Tensor = x + self.norm(r)
        return result
