"""YOCO, "you only cache once": the upper layers of a decoder share one set of keys and values, and so one KV cache."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from headway.nn.build import Cost, Scope, make_linear, make_stream_norm
from headway.nn.cache.kv import AttentionCache, LayerCache
from headway.nn.cache.sliding_window import new_self_cache
from headway.nn.context import Context
from headway.nn.mixers.attention import AttentionConfig, attend_heads, project_kv, split_heads
from headway.nn.sequence import Memory


class SharedKV(nn.Module):
    """norm(x)W_k and norm(x)W_v of the stream below the first layer that shares them: the only ones that are cached"""

    residual_outputs = ("value",)

    def __init__(self, config: "SharedKVAttention.Config", scope: Scope) -> None:
        super().__init__()
        c = config.resolved(scope)
        assert c.groups and c.d_k and c.d_v
        self.groups = c.groups
        self.norm = make_stream_norm(scope)
        self.key = make_linear(scope.d_model, c.groups * c.d_k, scope, bias=c.bias)
        self.value = make_linear(scope.d_model, c.groups * c.d_v, scope, bias=c.bias)

    def forward(self, x: Tensor, ctx: Context, cache: AttentionCache | None) -> None:
        """Publishes them in ctx, after all cached ones."""
        inputs = Memory(x, ctx.queries)
        ctx.published["shared"] = project_kv(inputs, "self", cache, lambda known: self._project(known, ctx))

    def new_cache(self, batch: int, device: torch.device, lookback: int | None, trainable: bool) -> LayerCache:
        return new_self_cache(batch, device, lookback, trainable)

    def _project(self, inputs: Memory, ctx: Context) -> tuple[Tensor, Tensor]:
        normed = self.norm(inputs.values, inputs.positions)
        k, v = (split_heads(project(normed), self.groups) for project in (self.key, self.value))
        return ctx.rotate(k, inputs.positions), v


class SharedKVAttention(nn.Module):
    """Attention with its own queries, and keys and values that all layers of its kind share"""

    residual_outputs = ("output",)
    needs_cache = False  # of its own inputs

    @dataclass(frozen=True, kw_only=True)
    class Config(AttentionConfig):
        reads: ClassVar[str] = "shared"
        kind: str = "shared_kv"

        def shared_cost(self, scope: Scope) -> Cost:
            """Of the keys and values, which are made once."""
            c = self.resolved(scope)
            assert c.groups and c.d_k and c.d_v
            sizes = (c.groups * c.d_k, c.groups * c.d_v)
            weights = sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in sizes)
            return Cost(
                parameters=weights + scope.norm_parameters(),
                flops_per_key=2 * scope.d_model * sum(sizes),
                cached_per_token=sum(sizes),
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

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: LayerCache | None = None
    ) -> Tensor:
        q = split_heads(self.query(x), self.config.heads)  # (B, H, T, D)
        heads = attend_heads(q, ctx.published["shared"], ctx, self.config, self.training)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> LayerCache | None:
        return None
