"""A Transformer block: self-attention or another mixer, cross-attention, feed-forward, each in a residual.

Between the last two, some layers of a decoder that retrieves have chunked cross-attention to neighbours, and those of
one with a graph reasoner listen to its nodes, with a residual connection of their own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import Part
from headway.nn.build import Scope, make
from headway.nn.cache.kv import LayerCache
from headway.nn.context import Context
from headway.nn.layers.feedforward import NoFeedForward
from headway.nn.layers.residual import streams
from headway.nn.masks.masks import Mask


class Block(nn.Module):
    def __init__(
        self,
        mixer: Part,
        cross: Part | None,
        feedforward: Part,
        residual: Any,
        scope: Scope,
        neighbours: nn.Module | None = None,
        nodes: nn.Module | None = None,
    ) -> None:
        """neighbours: chunked cross-attention, where this layer has some. nodes: a NodeListener, likewise."""
        super().__init__()
        parts: dict[str, nn.Module] = {"self": make("mixer", mixer, scope)}
        if cross is not None:
            parts["cross"] = make("mixer", cross, scope)
        if neighbours is not None:
            parts["neighbours"] = neighbours
        if nodes is not None:
            parts["nodes"] = nodes
        if not isinstance(feedforward, NoFeedForward.Config):
            parts["feedforward"] = make("feedforward", feedforward, scope)
        self.sublayers = nn.ModuleDict(parts)
        self.gain: float = residual.gain(scope)  # factor of the initial weights of residual_outputs
        roles = {name: "feedforward" if name == "feedforward" else "mixer" for name in parts if name != "nodes"}
        self.residuals = nn.ModuleDict({name: residual.build(scope, role) for name, role in roles.items()})

    def forward(
        self,
        s: Any,
        ctx: Context,
        caches: dict[str, LayerCache] | None,
        before_neighbours: Callable[[Tensor], None] | None = None,
    ) -> Any:
        """s is the residual stream. The mask and the position in ctx are those of the self sub-layer.
        before_neighbours: called with the stream that chunked cross-attention reads."""
        for name, sublayer in self.sublayers.items():
            if name == "neighbours" and before_neighbours is not None:
                before_neighbours(streams(s)[0])
            cache = None if caches is None else caches.get(name)
            path = f"{ctx.path}.{name}"
            position = ctx.cross_position if name == "cross" else None
            inside = replace(ctx, path=path) if name == "self" else ctx.for_sublayer(path, position=position)
            wiring: Any = sublayer if name == "nodes" else self.residuals[name]
            if name == "nodes":
                s = sublayer(s, inside, cache)
            else:
                s = wiring.wrap(s, lambda x, run=sublayer, c=inside, kept=cache: _run(run, x, c, kept), ctx.queries)
            if ctx.traced:
                inside.record_norm("norm", getattr(wiring, "norm", None))  # a kind of one's own may have none
                for number, stream in enumerate(streams(s), start=1):
                    inside.record("stream" if number == 1 else f"stream{number}", stream)
        return s

    @property
    def needs_cache(self) -> bool:
        """Whether later tokens need what this block computes for the current ones."""
        kept = getattr(self.sublayers["self"], "needs_cache", True)
        return bool(kept) or self._feedforward_keeps or "neighbours" in self.sublayers

    def new_caches(self, batch: int, device: torch.device, mask: Mask, trainable: bool) -> dict[str, LayerCache]:
        new_cache: Any = self.sublayers["self"].new_cache
        own = new_cache(batch, device, lookback=mask.lookback, trainable=trainable)
        caches: dict[str, LayerCache] = {} if own is None else {"self": own}
        if "cross" in self.sublayers:
            caches["cross"] = self.sublayers["cross"].new_cache(batch, device, cross=True)  # type: ignore[operator]
        if "neighbours" in self.sublayers:
            caches["neighbours"] = self.sublayers["neighbours"].new_cache(batch, device)  # type: ignore[operator]
        if "nodes" in self.sublayers:
            caches["nodes"] = self.sublayers["nodes"].new_cache(batch, device)  # type: ignore[operator]
        if self._feedforward_keeps:
            caches["feedforward"] = self.sublayers["feedforward"].new_cache(batch, device)  # type: ignore[operator]
        return caches

    @property
    def _feedforward_keeps(self) -> bool:
        """Whether there is a feed-forward with a cache."""
        return "feedforward" in self.sublayers and hasattr(self.sublayers["feedforward"], "new_cache")


def _run(sublayer: nn.Module, x: Tensor, ctx: Context, cache: LayerCache | None) -> Tensor:
    kind = ctx.path.rpartition(".")[2]
    ctx.record("input", x)
    if kind == "feedforward":
        output = sublayer(x, ctx) if cache is None else sublayer(x, ctx, cache=cache)
    elif kind == "cross":
        memory = ctx.memories.get("encoder")
        if memory is None and cache is None:
            raise ValueError("this decoder needs encoder output: pass memory=model.encode(…)")
        output = sublayer(x, ctx, source=memory, cache=cache)
    else:
        output = sublayer(x, ctx, cache=cache)
    ctx.record("output", output)
    assert isinstance(output, Tensor)
    return output
