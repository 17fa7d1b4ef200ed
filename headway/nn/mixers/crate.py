"""Multi-head subspace self-attention, the mixer of CRATE: queries, keys and values are one projection (Yu 2023)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.kv import AttentionCache, KVCache
from headway.nn.cache.sliding_window import InputWindowCache, SlidingWindowKVCache, new_self_cache
from headway.nn.context import Context
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import attend_heads, check_kernel_dropout, check_kernel_position, split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, head_width
from headway.nn.positions.positions import Position
from headway.nn.sequence import KeyValues, Memory

SelfCache = KVCache | SlidingWindowKVCache


class SubspaceAttention(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = attend(xU_i, xU_i, xU_i): each token, projected onto subspace i, moves
    towards those near it"""

    residual_outputs = ("subspaces", "output")

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        cross_attends: ClassVar[bool] = False  # the subspaces are those of one sequence

        kind: str = "crate"
        heads: int = number(8, low=1)  # subspaces
        d_k: int | None = number(None, low=1)  # = d_model / heads
        bias: bool = True  # of the output; the subspaces have none
        dropout: float | None = number(None, low=0, high=1)  # = the model's
        scale: float | None = None  # = 1 / √d_k
        kernel: Literal["auto", "math", "sdpa", "flex"] = "auto"

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, self.d_k, scope)
            dropout = scope.dropout if self.dropout is None else self.dropout
            check_kernel_dropout(self.kernel, dropout)
            scale = d_k**-0.5 if self.scale is None else self.scale
            return replace(self, d_k=d_k, dropout=dropout, scale=scale)

        def check(self, mask: Mask, position: Position.Config) -> None:
            check_even_heads(self.d_k, position)
            check_kernel_position(self.kernel, position)

        @property
        def d_v(self) -> int | None:
            """The width of a value, for positions that change values."""
            return self.d_k

        def bounded(self, mask: Mask) -> bool:
            return mask.lookback is not None

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k
            width = c.heads * c.d_k
            return Cost(
                parameters=scope.linear_parameters(scope.d_model, width, False)
                + scope.linear_parameters(width, scope.d_model, c.bias),
                flops_per_query=4 * scope.d_model * width,
                flops_per_pair=4 * width,
                cached_per_token=width,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k
        self.subspaces = make_linear(scope.d_model, c.heads * c.d_k, scope, bias=False)
        self.output = make_linear(c.heads * c.d_k, scope.d_model, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: SelfCache | None = None
    ) -> Tensor:
        assert source is None
        u = split_heads(self.subspaces(x), self.config.heads)  # (B, H, T, D)
        heads = attend_heads(u, self._key_values(x, u, ctx, cache), ctx, self.config, self.training)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))  # (B, T, d)
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> AttentionCache:
        return new_self_cache(batch, device, lookback, trainable)

    def _key_values(self, x: Tensor, u: Tensor, ctx: Context, cache: SelfCache | None) -> KeyValues:
        """The cache holds u once, not yet rotated: it is the value, and the key but for its rotation."""
        tokens, owner = ctx.queries, "self" if cache is None else cache.name
        if isinstance(cache, InputWindowCache):
            inputs, tokens = cache.extend(x, tokens)
            u = split_heads(self.subspaces(inputs), self.config.heads)
        elif cache is not None:
            (u,), tokens = cache.append_all((u,), tokens)
        return KeyValues(ctx.rotate(u, tokens), u, tokens, owner)
