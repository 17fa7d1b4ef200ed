"""Rank collapse: how far the places of a text are from all being the same vector, layer by layer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import make_part
from headway.inspect.trace import Trace
from headway.nn.build import Scope, make
from headway.nn.context import Context
from headway.nn.init import initialise
from headway.nn.sequence import places_from


def from_rank_one(x: Tensor) -> float:
    """‖X - 1x̄ᵀ‖ / ‖X‖ for X (T, d) with the mean row x̄: 0 where all rows are equal.

    The norm is that of Dong et al. 2021, √(‖·‖₁ ‖·‖∞): the largest column sum times the largest row sum."""
    return float(_norm(x - x.mean(0)) / _norm(x))


def _norm(x: Tensor) -> Tensor:
    return (x.abs().sum(0).amax() * x.abs().sum(1).amax()).sqrt()


class Bare:
    """No residual at all: what a sub-layer says is all that is left."""

    def start(self, x: Tensor) -> Tensor:
        return x

    def wrap(self, s: Tensor, sublayer: Any) -> Tensor:
        result: Tensor = sublayer(s)
        return result

    def finish(self, s: Tensor) -> Tensor:
        return s


@torch.no_grad()
def collapse(
    sublayers: Sequence[str] = ("attention",), residual: str = "none", layers: int = 12, *, d_model: int = 64,
    length: int = 32, seed: int = 0,
) -> list[float]:  # fmt: skip
    """The distance from rank one of random vectors, before the first layer and behind each.

    A layer is these sub-layers in this order (attention with 4 heads, feedforward), new and random, in float64;
    `residual` is any kind of the catalogue, or "none"."""
    plain, dense = make_part("norm", "layernorm"), make_part("linear", "dense")
    scope = Scope(d_model=d_model, dropout=0.0, norm=plain, linear=dense, layers=layers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x = torch.randn(1, length, d_model, dtype=torch.float64)
        ctx = Context(places_from(length, None, x.device))
        ends = _wiring(residual, scope, "stack")
        s, distances = ends.start(x), [from_rank_one(x[0])]
        for _ in range(layers):
            for name in sublayers:
                module = _sublayer(name, scope)
                s = _wiring(residual, scope, "sublayer").wrap(s, lambda y, run=module: run(y, ctx))
            distances.append(from_rank_one(ends.finish(s)[0]))
    return distances


def _sublayer(name: str, scope: Scope) -> nn.Module:
    slot, written = {"attention": ("mixer", "attention(4)"), "feedforward": ("feedforward", "relu")}[name]
    part: Any = make_part(slot, written)
    module: nn.Module = make(slot, part.resolved(scope), scope).double()
    initialise(module)
    return module


def _wiring(residual: str, scope: Scope, role: str) -> Any:
    if residual == "none":
        return Bare()
    part: Any = make_part("residual", residual)
    return part.build(scope, role).double()


def collapse_in(trace: Trace, side: str = "encoder") -> dict[str, float]:
    """The same of a real model and a real text: behind the embedding and behind each sub-layer, by name."""
    streams = [
        name for name in trace.tensors if name.startswith(f"{side}.") and name.endswith((".embedded", ".stream"))
    ]
    return {name.removesuffix(".stream"): from_rank_one(trace.tensors[name].double()) for name in streams}
