"""Residual wiring: how a sub-layer's output joins the stream that runs through the stack.

A residual has start(x) -> s before the first layer, wrap(s, sublayer) -> s around each sub-layer, and
finish(s) -> x after the last. s is a tensor, or whatever the wiring needs to carry (ResiDual: a pair).
One instance with role "sublayer" wraps each sub-layer; one with role "stack" stands at both ends. Its config's gain(scope)
says how large the weights start that add to the stream: those that a sub-layer names in `adds`, by their
paths inside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from headway.config.schema import Part
from headway.nn.dropout import Dropout
from headway.nn.scope import Scope, make_norm

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
