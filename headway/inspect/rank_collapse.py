"""Rank collapse: how far the vectors of all positions are from being equal, layer by layer (Dong et al. 2021)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import make_part
from headway.inspect.trace import Trace
from headway.nn.build import Scope, make
from headway.nn.context import Context
from headway.nn.init import initialise
from headway.nn.sequence import TokenPositions, positions_from_start


def rank_one_distance(x: Tensor) -> float:
    """‖X - 1x̄ᵀ‖ / ‖X‖ for X (T, d) with the mean row x̄: 0 where all rows are equal.

    The norm is that of Dong et al. 2021, √(‖·‖₁ ‖·‖∞): the largest column sum times the largest row sum."""
    return float(_norm(x - x.mean(0)) / _norm(x))


def _norm(x: Tensor) -> Tensor:
    return (x.abs().sum(0).amax() * x.abs().sum(1).amax()).sqrt()


class NoResidual:
    """No residual connection: only the output of a sub-layer goes on."""

    def start(self, x: Tensor) -> Tensor:
        return x

    def wrap(self, s: Tensor, sublayer: Any, tokens: TokenPositions | None = None) -> Tensor:
        result: Tensor = sublayer(s)
        return result

    def finish(self, s: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        return s


@torch.no_grad()
def measure_collapse(
    sublayers: Sequence[str] = ("attention",), residual: str = "none", layers: int = 12, *, d_model: int = 64,
    length: int = 32, seed: int = 0,
) -> list[float]:  # fmt: skip
    """The distance from rank one of random vectors, before the first layer and after each.

    A layer is these sub-layers in this order (attention with 4 heads, feedforward), randomly initialised, in float64;
    `residual` is any kind of the catalogue, or "none"."""
    norm = make_part("norm", "layernorm")
    linear = make_part("linear", "dense")
    scope = Scope(d_model=d_model, dropout=0.0, norm=norm, linear=linear, layers=layers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x = torch.randn(1, length, d_model, dtype=torch.float64)
        ctx = Context(positions_from_start(length, None, x.device))
        ends = _make_residual(residual, scope, "stack")
        s = ends.start(x)
        distances = [rank_one_distance(x[0])]
        for _ in range(layers):
            for name in sublayers:
                module = _make_sublayer(name, scope)
                role = "mixer" if name == "attention" else "feedforward"
                s = _make_residual(residual, scope, role).wrap(s, lambda y, run=module: run(y, ctx))
            distances.append(rank_one_distance(ends.finish(s)[0]))
    return distances


def _make_sublayer(name: str, scope: Scope) -> nn.Module:
    slot, kind = {"attention": ("mixer", "attention(4)"), "feedforward": ("feedforward", "relu")}[name]
    part: Any = make_part(slot, kind)
    module: nn.Module = make(slot, part.resolved(scope), scope).double()
    initialise(module)
    return module


def _make_residual(residual: str, scope: Scope, role: str) -> Any:
    if residual == "none":
        return NoResidual()
    part: Any = make_part("residual", residual)
    return part.build(scope, role).double()


def measure_trace_collapse(trace: Trace, side: str = "encoder") -> dict[str, float]:
    """The same for a real model and text: after the embedding and after each sub-layer, by name."""
    streams = [
        name for name in trace.tensors if name.startswith(f"{side}.") and name.endswith((".embedded", ".stream"))
    ]
    return {name.removesuffix(".stream"): rank_one_distance(trace.tensors[name].double()) for name in streams}
