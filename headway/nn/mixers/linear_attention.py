"""Linear attention: a feature map in place of the softmax, so that keys are summed once (Katharopoulos 2020)."""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import CrossState, RecurrentState
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, check_unpacked, head_width
from headway.nn.ops.linear_attention import (
    FEATURE_MAPS,
    FeatureMap,
    attend_linearly,
    attend_linearly_to_past,
    linear_weights,
    read_total,
)
from headway.nn.ops.retention import CHUNK_TOKENS, accumulator_dtype, count_flops
from headway.nn.positions.positions import Position
from headway.nn.positions.xpos import XPos
from headway.nn.sequence import KeyValues, Memory


@dataclass(frozen=True, kw_only=True)
class LinearAttentionConfig(MixerConfig):
    """The settings of every attention by features; a kind adds which features."""

    heads: int = number(8, low=1)
    d_k: int | None = number(None, low=1)  # = d_model / heads
    d_v: int | None = number(None, low=1)  # = d_k
    chunk: int = number(CHUNK_TOKENS, low=1)
    bias: bool = True

    def resolved(self, scope: Scope) -> Self:
        d_k = head_width(self.heads, self.d_k, scope)
        return replace(self, d_k=d_k, d_v=self.d_v or d_k)

    @property
    def feature_count(self) -> int:
        """Of a query or a key."""
        raise NotImplementedError

    def check(self, mask: Mask, position: Position.Config) -> None:
        if mask.name not in ("causal", "full"):
            raise ConfigError(
                f'{self.kind} supports only the masks "causal" and "full", not "{mask.name}": it sums over all '
                'keys, or all earlier ones. Choose one of them, or the mixer "attention".',
                "mask",
            )
        if position.applies_to == "scores" or isinstance(position, XPos.Config):
            what = "scales queries and keys" if position.applies_to == "qk" else "changes attention scores"
            raise ConfigError(
                f"{position.kind} {what}, and {self.kind} has only features of both. Choose a position that is added, "
                'such as "sinusoidal", or that rotates, such as "rope".',
                "position",
            )
        check_even_heads(self.d_k, position)

    def bounded(self, mask: Mask) -> bool:
        return True

    def cost(self, scope: Scope) -> Cost:
        c = self.resolved(scope)
        assert c.d_k and c.d_v
        keys, values = c.heads * c.d_k, c.heads * c.d_v
        state = c.heads * c.feature_count * (c.d_v + 1)
        projections = [scope.linear_parameters(scope.d_model, size, c.bias) for size in (keys, keys, values)]
        causal = any(mask.hides_future for mask in scope.masks)
        return Cost(
            parameters=sum(projections) + scope.linear_parameters(values, scope.d_model, c.bias),
            flops_per_query=2 * scope.d_model * (keys + values) + (0 if causal else 2 * state),
            flops_per_key=2 * scope.d_model * (keys + values) + (0 if causal else 2 * state),
            flops_by_length=(c._flops,) if causal else (),
            cached_per_text=state,
        )

    def _flops(self, length: int, _: int) -> int:
        assert self.d_v
        return self.heads * count_flops(length, self.feature_count, self.d_v + 1, "auto", self.chunk)


class LinearAttention(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = Σ_s φ(q)·φ(k_s) v_s / Σ_s φ(q)·φ(k_s), over all keys or the past"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearAttentionConfig):
        kind: str = "linear_attention"
        feature_map: FeatureMap = "elu"
        eps: float = number(1e-6, low=0)  # added to the divisor

        @property
        def feature_count(self) -> int:
            assert self.d_k
            return self.d_k

    def __init__(self, config: Any, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        self.query, self.key = (make_linear(scope.d_model, c.heads * c.d_k, scope, bias=c.bias) for _ in range(2))
        self.value = make_linear(scope.d_model, c.heads * c.d_v, scope, bias=c.bias)
        self.output = make_linear(c.heads * c.d_v, scope.d_model, scope, bias=c.bias)

    def map_query(self, q: Tensor) -> Tensor:
        """Features of queries (B, H, T, D), none of them negative: (B, H, T, F)"""
        return FEATURE_MAPS[self.config.feature_map](q)

    def map_key(self, k: Tensor) -> Tensor:
        return FEATURE_MAPS[self.config.feature_map](k)

    @property
    def eps(self) -> float:
        return float(self.config.eps)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        check_unpacked(self.config.kind, ctx.queries)
        crosses = source is not None or isinstance(cache, CrossState)
        total = None if cache is None else cache.get("total")
        q, kv = ctx.transform_query(split_heads(self.query(x), self.config.heads)), None
        if total is None or not crosses:
            if crosses and source is None:
                raise ValueError("cross-attention needs encoder output: pass memory=model.encode(…)")
            kv = self._key_values(Memory(x, ctx.queries) if source is None else source, ctx)
        causal = not crosses and ctx.mask.hides_future
        with torch.autocast(x.device.type, enabled=False):  # it would round the sums
            output, total = self._attend(q, kv, total, causal, ctx)  # (B, H, T, E)
        if cache is not None and kv is not None:
            cache.store(total=total) if crosses else cache.advance(ctx.queries, total=total)
        result: Tensor = self.output(output.transpose(1, 2).flatten(2).to(x.dtype))  # (B, T, d)
        return result

    def _key_values(self, inputs: Memory, ctx: Context) -> KeyValues:
        k, v = (split_heads(y, self.config.heads) for y in project_together(inputs.values, self.key, self.value))
        return KeyValues(ctx.rotate(k, inputs.positions), v, inputs.positions, "")

    def _attend(
        self, q: Tensor, kv: KeyValues | None, total: Tensor | None, causal: bool, ctx: Context
    ) -> tuple[Tensor, Tensor]:
        """Queries, not yet features, with these keys and those of the total: the output, and the new total."""
        dtype = accumulator_dtype(q)
        features = self.map_query(q.to(dtype))  # (B, H, T, F)
        if kv is None:
            assert total is not None
            return read_total(features, total, self.eps), total
        k, v, valid = self.map_key(kv.k.to(dtype)), kv.v.to(dtype), kv.positions.valid
        if valid is not None:
            k = k.masked_fill(~valid[:, None, :, None], 0.0)
        if ctx.traced or ctx.captures("weights"):
            weights = linear_weights(features, k, total, causal=causal, eps=self.eps)
            for name, value in (("q", q), ("k", kv.k), ("v", kv.v), ("weights", weights)):
                ctx.record(name, value)
        if causal:
            return attend_linearly_to_past(features, k, v, total, eps=self.eps, chunk=self.config.chunk)
        return attend_linearly(features, k, v, eps=self.eps)

    def new_cache(
        self,
        batch: int,
        device: torch.device,
        *,
        cross: bool = False,
        lookback: int | None = None,
        trainable: bool = False,
    ) -> RecurrentState:
        return CrossState(batch, device) if cross else RecurrentState(batch, device)
