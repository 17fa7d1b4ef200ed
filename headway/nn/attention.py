"""Multi-head attention around attend: project, split into heads, attend, join, project."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.nn.attend import attend
from headway.nn.context import Context
from headway.nn.masks import Mask
from headway.nn.places import Memory, Places
from headway.nn.positions import Position
from headway.nn.ring import Ring
from headway.nn.scope import Cost, Scope, make_linear
from headway.nn.state import KV, Fixed, Keys, State
from headway.parts import Part, number


class Attention(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = attend(xW_q, yW_k, yW_v); y is x itself, or a source.

    groups = heads is multi-head attention, groups = 1 multi-query, between them grouped-query.
    """

    adds = ("value", "output")  # the layers whose weights a residual for depth starts smaller

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "attention"
        heads: int = number(8, low=1)
        groups: int | None = number(None, low=1)  # = heads
        d_k: int | None = number(None, low=1)  # = d_model / heads
        d_v: int | None = number(None, low=1)  # = d_k
        bias: bool = True
        dropout: float | None = number(None, low=0, high=1)  # = the model's
        scale: float | None = None  # = 1 / √d_k
        kernel: Literal["auto", "math", "sdpa", "flex"] = "auto"

        def resolved(self, scope: Scope) -> "Attention.Config":
            if self.d_k is None and scope.d_model % self.heads:
                raise ConfigError(
                    f"{self.heads} heads do not divide d_model = {scope.d_model}. "
                    "Choose a number that does, or give d_k.",
                    "heads",
                )
            groups = self.groups or self.heads
            if self.heads % groups:
                raise ConfigError(
                    f"{groups} groups do not divide {self.heads} heads. Choose a number that does.", "groups"
                )
            d_k = self.d_k or scope.d_model // self.heads
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
            if position.acts == "turns" and self.d_k and self.d_k % 2:
                raise ConfigError(
                    f"{position.kind} turns pairs of channels, and a head has {self.d_k}: make d_k even.", "position"
                )

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

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, state: Keys | Fixed | None = None
    ) -> Tensor:
        c = self.config
        q = ctx.turn(self._split(self.query(x), c.heads), ctx.queries)  # (B, H, T, D)
        k, v, places, owner = self._keys_and_values(x, ctx, source, state)
        pattern = ctx.pattern(places, c.heads, owner)
        bend = ctx.bend(places, c.heads, x.device)
        dropout = c.dropout if self.training and c.dropout else 0.0
        if ctx.traced or ctx.watches("weights"):
            attended = attend(q, k, v, mask=pattern, score=bend, scale=c.scale, dropout=dropout, also="everything")
            for name, value in (("q", q), ("k", k), ("v", v), ("scores", attended.scores)):
                ctx.record(name, value)
            ctx.record("weights", attended.weights)
            heads = attended.output
        else:
            heads = attend(q, k, v, mask=pattern, score=bend, scale=c.scale, dropout=dropout, kernel=c.kernel)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))  # (B, T, d)
        return result

    def new_state(self, batch: int, device: torch.device, *, listens: bool = False, reach: int | None = None) -> State:
        """`listens`: to a source that stays as it is, instead of to itself. `reach`: how far back the mask looks."""
        if listens:
            return Fixed(batch, device)
        return KV(batch, device) if reach is None else Ring(batch, device, reach)

    def _keys_and_values(
        self, x: Tensor, ctx: Context, source: Memory | None, state: Keys | Fixed | None
    ) -> tuple[Tensor, Tensor, Places, str]:
        """Keys, values, where they stand, and a name that layers with the same places share."""
        if isinstance(state, Fixed):
            if state.kept is not None:
                return *state.kept, "source"
            if source is None:
                raise ValueError("this attention listens to a source and was given none: pass memory, from encode")
        values, places = (x, ctx.queries) if source is None else source
        k = ctx.turn(self._split(self.key(values), self.config.groups or 1), places)
        v = self._split(self.value(values), self.config.groups or 1)
        if isinstance(state, Fixed):
            state.fill(k, v, places)
        elif state is not None:
            return *state.append(k, v, places), state.name
        return k, v, places, "self" if source is None else "source"

    @staticmethod
    def _split(x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)  # (B, T, H·D) -> (B, H, T, D)
