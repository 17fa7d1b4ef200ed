"""Residuals for depth: DeepNorm weighs the stream more the deeper the model is; ResiDual carries a second stream."""

from dataclasses import dataclass

from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.dropout import Dropout
from headway.nn.residual import Role, Sublayer
from headway.nn.scope import Scope, make_norm


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
