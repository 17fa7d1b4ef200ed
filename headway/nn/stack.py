"""A stack of layers: an encoder, or a decoder."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import Node, Part, make_part, number, slot, tiled
from headway.errors import ConfigError
from headway.nn.block import Block
from headway.nn.build import Cost, Scope, make
from headway.nn.cache.kv import State
from headway.nn.cache.sliding_window import SLACK
from headway.nn.context import Context
from headway.nn.layers.residual import streams
from headway.nn.masks.masks import FULL, Mask, make_mask
from headway.nn.mixers.attention import Attention
from headway.nn.mixers.shared_kv import SharedKeys
from headway.nn.positions.positions import NoPosition, Position
from headway.nn.sequence import Chosen, Places

LIKE = ("heads", "d_k")  # what attention takes over from another mixer, whose other settings mean something else


class Stack(nn.Module):
    @dataclass(frozen=True, kw_only=True)
    class Config(Node):
        """A list in a slot is tiled over the layers."""

        layers: int = number(6, low=0, high=10_000)
        position: tuple[Part, ...] = slot("position", "sinusoidal", per_layer=True)
        mask: tuple[Part, ...] | None = slot("mask", None, per_layer=True)  # full, or causal in a decoder
        mixer: tuple[Part, ...] = slot("mixer", "attention", per_layer=True)
        cross: tuple[Part, ...] | None = slot("mixer", None, per_layer=True)  # attention, like the mixer
        feedforward: tuple[Part, ...] = slot("feedforward", "relu", per_layer=True)
        residual: Any = slot("residual", "post")

        def resolved(self, scope: Scope, listens: bool) -> "Stack.Config":
            """Derived values filled in, impossible combinations refused. `listens`: there is an encoder to hear."""
            if not self.layers:
                return self  # a side that is not there needs nothing
            mask = self.mask or (make_part("mask", "causal" if scope.side == "decoder" else "full"),)
            if self.cross and not listens:
                why = "an encoder hears itself alone" if scope.side == "encoder" else "there is no encoder to hear"
                raise ConfigError(f"{why}, so that nothing would listen to another text. Leave cross out.", "cross")
            cross = (self.cross or tuple(map(_listener, self.mixer))) if listens else None
            filled: dict[str, Any] = {"mask": mask, "cross": cross}
            for name in ("mixer", "cross", "feedforward"):
                parts = filled.get(name, getattr(self, name))
                if parts is not None:
                    filled[name] = tuple(_inside(name, lambda p=p: p.resolved(scope)) for p in parts)
            for name in ("position", "mask", "mixer", "cross", "feedforward"):
                parts = filled.get(name, getattr(self, name))
                if parts is not None:
                    _inside(name, lambda parts=parts: tiled(parts, self.layers))
            result = replace(self, **filled)
            result = replace(result, position=result._positions(scope))
            result._refuse(scope)
            return result

        def _positions(self, scope: Scope) -> tuple[Part, ...]:
            """Each with what it has to know of the mixers in its layers."""
            mixers, length = self.tiled("mixer"), len(self.position)
            return tuple(
                _inside("position", lambda part=part, own=mixers[first::length]: part.resolved(scope, own))
                for first, part in enumerate(self.position)
            )

        def _refuse(self, scope: Scope) -> None:
            for part, mixer, position in zip(*map(self.tiled, ("mask", "mixer", "position"))):
                mask = make_mask(part)
                if scope.side == "decoder" and not mask.hides_future:
                    raise ConfigError(
                        f'a decoder may not look ahead, and "{mask.name}" lets it. Write "causal & …".',
                        "mask",
                    )
                mixer.refuse(mask, position)
            for cross in filter(None, self.tiled("cross")):
                _refuse_cross(cross)
            self._refuse_unlike()

        def _refuse_unlike(self) -> None:
            """Layers that share keys must ask for the same."""
            mixers, positions = ([self.tiled(name)[i] for i in self.readers] for name in ("mixer", "position"))
            for name in ("groups", "d_k", "d_v"):
                given = sorted({getattr(mixer, name) for mixer in mixers})
                if len(given) > 1:
                    raise ConfigError(
                        f"layers that share keys and values need them alike, and they have {name} = "
                        f"{' and '.join(map(str, given))}. Give them the same.",
                        "mixer",
                    )
            if len({part if part.acts == "turns" else None for part in positions}) > 1:
                names = " and ".join(sorted({part.kind for part in positions}))
                raise ConfigError(
                    f"layers that share keys need them turned alike, and their positions are {names}. Give them the "
                    "same.",
                    "position",
                )

        @property
        def readers(self) -> list[int]:
            """The layers that share keys and values."""
            return [index for index, mixer in enumerate(self.tiled("mixer")) if mixer.reads == "shared"]

        def tiled(self, name: str) -> list[Any]:
            parts = getattr(self, name)
            return [None] * self.layers if parts is None else tiled(parts, self.layers)

        def cost(self, scope: Scope) -> tuple[Cost, Cost]:
            """Of everything that looks at this side, and of what looks at the encoder."""
            own, cross = Cost(), Cost()
            costs = self.mixer_costs(scope) if self.layers else []
            for mixer, other, feedforward in zip(costs, *map(self.tiled, ("cross", "feedforward"))):
                sublayers = 2 if other is None else 3
                wiring = sublayers * self.residual.parameters(scope, "sublayer")
                own += mixer + feedforward.cost(scope) + Cost(parameters=wiring)
                cross += Cost() if other is None else other.cost(scope)
            if self.layers:
                own += Cost(parameters=self.residual.parameters(scope, "stack"))
                own = sum(self.position_costs(scope).values(), own)
            return own, cross

        def mixer_costs(self, scope: Scope) -> list[Cost]:
            """Of each layer under its mask; the first of those that share keys has them made, too."""
            mixers, masks = self.tiled("mixer"), [make_mask(part) for part in self.tiled("mask")]
            costs = []
            for mixer, mask in zip(mixers, masks):
                cost = mixer.cost(scope).under(mask)
                if mask.reach is not None and mixer.bounded(mask):
                    cost = cost.remembering(mask.reach + SLACK)
                costs.append(cost)
            for first in self.readers[:1]:
                shared, reach = mixers[first].shared_cost(scope), _farthest(masks[i] for i in self.readers)
                costs[first] += shared if reach is None else shared.remembering(reach + SLACK)
            return costs

        def position_costs(self, scope: Scope) -> dict[Any, Cost]:
            """Of each position, in all layers that share it."""
            masks: dict[Any, list[Mask]] = {}
            for position, mask in zip(self.tiled("position"), self.tiled("mask")):
                masks.setdefault(position, []).append(make_mask(mask))
            return {part: part.cost(replace(scope, layers=len(own), masks=tuple(own))) for part, own in masks.items()}

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.name = scope.side
        positions = config.tiled("position")
        sharing = Counter(positions)
        self.positions = nn.ModuleList(
            make("position", part, replace(scope, layers=layers)) for part, layers in sharing.items()
        )
        # For each layer its position, and which of the layers that share it this is.
        self.position_of = [(list(sharing).index(part), positions[:i].count(part)) for i, part in enumerate(positions)]
        self.masks: list[Mask] = [make_mask(part) for part in config.tiled("mask")]
        parts = zip(*map(config.tiled, ("mixer", "cross", "feedforward")))
        self.readers = config.readers
        self.shared = SharedKeys(config.tiled("mixer")[self.readers[0]], scope) if self.readers else None
        self.blocks = nn.ModuleList(Block(mixer, cross, ff, config.residual, scope) for mixer, cross, ff in parts)
        # The layer from which on nobody remembers what it reads: above it, only what is asked for need be computed.
        self.settled = max((index for index, block in enumerate(self.blocks) if block.remembers), default=-1) + 1
        self.ends = config.residual.build(scope, "stack")

    def add_positions(self, x: Tensor, places: Places) -> Tensor:
        for position in self.positions:
            x = position.add(x, places)  # type: ignore[operator]
        return x

    def forward(
        self, x: Tensor, ctx: Context, states: list[dict[str, State]] | None = None, last: Chosen | None = None
    ) -> Tensor:
        """`last`: only these places are wanted."""
        s = self.ends.start(x)
        for index, block in enumerate(self.blocks):
            number, layer = self.position_of[index]
            position: Position = self.positions[number]  # type: ignore[assignment]
            own = {} if states is None else states[index]
            if self.shared is not None and index == self.readers[0]:
                inside = ctx.inside(f"{self.name}.shared", self.masks[index], position, layer)
                self.shared(streams(s)[0], inside, own.get("shared"))
            if last is not None and index == self.settled:
                ctx, s = ctx.narrowed(last), _each(s, last.of)
            inside = ctx.inside(f"{self.name}.{index}", self.masks[index], position, layer)
            s = block(s, inside, None if states is None else own)
        result = self.ends.finish(s)
        assert isinstance(result, Tensor)
        return result if last is None or self.settled < len(self.blocks) else last.of(result)

    def new_states(self, batch: int, device: torch.device, learns: bool) -> list[dict[str, State]]:
        states = [block.new_states(batch, device, mask, learns) for block, mask in zip(self.blocks, self.masks)]  # type: ignore[operator]
        if self.shared is not None:
            reach = _farthest(self.masks[index] for index in self.readers)
            states[self.readers[0]]["shared"] = self.shared.new_state(batch, device, reach, learns)
        return states


def _each(s: Any, act: Callable[[Tensor], Tensor]) -> Any:
    return tuple(map(act, s)) if isinstance(s, tuple) else act(s)


def _farthest(masks: Iterable[Mask]) -> int | None:
    """How far back any of them looks; None: all the way."""
    reaches = [mask.reach for mask in masks]
    return None if None in reaches else max(reach for reach in reaches if reach is not None)


def _listener(mixer: Part) -> Part:
    """Attention like this mixer, which need not be any: with its heads, unless it has none."""
    names = [spec.name for spec in fields(Attention.Config)] if isinstance(mixer, Attention.Config) else LIKE
    return Attention.Config(**{n: getattr(mixer, n) for n in names if n != "kind" and hasattr(mixer, n)})


def _refuse_cross(part: Any) -> None:
    """What listens to another text sees all of it, and without positions."""
    try:
        part.refuse(FULL, NoPosition.Config())
        able = not part.reads
    except ConfigError:
        able = False
    if not able:
        raise ConfigError(
            f'{part.kind} cannot listen to another text. Set cross = "attention", or leave it out.', "cross"
        )


def _inside(name: str, act: Any) -> Any:
    try:
        return act()
    except ConfigError as error:
        raise error.inside(name) from None
