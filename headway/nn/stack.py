"""A stack of layers: the encoder or the decoder of a Transformer."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headway.config.schema import Node, Part, make_part, number, slot, tile_over_layers
from headway.errors import ConfigError
from headway.nn.block import Block
from headway.nn.build import Cost, Scope, make
from headway.nn.cache.kv import LayerCache
from headway.nn.cache.memory_state import MemoryState
from headway.nn.cache.sliding_window import WINDOW_SLACK
from headway.nn.cache.token_history import TokenHistory
from headway.nn.context import Context
from headway.nn.derived_cross import DerivedCross, attention_like
from headway.nn.frontends.frontend import resolve_front_end
from headway.nn.layers.feedforward import NoFeedForward
from headway.nn.layers.residual import streams
from headway.nn.masks.masks import FULL, Mask, in_any_order, make_mask
from headway.nn.memory_tokens import MemoryTokens
from headway.nn.mixers.attention import Attention
from headway.nn.mixers.shared_kv import SharedKV
from headway.nn.node_listener import NodeListener, check_node_listeners, resolve_node_listeners
from headway.nn.positions.positions import NoPosition, Position
from headway.nn.query_stream import QueryStream, check_query_stream
from headway.nn.sequence import LastToken, TokenPositions
from headway.nn.shared_layers import check_shared_kv, check_shared_weights


class Stack(nn.Module):
    @dataclass(frozen=True, kw_only=True)
    class Config(Node):
        """A list in a slot is tiled over the layers."""

        layers: int = number(6, low=0, high=10_000)
        frontend: Any = slot("frontend", None)  # tokens
        distinct_layers: int | None = number(None, low=1)  # = layers; if fewer, their weights are used in turn
        position: tuple[Part, ...] = slot("position", "sinusoidal", per_layer=True)
        mask: tuple[Part, ...] | None = slot("mask", None, per_layer=True)  # full, or causal in a decoder
        mixer: tuple[Part, ...] = slot("mixer", "attention", per_layer=True)
        cross: tuple[Part, ...] | None = slot("mixer", None, per_layer=True)  # attention, like the mixer
        nodes: tuple[Part, ...] | None = slot("mixer", None, per_layer=True)  # the same, to the nodes of a reasoner
        feedforward: tuple[Part, ...] = slot("feedforward", "relu", per_layer=True)
        residual: Any = slot("residual", "post")
        memory_tokens: Any = slot("memory_tokens", None)  # no memory tokens
        retrieval: Any = slot("retrieval", None)  # none; "retro": neighbours of earlier chunks are attended to
        streams: int | None = number(None, low=1, high=2)  # = 1; 2: XLNet's content and query stream
        content: Literal["ordered", "mutual"] | None = None  # = ordered; of two streams: see query_stream.py

        def resolved(self, scope: Scope, encoder: "Stack.Config | None") -> "Stack.Config":
            """Derived values filled in, impossible combinations refused. `encoder`: the one to attend to, if any."""
            if not self.layers:
                return self  # the model has no such side
            causal = scope.side == "decoder" and scope.autoregressive
            mask = self.mask or (make_part("mask", "causal" if causal else "full"),)
            if self.cross and encoder is None:
                why = (
                    "an encoder has no cross-attention"
                    if scope.side == "encoder"
                    else "there is no encoder to attend to"
                )
                raise ConfigError(f"{why}. Leave cross out.", "cross")
            shared = self.distinct_layers not in (None, self.layers)
            filled: dict[str, Any] = {"mask": mask, "distinct_layers": self.distinct_layers if shared else None}
            filled["streams"] = 2 if self.streams == 2 else None
            filled["content"] = "mutual" if self.content == "mutual" else None
            filled["frontend"] = _locate_errors(
                "frontend", lambda: resolve_front_end(self.frontend, scope, self.position)
            )
            for name in ("mixer", "feedforward"):
                filled[name] = tuple(_locate_errors(name, lambda p=p: p.resolved(scope)) for p in getattr(self, name))
            filled["cross"] = None if encoder is None else self._resolved_cross(scope, encoder)
            filled["nodes"] = _locate_errors("nodes", lambda: resolve_node_listeners(self, scope))
            for name in ("position", "mask", "mixer", "cross", "nodes", "feedforward"):
                parts = filled.get(name, getattr(self, name))
                if parts is not None:
                    _locate_errors(name, lambda parts=parts: tile_over_layers(parts, self.layers))
            result = replace(self, **filled)
            result = replace(result, position=result._positions(scope))
            if self.retrieval is not None:
                own = _locate_errors("retrieval", lambda: self.retrieval.resolved(scope, result))
                result = replace(result, retrieval=own)
            result._check(scope)
            return result

        def derived_cross(self, encoder: "Stack.Config") -> DerivedCross:
            """Attention like the mixer of each layer. One without heads takes those of the others in this stack, or
            of the encoder."""
            own, other = attention_like(self.mixer), attention_like(encoder.mixer)
            parts = tuple(attention_like((mixer,)) or own or other or Attention.Config() for mixer in self.mixer)
            return DerivedCross(parts, "decoder.mixer" if own else "encoder.mixer" if other else "")

        def _resolved_cross(self, scope: Scope, encoder: "Stack.Config") -> tuple[Part, ...]:
            derived = None if self.cross else self.derived_cross(encoder)
            parts: Any = self.cross if derived is None else derived.parts
            try:
                return tuple(part.resolved(scope) for part in parts)
            except ConfigError as error:
                if derived is None:
                    raise error.inside("cross") from None
                message = (
                    f'{error.message} This cross-attention is {derived.description}: or set cross = "attention(…)".'
                )
                raise ConfigError(message, error.where).inside("cross") from None

        def _positions(self, scope: Scope) -> tuple[Part, ...]:
            """Each resolved with the mixers of its layers."""
            mixers, length = self.tiled("mixer"), len(self.position)
            return tuple(
                _locate_errors("position", lambda part=part, own=mixers[first::length]: part.resolved(scope, own))
                for first, part in enumerate(self.position)
            )

        def _check(self, scope: Scope) -> None:
            if self.streams == 2:
                check_query_stream(scope, self)
            elif self.content == "mutual":
                raise ConfigError(
                    "content is that of the first of two streams, and this stack has one. Set streams = 2, or leave it "
                    "out.",
                    "content",
                )
            for part, mixer, position in zip(*map(self.tiled, ("mask", "mixer", "position"))):
                mask = make_mask(part)
                if scope.side == "decoder" and scope.autoregressive and not mask.hides_future:
                    raise ConfigError(
                        f'a decoder must not see the future, and the mask "{mask.name}" shows it. Write "causal & …".',
                        "mask",
                    )
                if scope.side == "decoder" and not scope.autoregressive and mask.hides_future:
                    raise ConfigError(
                        f"a decoder whose target has a predicted length writes all of it at once, and the mask "
                        f'"{mask.name}" hides what follows. Leave it out, or set "full".',
                        "mask",
                    )
                mask = mask if self.streams != 2 else in_any_order(mask)
                position.check(mask)
                mixer.check(mask, position)
            for name in ("cross", "nodes"):
                for part in filter(None, self.tiled(name)):
                    _check_cross(part, name)
            if self.nodes is not None:
                check_node_listeners(self)
            check_shared_kv(self)
            if self.memory_tokens is not None:
                feedforwards: Any = self.feedforward
                costs = [(part.kind, part.cost(scope)) for part in feedforwards]
                costs += [(part.kind, cost) for part, cost in zip(self.tiled("mixer"), self.mixer_costs(scope))]
                masks = [make_mask(part) for part in self.tiled("mask")]
                _locate_errors("memory_tokens", lambda: self.memory_tokens.check(masks, costs, scope))
            if self.distinct_layers is not None:
                check_shared_weights(self, scope, self.distinct_layers)

        @property
        def shared_kv_layers(self) -> list[int]:
            """Indices of the layers that share keys and values."""
            return [index for index, mixer in enumerate(self.tiled("mixer")) if mixer.reads == "shared"]

        def tiled(self, name: str) -> list[Any]:
            parts = getattr(self, name)
            return [None] * self.layers if parts is None else tile_over_layers(parts, self.layers)

        def layer_scope(self, scope: Scope, index: int) -> Scope:
            """The same side, for the parts of one layer."""
            kinds = [mixer.kind for mixer in self.mixer]
            return replace(scope, layer=index, first_of_kind=kinds.index(kinds[index % len(kinds)]) == index)

        def cost(self, scope: Scope) -> tuple[Cost, Cost]:
            """Of everything but cross-attention, and of cross-attention."""
            own, cross = Cost(), Cost()
            costs = self.mixer_costs(scope) if self.layers else []
            for index, (other, feedforward) in enumerate(zip(*map(self.tiled, ("cross", "feedforward")))):
                wiring = (1 if other is None else 2) * self.residual.parameters(scope, "mixer")
                if not isinstance(feedforward, NoFeedForward.Config):
                    wiring += self.residual.parameters(scope, "feedforward")
                own += costs[index] + self.count_once(index, feedforward.cost(scope) + Cost(parameters=wiring))
                cross += Cost() if other is None else self.count_once(index, other.cost(scope))
            own += sum((self.count_once(index, cost) for index, cost in enumerate(self.node_costs(scope))), Cost())
            if self.streams == 2:
                own += Cost(
                    parameters=scope.d_model, flops_per_query=own.flops_per_query, flops_per_pair=own.flops_per_pair
                )
                own = replace(own, cached_per_token=0 if self.content == "mutual" else own.cached_per_token)
            if self.layers:
                own += Cost(parameters=self.residual.parameters(scope, "stack"))
                own = sum(self.position_costs(scope).values(), own)
            if self.retrieval is not None:
                own += self.retrieval.cost(scope)
            if self.memory_tokens is not None:
                tokens = self.memory_tokens
                own, cross = tokens.spread(own) + tokens.cost(scope), tokens.spread(cross, cross=True)
            return own, cross

        def count_once(self, index: int, cost: Cost) -> Cost:
            """The cost of a part of this layer, without parameters if an earlier layer has the same."""
            return cost if index < (self.distinct_layers or self.layers) else replace(cost, parameters=0)

        def node_costs(self, scope: Scope) -> list[Cost]:
            """Of listening to nodes, of each layer: parameters alone, as texts do not tell how many nodes there are."""
            parts = [part for part in self.tiled("nodes") if part is not None]
            return [Cost(parameters=NodeListener.cost(part, scope).parameters) for part in parts]

        def mixer_costs(self, scope: Scope) -> list[Cost]:
            """Of each layer under its mask; the first of those that share keys and values also pays for making them."""
            mixers, masks = self.tiled("mixer"), [make_mask(part) for part in self.tiled("mask")]
            costs = []
            for index, (mixer, mask) in enumerate(zip(mixers, masks)):
                own = replace(self.layer_scope(scope, index), masks=(mask,))
                cost = self.count_once(index, mixer.cost(own).under(mask))
                if mask.lookback is not None and mixer.bounded(mask):
                    cost = cost.with_cache_of(mask.lookback + WINDOW_SLACK)
                costs.append(cost)
            for first in self.shared_kv_layers[:1]:
                shared = mixers[first].shared_cost(scope)
                lookback = _max_lookback(masks[i] for i in self.shared_kv_layers)
                costs[first] += shared if lookback is None else shared.with_cache_of(lookback + WINDOW_SLACK)
            return costs

        def position_costs(self, scope: Scope) -> dict[Any, Cost]:
            """Of each position, over all layers that share it."""
            masks: dict[Any, list[Mask]] = {}
            for position, mixer, mask in zip(*map(self.tiled, ("position", "mixer", "mask"))):
                masks.setdefault(position, []).append(mixer.scored(make_mask(mask)))
            return {part: part.cost(replace(scope, layers=len(own), masks=tuple(own))) for part, own in masks.items()}

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.name = scope.side
        positions = config.tiled("position")
        sharing = Counter(positions)
        self.positions = nn.ModuleList(
            make("position", part, replace(scope, layers=layers)) for part, layers in sharing.items()
        )
        # For each layer the index of its position, and its own index among the layers that share it.
        self.position_of = [(list(sharing).index(part), positions[:i].count(part)) for i, part in enumerate(positions)]
        self.masks: list[Mask] = [make_mask(part) for part in config.tiled("mask")]
        self.query_stream = QueryStream(scope, self.masks) if config.streams == 2 else None
        self.mutual_content = config.content == "mutual"
        parts = list(zip(*map(config.tiled, ("mixer", "cross", "nodes", "feedforward"))))
        self.shared_kv_layers = config.shared_kv_layers
        self.shared = (
            SharedKV(config.tiled("mixer")[self.shared_kv_layers[0]], scope) if self.shared_kv_layers else None
        )
        retrieval = config.retrieval
        self.retrieval: Any = None if retrieval is None else make("retrieval", retrieval, scope)
        attending = [] if self.retrieval is None else self.retrieval.attending
        # Those with weights of their own: layers beyond them use them again, in turn.
        self.blocks = nn.ModuleList(
            Block(
                mixer,
                cross,
                ff,
                config.residual,
                own := config.layer_scope(scope, index),
                self.retrieval.make_sublayer(own) if self.retrieval is not None and index in attending else None,
                None if nodes is None else NodeListener(nodes, own),
            )
            for index, (mixer, cross, nodes, ff) in enumerate(parts[: config.distinct_layers])
        )
        # From this layer on nothing is cached: there, only the tokens whose output is wanted need be computed.
        self.first_uncached = (
            max((index for index, block in enumerate(self.layer_blocks) if block.needs_cache), default=-1) + 1
        )
        self.ends = config.residual.build(scope, "stack")
        tokens = config.memory_tokens
        self.memory_tokens: MemoryTokens | None = None if tokens is None else make("memory_tokens", tokens, scope)

    @property
    def layer_blocks(self) -> list[Any]:
        """The block of each layer."""
        return [self.blocks[index % len(self.blocks)] for index in range(len(self.masks))]

    @property
    def shares_weights(self) -> bool:
        return len(self.blocks) < len(self.masks)

    def add_positions(self, x: Tensor, tokens: TokenPositions) -> Tensor:
        if self.memory_tokens is not None:
            tokens = self.memory_tokens.within_segment(tokens)
        for position in self.positions:
            x = position.add(x, tokens)  # type: ignore[operator]
        return x

    def forward(
        self, x: Tensor, ctx: Context, caches: list[dict[str, LayerCache]] | None = None, last: LastToken | None = None
    ) -> Tensor:
        """`last`: only the output of the last tokens is wanted."""
        if self.query_stream is not None:
            return self.run_two_streams(x, ctx, caches, last)
        if self.memory_tokens is None:
            return self.run_layers(x, ctx, caches, last)
        state: Any = None if caches is None else caches[0]["memory_tokens"]
        hidden: Tensor = self.memory_tokens(x, ctx, self.run_layers, state)
        return hidden if last is None else last.select(hidden)

    def run_layers(
        self, x: Tensor, ctx: Context, caches: list[dict[str, LayerCache]] | None = None, last: LastToken | None = None
    ) -> Tensor:
        s = self.ends.start(x)
        for index, block in enumerate(self.layer_blocks):
            number, layer = self.position_of[index]
            position: Position = self.positions[number]  # type: ignore[assignment]
            own = {} if caches is None else caches[index]
            if self.shared is not None and index == self.shared_kv_layers[0]:
                inside = ctx.for_sublayer(f"{self.name}.shared", self.masks[index], position, layer)
                self.shared(streams(s)[0], inside, own.get("shared"))
            if last is not None and index == self.first_uncached:
                ctx, s = ctx.for_last_token(last), _map_streams(s, last.select)
            inside = ctx.for_sublayer(f"{self.name}.{index}", self.masks[index], position, layer)
            read = None
            if self.retrieval is not None and index == self.retrieval.attending[0]:
                read = functools.partial(self.retrieval.read, ctx=ctx, state=own.get("retrieval"))
            s = block(s, inside, None if caches is None else own, read)
        result = self.ends.finish(s, ctx.queries)
        assert isinstance(result, Tensor)
        return result if last is None or self.first_uncached < len(self.masks) else last.select(result)

    def run_two_streams(
        self, x: Tensor, ctx: Context, caches: list[dict[str, LayerCache]] | None, last: LastToken | None
    ) -> Tensor:
        """Content x (B, T, d) -> the query stream of what is predicted (B, K, d)."""
        assert self.query_stream is not None
        start, content, query = self.query_stream.begin(x, ctx, last)
        s = self.ends.start(x)
        g = self.ends.start(self.query_stream.dropout(self.add_positions(start, query.queries)))
        content.record("query.embedded", streams(g)[0])
        for index, block in enumerate(self.layer_blocks):
            number, layer = self.position_of[index]
            position: Position = self.positions[number]  # type: ignore[assignment]
            path = f"{self.name}.{index}"
            mask, query_mask = self.query_stream.content_masks[index], self.query_stream.query_masks[index]
            inside = content.for_sublayer(path, mask, position, layer)
            s = block(s, inside, None if caches is None else caches[index])
            g = block(g, query.for_sublayer(f"{path}.query", query_mask, position, layer), None)
        result = self.ends.finish(g, query.queries)
        assert isinstance(result, Tensor)
        return result

    def new_caches(self, batch: int, device: torch.device, trainable: bool) -> list[dict[str, LayerCache]]:
        if self.mutual_content:
            return [{"tokens": TokenHistory(batch, device)}]
        layers = zip(self.layer_blocks, self.masks)
        caches = [block.new_caches(batch, device, mask, trainable) for block, mask in layers]
        if self.shared is not None:
            lookback = _max_lookback(self.masks[index] for index in self.shared_kv_layers)
            caches[self.shared_kv_layers[0]]["shared"] = self.shared.new_cache(batch, device, lookback, trainable)
        if self.retrieval is not None:
            caches[self.retrieval.attending[0]]["retrieval"] = self.retrieval.new_state(batch, device)
        if self.memory_tokens is not None:
            return [{"memory_tokens": MemoryState(caches, batch, device)}]
        return caches


def _map_streams(s: Any, act: Callable[[Tensor], Tensor]) -> Any:
    return tuple(map(act, s)) if isinstance(s, tuple) else act(s)


def _max_lookback(masks: Iterable[Mask]) -> int | None:
    """The largest lookback; None: all the way."""
    lookbacks = [mask.lookback for mask in masks]
    return None if None in lookbacks else max(lookback for lookback in lookbacks if lookback is not None)


def _check_cross(part: Any, name: str) -> None:
    """Cross-attention sees all of the source, without positions."""
    try:
        part.check(FULL, NoPosition.Config())
        supported = part.cross_attends and not part.reads
    except ConfigError:
        supported = False
    if not supported:
        raise ConfigError(f'{part.kind} has no cross-attention. Set {name} = "attention", or leave it out.', name)


def _locate_errors(name: str, act: Any) -> Any:
    try:
        return act()
    except ConfigError as error:
        raise error.inside(name) from None
