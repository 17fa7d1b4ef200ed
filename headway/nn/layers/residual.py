"""Residual connections, how a sub-layer joins the residual stream: post-norm, pre-norm, DeepNorm, ResiDual, CRATE.

A residual has start(x) -> s before the first layer, wrap(s, sublayer, tokens) -> s around each sub-layer, and
finish(s, tokens) -> x after the last. s is a tensor, or a tuple of them (ResiDual: a pair). `tokens`, the positions of
s, tells norms what is padding. One instance wraps each sub-layer, with the role "mixer" (self- and cross-attention too)
or "feedforward"; one with role "stack" is used at both ends of the stack. Its config's gain(scope) scales the initial
weights of the layers that a sub-layer names in `residual_outputs`, by their paths inside it.

For deep models: DeepNorm weighs the stream more the deeper the model is; ResiDual carries a second stream.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.build import Scope, make_stream_norm
from headway.nn.ops.dropout import Dropout
from headway.nn.sequence import TokenPositions

Role = Literal["mixer", "feedforward", "stack"]
Sublayer = Callable[[Tensor], Tensor]


class Residual(Protocol):
    def start(self, x: Tensor) -> Any: ...
    def wrap(self, s: Any, sublayer: Sublayer, tokens: TokenPositions | None = None) -> Any: ...
    def finish(self, s: Any, tokens: TokenPositions | None = None) -> Tensor: ...


def streams(s: Any) -> tuple[Tensor, ...]:
    """The residual streams: one, or several, of which sub-layers read the first."""
    return s if isinstance(s, tuple) else (s,)


class PostNorm(nn.Module):
    """norm(x + dropout(f(x))), as in the paper"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "post"

        def build(self, scope: Scope, role: Role) -> "PostNorm":
            return PostNorm(scope, role)

        def parameters(self, scope: Scope, role: Role) -> int:
            return 0 if role == "stack" else scope.norm_parameters()

        def gain(self, scope: Scope) -> float:
            return 1.0

    def __init__(self, scope: Scope, role: Role) -> None:
        super().__init__()
        self.norm = nn.Identity() if role == "stack" else make_stream_norm(scope)
        self.dropout = Dropout(scope.dropout)

    def start(self, x: Tensor) -> Tensor:
        return x

    def wrap(self, s: Tensor, sublayer: Sublayer, tokens: TokenPositions | None = None) -> Tensor:
        result: Tensor = self.norm(self.dropout.add(s, sublayer(s)), tokens)
        return result

    def finish(self, s: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        return s


class PreNorm(nn.Module):
    """x + dropout(f(norm(x))), and one norm after the last layer"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "pre"

        def build(self, scope: Scope, role: Role) -> "PreNorm":
            return PreNorm(scope, role)

        def parameters(self, scope: Scope, role: Role) -> int:
            return scope.norm_parameters()

        def gain(self, scope: Scope) -> float:
            return 1.0

    def __init__(self, scope: Scope, role: Role) -> None:
        super().__init__()
        self.norm = make_stream_norm(scope)
        self.dropout = Dropout(scope.dropout)

    def start(self, x: Tensor) -> Tensor:
        return x

    def wrap(self, s: Tensor, sublayer: Sublayer, tokens: TokenPositions | None = None) -> Tensor:
        return self.dropout.add(s, sublayer(self.norm(s, tokens)))

    def finish(self, s: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        result: Tensor = self.norm(s, tokens)
        return result


class DeepNorm(nn.Module):
    """norm(α·x + dropout(f(x))), with initial weights scaled by β"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "deepnorm"

        def build(self, scope: Scope, role: Role) -> "DeepNorm":
            return DeepNorm(scope, role)

        def parameters(self, scope: Scope, role: Role) -> int:
            return 0 if role == "stack" else scope.norm_parameters()

        def alpha(self, scope: Scope) -> float:
            """The weight of the stream. N layers on this side, M on the other."""
            n, m = scope.layers, scope.other_layers
            if not m:
                return float((2 * n) ** 0.25)
            return float(0.81 * (n**4 * m) ** 0.0625 if scope.side == "encoder" else (3 * n) ** 0.25)

        def gain(self, scope: Scope) -> float:
            """β: the factor of the initial weights of `residual_outputs`."""
            n, m = scope.layers, scope.other_layers
            if not m:
                return float((8 * n) ** -0.25)
            return float(0.87 * (n**4 * m) ** -0.0625 if scope.side == "encoder" else (12 * n) ** -0.25)

    def __init__(self, scope: Scope, role: Role) -> None:
        super().__init__()
        self.alpha = self.Config().alpha(scope)
        self.norm = nn.Identity() if role == "stack" else make_stream_norm(scope)
        self.dropout = Dropout(scope.dropout)

    def start(self, x: Tensor) -> Tensor:
        return x

    def wrap(self, s: Tensor, sublayer: Sublayer, tokens: TokenPositions | None = None) -> Tensor:
        result: Tensor = self.norm(self.dropout.add(self.alpha * s, sublayer(s)), tokens)
        return result

    def finish(self, s: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        return s


class ResiDual(nn.Module):
    """Two streams: x = norm(x + f(x)) as in `post`, and r = r + f(x), without norms; at the end x + norm(r)"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "residual_dual"
        scale: float = number(1.0, low=1e-6)  # of the second stream: a smaller one keeps float16 from overflowing

        def build(self, scope: Scope, role: Role) -> "ResiDual":
            return ResiDual(scope, self.scale)

        def parameters(self, scope: Scope, role: Role) -> int:
            return scope.norm_parameters()

        def gain(self, scope: Scope) -> float:
            return 1.0

    def __init__(self, scope: Scope, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.norm = make_stream_norm(scope)  # after a sub-layer, or of the second stream at the end
        self.dropout = Dropout(scope.dropout)

    def start(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.scale * x

    def wrap(
        self, s: tuple[Tensor, Tensor], sublayer: Sublayer, tokens: TokenPositions | None = None
    ) -> tuple[Tensor, Tensor]:
        x, r = s
        y = self.dropout(sublayer(x))
        return self.norm(x + y, tokens), r + self.scale * y

    def finish(self, s: tuple[Tensor, Tensor], tokens: TokenPositions | None = None) -> Tensor:
        x, r = s
        result: Tensor = x + self.norm(r, tokens)
        return result


class CrateResidual(nn.Module):
    """x + dropout(f(norm(x))) for mixers, and y + dropout(f(y)) with y = norm(x) for feed-forwards; nothing at the end

    A feed-forward continues from the *normed* stream, which its norm therefore replaces: an ISTA step improves the
    vector that it is given, and its result is the new stream."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "crate"

        def build(self, scope: Scope, role: Role) -> "CrateResidual":
            return CrateResidual(scope, role)

        def parameters(self, scope: Scope, role: Role) -> int:
            return 0 if role == "stack" else scope.norm_parameters()

        def gain(self, scope: Scope) -> float:
            return 1.0

    def __init__(self, scope: Scope, role: Role) -> None:
        super().__init__()
        self.replaces_stream = role == "feedforward"
        self.norm = nn.Identity() if role == "stack" else make_stream_norm(scope)
        self.dropout = Dropout(scope.dropout)

    def start(self, x: Tensor) -> Tensor:
        return x

    def wrap(self, s: Tensor, sublayer: Sublayer, tokens: TokenPositions | None = None) -> Tensor:
        normed: Tensor = self.norm(s, tokens)
        return self.dropout.add(normed if self.replaces_stream else s, sublayer(normed))

    def finish(self, s: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        return s
