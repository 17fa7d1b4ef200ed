"""A stack of layers: an encoder, or a decoder."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.nn.block import Block
from headway.nn.context import Context
from headway.nn.masks import FULL, Mask, make_mask
from headway.nn.places import Places
from headway.nn.positions import NoPosition, Position
from headway.nn.scope import Cost, Scope, make
from headway.nn.state import State
from headway.parts import Node, Part, make_part, number, slot, tiled


class Stack(nn.Module):
    @dataclass(frozen=True, kw_only=True)
    class Config(Node):
        """A list in a slot is tiled over the layers."""

        layers: int = number(6, low=0, high=10_000)
        position: tuple[Part, ...] = slot("position", "sinusoidal", per_layer=True)
        mask: tuple[Part, ...] | None = slot("mask", None, per_layer=True)  # full, or causal in a decoder
        mixer: tuple[Part, ...] = slot("mixer", "attention", per_layer=True)
        cross: tuple[Part, ...] | None = slot("mixer", None, per_layer=True)  # the mixer's kind, if attention
        feedforward: tuple[Part, ...] = slot("feedforward", "relu", per_layer=True)
        residual: Any = slot("residual", "post")

        def resolved(self, scope: Scope, listens: bool) -> "Stack.Config":
            """Derived values filled in, impossible combinations refused. `listens`: there is an encoder to hear."""
            if not self.layers:
                return self  # a side that is not there needs nothing
            mask = self.mask or (make_part("mask", "causal" if scope.side == "decoder" else "full"),)
            cross = self.cross or tuple(
                part if part.kind == "attention" else make_part("mixer", "attention") for part in self.mixer
            )
            filled: dict[str, Any] = {"mask": mask, "cross": cross if listens else None}
            for name in ("mixer", "cross", "feedforward"):
                parts = filled.get(name, getattr(self, name))
                if parts is not None:
                    filled[name] = tuple(_inside(name, lambda p=p: p.resolved(scope)) for p in parts)
            heads = {mixer.heads for mixer in filled["mixer"] if hasattr(mixer, "heads")}
            filled["position"] = tuple(_inside("position", lambda p=p: p.resolved(scope, heads)) for p in self.position)
            for name in ("position", "mask", "mixer", "cross", "feedforward"):
                parts = filled.get(name, getattr(self, name))
                if parts is not None:
                    _inside(name, lambda parts=parts: tiled(parts, self.layers))
            result = replace(self, **filled)
            result._refuse(scope)
            return result

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

        def tiled(self, name: str) -> list[Any]:
            parts = getattr(self, name)
            return [None] * self.layers if parts is None else tiled(parts, self.layers)

        def cost(self, scope: Scope) -> tuple[Cost, Cost]:
            """Of everything that looks at this side, and of what looks at the encoder."""
            own, cross = Cost(), Cost()
            for mixer, other, feedforward in zip(*map(self.tiled, ("mixer", "cross", "feedforward"))):
                sublayers = 2 if other is None else 3
                wiring = sublayers * self.residual.parameters(scope, "sublayer")
                own += mixer.cost(scope) + feedforward.cost(scope) + Cost(parameters=wiring)
                cross += Cost() if other is None else other.cost(scope)
            if self.layers:
                own += Cost(parameters=self.residual.parameters(scope, "stack"))
                for part in dict.fromkeys(self.position):
                    own += part.cost(scope)  # type: ignore[attr-defined]
            return own, cross

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.name = scope.side
        distinct = list(dict.fromkeys(config.tiled("position")))
        self.positions = nn.ModuleList(make("position", part, scope) for part in distinct)
        self.position_of = [distinct.index(part) for part in config.tiled("position")]
        self.masks: list[Mask] = [make_mask(part) for part in config.tiled("mask")]
        parts = zip(*map(config.tiled, ("mixer", "cross", "feedforward")))
        self.blocks = nn.ModuleList(Block(mixer, cross, ff, config.residual, scope) for mixer, cross, ff in parts)
        self.ends = config.residual.build(scope, "stack")

    def add_positions(self, x: Tensor, places: Places) -> Tensor:
        for position in self.positions:
            x = position.add(x, places)  # type: ignore[operator]
        return x

    def forward(self, x: Tensor, ctx: Context, states: list[dict[str, State]] | None = None) -> Tensor:
        s = self.ends.start(x)
        for index, block in enumerate(self.blocks):
            position: Position = self.positions[self.position_of[index]]  # type: ignore[assignment]
            ctx.where = f"{self.name}.{index}"
            s = block(s, ctx, self.masks[index], position, None if states is None else states[index])
        result = self.ends.finish(s)
        assert isinstance(result, Tensor)
        return result

    def new_states(self, batch: int, device: torch.device) -> list[dict[str, State]]:
        return [block.new_states(batch, device, mask) for block, mask in zip(self.blocks, self.masks)]  # type: ignore[operator]


def _refuse_cross(part: Any) -> None:
    """What listens to another text sees all of it, and without positions."""
    try:
        part.refuse(FULL, NoPosition.Config())
    except ConfigError:
        raise ConfigError(
            f'{part.kind} cannot listen to another text. Set cross = "attention", or leave it out.', "cross"
        ) from None


def _inside(name: str, act: Any) -> Any:
    try:
        return act()
    except ConfigError as error:
        raise error.inside(name) from None
