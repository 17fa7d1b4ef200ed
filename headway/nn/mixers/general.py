"""Luong's general attention: score = x · Wy, in which the query is the layer's input itself (Luong 2015)."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.kv import AttentionCache, CrossKVCache, LayerCache
from headway.nn.cache.sliding_window import new_self_cache
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import attend_heads, gather_kv, split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, head_width
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory


class GeneralAttention(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = attend(x_i, yW_i, yW_v), x_i the channels of head i; unscaled"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "general"
        heads: int = number(8, low=1)
        d_k: int | None = number(None, low=1)  # = d_model / heads, and nothing else: a query is a part of x
        d_v: int | None = number(None, low=1)  # = d_k
        bias: bool = True
        dropout: float | None = number(None, low=0, high=1)  # = the model's
        scale: float = 1.0
        kernel: Literal["auto", "math"] = "auto"

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, None, scope)
            if self.d_k not in (None, d_k):
                raise ConfigError(
                    f"a query of general attention is a part of its input, so d_k = d_model / heads = {d_k}, not "
                    f'{self.d_k}. Leave d_k out, or choose the mixer "attention", which projects queries to any width.',
                    "d_k",
                )
            dropout = scope.dropout if self.dropout is None else self.dropout
            return replace(self, d_k=d_k, d_v=self.d_v or d_k, dropout=dropout)

        def check(self, mask: Mask, position: Position.Config) -> None:
            check_even_heads(self.d_k, position)

        def bounded(self, mask: Mask) -> bool:
            return mask.lookback is not None

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k and c.d_v
            keys, values = c.heads * c.d_k, c.heads * c.d_v
            return Cost(
                parameters=sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in (keys, values))
                + scope.linear_parameters(values, scope.d_model, c.bias),
                flops_per_query=2 * scope.d_model * values,
                flops_per_key=2 * scope.d_model * (keys + values),
                flops_per_pair=2 * c.heads * (c.d_k + c.d_v),
                cached_per_token=keys + values,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k and c.d_v
        self.key = make_linear(scope.d_model, c.heads * c.d_k, scope, bias=c.bias)
        self.value = make_linear(scope.d_model, c.heads * c.d_v, scope, bias=c.bias)
        self.output = make_linear(c.heads * c.d_v, scope.d_model, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: AttentionCache | None = None
    ) -> Tensor:
        kv = gather_kv(x, ctx, source, cache, lambda known: self._project(known, ctx))
        heads = attend_heads(split_heads(x, self.config.heads), kv, ctx, self.config, self.training)  # (B, H, T, E)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))  # (B, T, d)
        return result

    def new_cache(
        self,
        batch: int,
        device: torch.device,
        *,
        cross: bool = False,
        lookback: int | None = None,
        trainable: bool = False,
    ) -> LayerCache:
        return CrossKVCache(batch, device) if cross else new_self_cache(batch, device, lookback, trainable)

    def _project(self, inputs: Memory, ctx: Context) -> tuple[Tensor, Tensor]:
        k, v = (split_heads(x, self.config.heads) for x in project_together(inputs.values, self.key, self.value))
        return ctx.rotate(k, inputs.positions), v
