"""YOCO, "you only cache once": the upper layers of a decoder listen to one set of keys and values, made below them."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from headway.nn.build import Cost, Scope, make_linear, make_norm
from headway.nn.cache.kv import Keys, State
from headway.nn.cache.sliding_window import new_keys
from headway.nn.context import Context
from headway.nn.mixers.attention import Attention, hear, look, split
from headway.nn.sequence import Memory


class SharedKeys(nn.Module):
    """norm(x)W_k and norm(x)W_v of the stream below the first layer that shares them; the only ones they remember"""

    adds = ("value",)

    def __init__(self, config: "Shared.Config", scope: Scope) -> None:
        super().__init__()
        c = config.resolved(scope)
        assert c.groups and c.d_k and c.d_v
        self.groups = c.groups
        self.norm = make_norm(scope)
        self.key = make_linear(scope.d_model, c.groups * c.d_k, scope, bias=c.bias)
        self.value = make_linear(scope.d_model, c.groups * c.d_v, scope, bias=c.bias)

    def forward(self, x: Tensor, ctx: Context, state: Keys | None) -> None:
        """Published in ctx, with all that the state remembers."""
        ctx.published["shared"] = hear(Memory(x, ctx.queries), "self", state, lambda known: self._project(known, ctx))

    def new_state(self, batch: int, device: torch.device, reach: int | None, learns: bool) -> State:
        return new_keys(batch, device, reach, learns)

    def _project(self, known: Memory, ctx: Context) -> tuple[Tensor, Tensor]:
        normed = self.norm(known.values)
        return ctx.turn(split(self.key(normed), self.groups), known.places), split(self.value(normed), self.groups)


class Shared(nn.Module):
    """Attention with queries of its own, to keys and values that it shares with all layers of its kind"""

    adds = ("output",)
    remembers = False  # what it reads now is nothing to what it will read later

    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        reads: ClassVar[str] = "shared"
        kind: str = "shared"

        def shared_cost(self, scope: Scope) -> Cost:
            """Of what is made once."""
            c = self.resolved(scope)
            assert c.groups and c.d_k and c.d_v
            sizes = (c.groups * c.d_k, c.groups * c.d_v)
            weights = sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in sizes)
            return Cost(
                parameters=weights + scope.norm_parameters(),
                flops_per_key=2 * scope.d_model * sum(sizes),
                kept_per_token=sum(sizes),
            )

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k and c.d_v
            wide, values = c.heads * c.d_k, c.heads * c.d_v
            weights = scope.linear_parameters(scope.d_model, wide, c.bias)
            return Cost(
                parameters=weights + scope.linear_parameters(values, scope.d_model, c.bias),
                flops_per_query=2 * scope.d_model * (wide + values),
                flops_per_pair=2 * c.heads * (c.d_k + c.d_v),
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k and c.d_v
        self.query = make_linear(scope.d_model, c.heads * c.d_k, scope, bias=c.bias)
        self.output = make_linear(c.heads * c.d_v, scope.d_model, scope, bias=c.bias)

    def forward(self, x: Tensor, ctx: Context, *, source: Memory | None = None, state: State | None = None) -> Tensor:
        asked = split(self.query(x), self.config.heads)  # (B, H, T, D)
        heads = look(asked, ctx.published["shared"], ctx, self.config, self.training)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return result

    def new_state(
        self, batch: int, device: torch.device, *, reach: int | None = None, learns: bool = False
    ) -> State | None:
        return None
