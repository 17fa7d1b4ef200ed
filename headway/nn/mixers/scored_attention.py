"""Attention whose weights are not the plain softmax of dot products: what such mixers share.

A subclass says how queries and keys become weights (`weigh`); projections, heads, caches, values and traces are here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.kv import AttentionCache, CrossKVCache, LayerCache
from headway.nn.cache.sliding_window import new_self_cache
from headway.nn.context import Context
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import gather_kv, record_position, split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, head_width
from headway.nn.ops.attention import masked_softmax
from headway.nn.positions.positions import Position
from headway.nn.positions.score_mod import BoundScoreMod
from headway.nn.sequence import KeyValues, Memory, TokenPositions


class Pairs(NamedTuple):
    """Queries and keys of a layer, and what mask and position say of each pair."""

    q: Tensor  # (B, H, T, D)
    k: Tensor  # (B, H, S, D)
    keys: TokenPositions
    mask: Tensor | None  # (B or 1, H or 1, T, S), true where attention is allowed; None: everywhere
    score_mod: BoundScoreMod | None

    def dot_products(self) -> Tensor:
        scale: float = self.q.shape[-1] ** -0.5
        return self.q @ self.k.transpose(-1, -2) * scale  # (B, H, T, S)

    def add_position(self, scores: Tensor) -> Tensor:
        return scores if self.score_mod is None else self.score_mod(scores, self.q.shape[0])


@dataclass(frozen=True, kw_only=True)
class ScoredAttentionConfig(MixerConfig):
    """Settings of heads. d_k is also the width in which queries and keys are compared."""

    heads: int = number(8, low=1)
    d_k: int | None = number(None, low=1)  # = d_model / heads
    d_v: int | None = number(None, low=1)  # = d_k
    bias: bool = True
    dropout: float | None = number(None, low=0, high=1)  # = the model's

    def resolved(self, scope: Scope) -> Self:
        d_k = head_width(self.heads, self.d_k, scope)
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
            parameters=sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in (keys, keys, values))
            + scope.linear_parameters(values, scope.d_model, c.bias),
            flops_per_query=2 * scope.d_model * (keys + values),
            flops_per_key=2 * scope.d_model * (keys + values),
            flops_per_pair=2 * c.heads * (c.d_k + c.d_v),
            cached_per_token=keys + values,
        )


class ScoredAttention(nn.Module, ABC):
    """Concat(head₁ … head_h)W_o with head_i = weigh(xW_q, yW_k) yW_v; y is x itself, or a source"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down
    config: ScoredAttentionConfig

    def __init__(self, config: ScoredAttentionConfig, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k and c.d_v
        self.query, self.key = (make_linear(scope.d_model, c.heads * c.d_k, scope, bias=c.bias) for _ in range(2))
        self.value = make_linear(scope.d_model, c.heads * c.d_v, scope, bias=c.bias)
        self.output = make_linear(c.heads * c.d_v, scope.d_model, scope, bias=c.bias)

    @abstractmethod
    def weigh(self, x: Tensor, pairs: Pairs, ctx: Context) -> Tensor:
        """Attention weights (B, H, T, S) of the queries, which were made from x (B, T, d)."""

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: AttentionCache | None = None
    ) -> Tensor:
        c = self.config
        assert c.d_k and c.dropout is not None
        q = split_heads(self.query(x), c.heads)
        kv = gather_kv(x, ctx, source, cache, lambda known: self._project(known, ctx))
        score_mod = ctx.bound_score_mod(q, kv.positions, c.d_k**-0.5)
        pairs = Pairs(ctx.transform_query(q), kv.k, kv.positions, dense_mask(kv, ctx, c.heads, x.shape[0]), score_mod)
        weights = self.weigh(x, pairs, ctx)
        heads = mix_values(weights, kv.v, score_mod, c.dropout if self.training else 0.0)  # (B, H, T, E)
        for name, value in (("q", pairs.q), ("k", kv.k), ("v", kv.v), ("weights", weights)):
            ctx.record(name, value)
        record_position(score_mod, weights, ctx)
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
        k, v = (split_heads(project(inputs.values), self.config.heads) for project in (self.key, self.value))
        return ctx.rotate(k, inputs.positions), v


def dense_mask(kv: KeyValues, ctx: Context, heads: int, batch: int) -> Tensor | None:
    """What the mask in ctx lets queries see of these keys; None: everything."""
    mask = ctx.bound_mask(kv.positions, heads, kv.owner)
    return None if mask.allows_all else mask.dense(batch)


def softmax_pairs(scores: Tensor, pairs: Pairs, ctx: Context) -> Tensor:
    """Scores, still without what the position adds, to weights; both are for a trace."""
    scores = pairs.add_position(scores)
    ctx.record("scores", scores)
    return masked_softmax(scores, pairs.mask)


def mix_values(weights: Tensor, v: Tensor, score_mod: BoundScoreMod | None, dropout: float) -> Tensor:
    """Σ weight · value, and what a position adds to values: (B, H, T, E)"""
    dropped = F.dropout(weights, dropout)
    return dropped @ v if score_mod is None else dropped @ v + score_mod.value_bias(dropped)
