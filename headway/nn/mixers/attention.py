"""Multi-head attention: project, split into heads, attend, concatenate, project. Also grouped- and multi-query."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from headway.config.schema import number, slot
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, build_norm, make_linear
from headway.nn.cache.kv import AttentionCache, CrossKVCache, LayerCache
from headway.nn.cache.sliding_window import InputWindowCache, new_self_cache
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, head_width
from headway.nn.ops.attention import attend
from headway.nn.positions.positions import Position
from headway.nn.positions.score_mod import BoundScoreMod
from headway.nn.sequence import KeyValues, Memory, TokenPositions


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(MixerConfig):
    """The settings that all mixers with queries, keys and values of their own share."""

    kind: str = "attention"
    heads: int = number(8, low=1)
    groups: int | None = number(None, low=1)  # = heads
    d_k: int | None = number(None, low=1)  # = d_model / heads
    d_v: int | None = number(None, low=1)  # = d_k
    bias: bool = True
    dropout: float | None = number(None, low=0, high=1)  # = the model's
    scale: float | None = None  # = 1 / √d_k
    kernel: Literal["auto", "math", "sdpa", "flex", "blocks"] = "auto"

    def resolved(self, scope: Scope) -> Self:
        d_k = head_width(self.heads, self.d_k, scope)
        groups = self.groups or self.heads
        if self.heads % groups:
            raise ConfigError(
                f"heads = {self.heads} is not a multiple of groups = {groups}. Choose another number of groups.",
                "groups",
            )
        dropout = scope.dropout if self.dropout is None else self.dropout
        check_kernel_dropout(self.kernel, dropout)
        return replace(
            self,
            groups=groups,
            d_k=d_k,
            d_v=self.d_v or d_k,
            dropout=dropout,
            scale=d_k**-0.5 if self.scale is None else self.scale,
        )

    def check(self, mask: Mask, position: Position.Config) -> None:
        check_even_heads(self.d_k, position)
        check_kernel_position(self.kernel, position)

    def bounded(self, mask: Mask) -> bool:
        return mask.lookback is not None

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
            cached_per_token=narrow + values,
        )


class Attention(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = attend(xW_q, yW_k, yW_v); y is x itself (self-attention), or a source
    (cross-attention).

    groups = heads is multi-head attention, groups = 1 multi-query, between them grouped-query.
    """

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(AttentionConfig):
        has_query_stream = True
        output_bias: bool | None = None  # = bias; Qwen2 has one for queries, keys and values alone
        qk_norm: Any = slot("norm", None)  # no norm of queries and keys; Qwen3: "rmsnorm", over the width of a head
        output_norm: Any = slot("norm", None)  # no norm of all heads before W_o; BitNet: "rmsnorm"

        def __post_init__(self) -> None:
            super().__post_init__()
            for name in ("qk_norm", "output_norm"):
                norm = getattr(self, name)
                if norm is not None and norm.streams_only:
                    raise ConfigError(
                        f'inside attention single vectors are normalised, and "{norm.kind}" is a norm of the residual '
                        'stream. Choose "layernorm", "rmsnorm" or "none".',
                        name,
                    )

        @property
        def has_output_bias(self) -> bool:
            return self.bias if self.output_bias is None else self.output_bias

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k and c.d_v
            more = scope.d_model * (c.has_output_bias - c.bias)
            more += 0 if c.qk_norm is None else 2 * c.qk_norm.parameters(c.d_k)
            more += 0 if c.output_norm is None else c.output_norm.parameters(c.heads * c.d_v)
            return super().cost(scope) + Cost(parameters=more)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.groups and c.d_k and c.d_v
        self.query = make_linear(scope.d_model, c.heads * c.d_k, scope, bias=c.bias)
        self.key = make_linear(scope.d_model, c.groups * c.d_k, scope, bias=c.bias)
        self.value = make_linear(scope.d_model, c.groups * c.d_v, scope, bias=c.bias)
        self.output = make_linear(c.heads * c.d_v, scope.d_model, scope, bias=c.has_output_bias)
        self.query_norm, self.key_norm = (None if c.qk_norm is None else build_norm(c.qk_norm, c.d_k) for _ in "qk")
        self.output_norm = None if c.output_norm is None else build_norm(c.output_norm, c.heads * c.d_v)

    @property
    def has_norms(self) -> bool:
        """Whether it normalises what it projects: fast decoders, which take its linear layers alone, do not."""
        return self.query_norm is not None or self.output_norm is not None

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: AttentionCache | None = None
    ) -> Tensor:
        if ctx.stream == "query":
            q, kv = self.query(x), ctx.published["content"]
        elif source is None and cache is None:
            q, k, v = project_together(x, self.query, self.key, self.value)
            kv = KeyValues(*self._split_kv(k, v, ctx.queries, ctx), ctx.queries, "self")
        else:
            q, kv = self.query(x), gather_kv(x, ctx, source, cache, lambda known: self._project(known, ctx))
        if ctx.stream == "content":
            ctx.published["content"] = kv
        queries = split_heads(q, self.config.heads)
        if self.query_norm is not None:
            ctx.record("unnormed_q", queries)
            ctx.record_norm("q_norm", self.query_norm)
            queries = self.query_norm(queries)
        heads = attend_heads(queries, kv, ctx, self.config, self.training)  # (B, H, T, E)
        joined = heads.transpose(1, 2).flatten(2)  # (B, T, H·E)
        if self.output_norm is not None:
            joined = self.output_norm(joined)
            ctx.record("joined", joined)
            ctx.record_norm("output_norm", self.output_norm)
        result: Tensor = self.output(joined)  # (B, T, d)
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
        """`cross`: a cache for cross-attention. `lookback`: how far back the mask looks. `trainable`: the weights
        change before the cache is read again."""
        return CrossKVCache(batch, device) if cross else new_self_cache(batch, device, lookback, trainable)

    def _project(self, inputs: Memory, ctx: Context) -> tuple[Tensor, Tensor]:
        k, v = project_together(inputs.values, self.key, self.value)
        return self._split_kv(k, v, inputs.positions, ctx)

    def _split_kv(self, k: Tensor, v: Tensor, tokens: TokenPositions, ctx: Context) -> tuple[Tensor, Tensor]:
        groups = self.config.groups or 1
        keys = split_heads(k, groups)
        if self.key_norm is not None:
            ctx.record("unnormed_k", keys)
            ctx.record_norm("k_norm", self.key_norm)
            keys = self.key_norm(keys)
        return ctx.rotate(keys, tokens), split_heads(v, groups)  # (B, G, S, D), (B, G, S, E)


def check_kernel_dropout(kernel: str, dropout: float) -> None:
    if kernel == "flex" and dropout:
        raise ConfigError(
            f'the kernel "flex" has no dropout, and dropout = {dropout}. Set the mixer\'s dropout = 0, or kernel = '
            '"auto".',
            "kernel",
        )


def check_kernel_position(kernel: str, position: Position.Config) -> None:
    if position.needs_weights and kernel in ("sdpa", "flex"):
        raise ConfigError(
            f'{position.kind} needs attention weights, which the kernel "{kernel}" does not return. Set kernel = '
            '"auto" or "math".',
            "position",
        )


def gather_kv(
    x: Tensor,
    ctx: Context,
    source: Memory | None,
    cache: AttentionCache | None,
    project: Callable[[Memory], tuple[Tensor, Tensor]],
) -> KeyValues:
    """Keys and values of the source, if there is one, or of x after all cached ones."""
    if isinstance(cache, CrossKVCache):
        if cache.kv is not None:
            return KeyValues(*cache.kv, cache.name)
        if source is None:
            raise ValueError("cross-attention needs encoder output: pass memory=model.encode(…)")
    inputs, owner = (Memory(x, ctx.queries), "self") if source is None else (source, "source")
    return project_kv(inputs, owner, cache, project)


def project_kv(
    inputs: Memory,
    owner: str,
    cache: AttentionCache | None,
    project: Callable[[Memory], tuple[Tensor, Tensor]],
) -> KeyValues:
    """Keys and values of the inputs, after all cached ones; the cache takes in the new. `owner` names their positions
    if there is no cache."""
    if isinstance(cache, InputWindowCache):
        inputs, owner = cache.extend(*inputs), cache.name
    k, v = project(inputs)
    if cache is None or isinstance(cache, InputWindowCache):
        return KeyValues(k, v, inputs.positions, owner)
    return KeyValues(*cache.append(k, v, inputs.positions), cache.name)


def split_heads(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(1, 2)  # (B, T, H·D) -> (B, H, T, D)


def attend_heads(q: Tensor, kv: KeyValues, ctx: Context, c: Any, training: bool) -> Tensor:
    """Attention of queries (B, H, T, D), not yet rotated -> (B, H, T, E). c: the settings of attention."""
    score_mod = ctx.bound_score_mod(q, kv.positions, c.scale)
    mask = ctx.bound_mask(kv.positions, c.heads, kv.owner)
    q, k, v = ctx.transform_query(q), kv.k, kv.v
    dropout = c.dropout if training else 0.0
    if not (ctx.traced or ctx.captures("weights")):
        return attend(q, k, v, mask=mask, score_mod=score_mod, scale=c.scale, dropout=dropout, kernel=c.kernel)
    result = attend(q, k, v, mask=mask, score_mod=score_mod, scale=c.scale, dropout=dropout, also="everything")
    for name, value in (("q", q), ("k", k), ("v", v), ("scores", result.scores), ("weights", result.weights)):
        ctx.record(name, value)
    record_position(score_mod, result.weights, ctx)
    return result.output


def record_position(score_mod: BoundScoreMod | None, weights: Tensor, ctx: Context) -> None:
    """What a position adds to the scores, and to the sum of the values."""
    if score_mod is None or not ctx.traced:
        return
    if score_mod.additive:
        ctx.record("score_bias", score_mod(torch.zeros_like(weights), weights.shape[0]))  # (B, H, T, S)
    if score_mod.needs_weights:
        ctx.record("value_bias", torch.as_tensor(score_mod.value_bias(weights)))  # (B, H, T, E)
