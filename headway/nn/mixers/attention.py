"""Multi-head attention around attend: project, split into heads, attend, join, project."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.kv import CrossKVCache, Keys, State
from headway.nn.cache.sliding_window import Inputs, new_keys
from headway.nn.context import Context
from headway.nn.layers.linear import together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.mixer import MixerConfig, head_width, refuse_odd
from headway.nn.ops.attention import attend
from headway.nn.positions.positions import Position
from headway.nn.sequence import KeyValues, Memory, Places


class Attention(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = attend(xW_q, yW_k, yW_v); y is x itself, or a source.

    groups = heads is multi-head attention, groups = 1 multi-query, between them grouped-query.
    """

    adds = ("value", "output")  # the layers whose weights a residual for depth starts smaller

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "attention"
        heads: int = number(8, low=1)
        groups: int | None = number(None, low=1)  # = heads
        d_k: int | None = number(None, low=1)  # = d_model / heads
        d_v: int | None = number(None, low=1)  # = d_k
        bias: bool = True
        dropout: float | None = number(None, low=0, high=1)  # = the model's
        scale: float | None = None  # = 1 / √d_k
        kernel: Literal["auto", "math", "sdpa", "flex"] = "auto"

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, self.d_k, scope)
            groups = self.groups or self.heads
            if self.heads % groups:
                raise ConfigError(
                    f"{groups} groups do not divide {self.heads} heads. Choose a number that does.", "groups"
                )
            dropout = scope.dropout if self.dropout is None else self.dropout
            if self.kernel == "flex" and dropout:
                raise ConfigError(
                    f"flex cannot drop attention weights, and dropout is {dropout}. Set the mixer's dropout = 0, "
                    'or leave the kernel at "auto".',
                    "kernel",
                )
            return replace(
                self,
                groups=groups,
                d_k=d_k,
                d_v=self.d_v or d_k,
                dropout=dropout,
                scale=d_k**-0.5 if self.scale is None else self.scale,
            )

        def refuse(self, mask: Mask, position: Position.Config) -> None:
            refuse_odd(self.d_k, position)
            if position.hears and self.kernel in ("sdpa", "flex"):
                raise ConfigError(
                    f'{position.kind} needs the weights of attention, and "{self.kernel}" does not show them. Leave the '
                    'kernel at "auto", or set "math".',
                    "position",
                )

        def bounded(self, mask: Mask) -> bool:
            return mask.reach is not None

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.groups and c.d_k and c.d_v
            wide, narrow, values = c.heads * c.d_k, c.groups * c.d_k, c.groups * c.d_v
            parameters = sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in (wide, narrow, values))
            parameters += scope.linear_parameters(c.heads * c.d_v, scope.d_model, c.bias)
            return Cost(
                parameters=parameters,
                flops_per_query=2 * scope.d_model * (wide + c.heads * c.d_v),
                flops_per_key=2 * scope.d_model * (narrow + values),
                flops_per_pair=2 * c.heads * (c.d_k + c.d_v),
                kept_per_token=narrow + values,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.groups and c.d_k and c.d_v
        self.query = make_linear(scope.d_model, c.heads * c.d_k, scope, bias=c.bias)
        self.key = make_linear(scope.d_model, c.groups * c.d_k, scope, bias=c.bias)
        self.value = make_linear(scope.d_model, c.groups * c.d_v, scope, bias=c.bias)
        self.output = make_linear(c.heads * c.d_v, scope.d_model, scope, bias=c.bias)

    def forward(self, x: Tensor, ctx: Context, *, source: Memory | None = None, state: Keys | None = None) -> Tensor:
        if source is None and state is None:
            q, k, v = together(x, self.query, self.key, self.value)
            heard = KeyValues(*self._keys(k, v, ctx.queries, ctx), ctx.queries, "self")
        else:
            q, heard = self.query(x), self._heard(x, ctx, source, state)
        heads = look(split(q, self.config.heads), heard, ctx, self.config, self.training)  # (B, H, T, E)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))  # (B, T, d)
        return result

    def new_state(
        self, batch: int, device: torch.device, *, listens: bool = False, reach: int | None = None, learns: bool = False
    ) -> State:
        """`listens`: to a source that stays as it is, instead of to itself. `reach`: how far back the mask looks.
        `learns`: the weights will change before it is read again."""
        return CrossKVCache(batch, device) if listens else new_keys(batch, device, reach, learns)

    def _heard(self, x: Tensor, ctx: Context, source: Memory | None, state: Keys | None) -> KeyValues:
        if isinstance(state, CrossKVCache):
            if state.kept is not None:
                return KeyValues(*state.kept, state.name)
            if source is None:
                raise ValueError("this attention listens to a source and was given none: pass memory, from encode")
        given, owner = (Memory(x, ctx.queries), "self") if source is None else (source, "source")
        return hear(given, owner, state, lambda known: self._project(known, ctx))

    def _project(self, known: Memory, ctx: Context) -> tuple[Tensor, Tensor]:
        k, v = together(known.values, self.key, self.value)
        return self._keys(k, v, known.places, ctx)

    def _keys(self, k: Tensor, v: Tensor, places: Places, ctx: Context) -> tuple[Tensor, Tensor]:
        groups = self.config.groups or 1
        return ctx.turn(split(k, groups), places), split(v, groups)  # (B, G, S, D), (B, G, S, E)


def hear(given: Memory, owner: str, state: Keys | None, project: Callable[[Memory], tuple[Tensor, Tensor]]) -> KeyValues:
    """Keys and values of what is given, after all that the state remembers, which takes in the new. `owner` names where
    they stand if there is no state."""
    if isinstance(state, Inputs):
        given, owner = state.recall(*given), state.name
    k, v = project(given)
    if state is None or isinstance(state, Inputs):
        return KeyValues(k, v, given.places, owner)
    return KeyValues(*state.append(k, v, given.places), state.name)


def split(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)  # (B, T, H·D) -> (B, H, T, D)


def look(asked: Tensor, heard: KeyValues, ctx: Context, c: Any, training: bool) -> Tensor:
    """What queries (B, H, T, D), not turned yet, hear: (B, H, T, E). c: the settings of attention."""
    q, k, v = ctx.ask(asked), heard.k, heard.v
    pattern = ctx.pattern(heard.places, c.heads, heard.owner)
    bend = ctx.bend(asked, heard.places, c.scale)
    dropout = c.dropout if training else 0.0
    if not (ctx.traced or ctx.watches("weights")):
        return attend(q, k, v, mask=pattern, score=bend, scale=c.scale, dropout=dropout, kernel=c.kernel)
    attended = attend(q, k, v, mask=pattern, score=bend, scale=c.scale, dropout=dropout, also="everything")
    for name, value in (("q", q), ("k", k), ("v", v), ("scores", attended.scores), ("weights", attended.weights)):
        ctx.record(name, value)
    return attended.output
