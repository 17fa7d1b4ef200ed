"""The sub-layer by which a decoder layer listens to the nodes of a graph: gated cross-attention (Bounsi 2024).

    s + tanh(gate) · attention(norm(s), nodes)        gate starts as 0: at first nothing is heard

The wiring is its own, whatever the residual of the other sub-layers is: with a gate of 0, or without a graph, the layer
is exactly the one without this sub-layer.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import Part
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make, make_stream_norm
from headway.nn.cache.kv import CrossKVCache, LayerCache
from headway.nn.context import Context
from headway.nn.derived_cross import attention_like
from headway.nn.mixers.attention import Attention
from headway.nn.ops.dropout import Dropout
from headway.nn.sequence import Memory, TokenPositions

SINGLE_STREAMS = ("pre", "post", "deepnorm")  # residuals whose stream is one tensor, which a sub-layer may be added to


class NodeListener(nn.Module):
    def __init__(self, attention: Part, scope: Scope) -> None:
        super().__init__()
        self.norm = make_stream_norm(scope)
        self.attention: Any = make("mixer", attention, scope)
        self.gate = nn.Parameter(torch.zeros(()))
        self.dropout = Dropout(scope.dropout)

    @staticmethod
    def cost(attention: Any, scope: Scope) -> Cost:
        cost: Cost = attention.cost(scope)
        return cost + Cost(parameters=scope.norm_parameters() + 1)

    def forward(self, s: Tensor, ctx: Context, cache: LayerCache | None) -> Tensor:
        nodes = ctx.memories.get("nodes")
        tokens = _known_nodes(nodes, cache)
        if tokens is None:
            return s
        x = self.norm(s, ctx.queries)
        ctx.record("input", x)
        # Masks are shared between layers by the length of their keys: those of nodes are not those of a source.
        own = replace(ctx, memo=ctx.compute_once(("nodes",), dict))
        heard = self.attention(x, own, source=nodes, cache=cache) * self.gate.tanh()
        if tokens.valid is not None:  # a row without nodes hears nothing, not even a bias
            heard = heard.masked_fill(~tokens.valid.any(1)[:, None, None], 0.0)
        ctx.record("output", heard)
        ctx.record("gate", self.gate.tanh().expand(1, 1))
        return self.dropout.add(s, heard)

    def new_cache(self, batch: int, device: torch.device) -> LayerCache:
        cache: LayerCache = self.attention.new_cache(batch, device, cross=True)
        return cache


def resolve_node_listeners(stack: Any, scope: Scope) -> tuple[Part, ...] | None:
    """The attention of each layer to nodes: as given, or like its mixer; None without a reasoner."""
    if not (scope.nodes and scope.side == "decoder"):
        if stack.nodes is not None:
            raise ConfigError("only a decoder listens to nodes, those of model.reasoner. Leave it out.")
        return None
    like = (attention_like((mixer,)) or attention_like(stack.mixer) or Attention.Config() for mixer in stack.mixer)
    return tuple(part.resolved(scope) for part in stack.nodes or tuple(like))


def check_node_listeners(stack: Any) -> None:
    """Raise a ConfigError for the config of a stack whose layers cannot have this sub-layer."""
    if stack.residual.kind not in SINGLE_STREAMS:
        raise ConfigError(
            f"layers that listen to nodes need one residual stream, and {stack.residual.kind} has others. Set residual "
            '= "pre".',
            "residual",
        )
    if stack.memory_tokens is not None or stack.streams == 2:
        setting = "streams" if stack.streams == 2 else "memory_tokens"
        raise ConfigError(f"layers that listen to nodes have no {setting}. Leave it out.", setting)


def _known_nodes(nodes: Memory | None, cache: LayerCache | None) -> TokenPositions | None:
    """Which nodes there are: those of the pass, or of the one that filled the cache; None without a graph."""
    if isinstance(cache, CrossKVCache) and cache.kv is not None:
        return cache.kv[2]
    return None if nodes is None else nodes.positions
