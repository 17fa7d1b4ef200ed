"""LongNet: dilated attention, whose cost grows linearly with the text (Ding 2023)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.sliding_window import WINDOW_SLACK, SlidingWindowKVCache, new_self_cache
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import project_kv, split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, check_unpacked, head_width
from headway.nn.ops.attention import attend
from headway.nn.ops.dilated_attention import (
    BoundDilation,
    Branch,
    Dilation,
    bind_dilation,
    dense_dilated,
    gathered_dilated,
)
from headway.nn.positions.positions import Position
from headway.nn.sequence import KeyValues, Memory, TokenPositions


class LongNet(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = dilated attention of xW_q, xW_k, xW_v"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        cross_attends: ClassVar[bool] = False  # queries and keys share their segments
        kind: str = "longnet"
        heads: int = number(8, low=1)
        segments: tuple[int, ...] = (256, 512, 1024)  # tokens of a segment, for each branch
        rates: tuple[int, ...] = (1, 2, 4)  # of which a head keeps every rate-th
        offsets: Literal["grouped", "cyclic"] = "grouped"  # where heads begin: as the authors' code, or h mod rate
        d_k: int | None = number(None, low=1)  # = d_model / heads
        d_v: int | None = number(None, low=1)  # = d_k
        bias: bool = True

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, self.d_k, scope)
            if not self.segments or len(self.segments) != len(self.rates):
                raise ConfigError(
                    f"there are {len(self.segments)} segments and {len(self.rates)} rates. Give one rate for each "
                    "segment, and at least one of both.",
                    "rates",
                )
            for segment, rate in zip(self.segments, self.rates):
                if not 1 <= rate <= segment:
                    raise ConfigError(
                        f"a segment of {segment} tokens cannot keep every {rate}-th. Give rates from 1 to the length "
                        "of their segment.",
                        "rates",
                    )
            return replace(self, d_k=d_k, d_v=self.d_v or d_k)

        def check(self, mask: Mask, position: Position.Config) -> None:
            if mask.name not in ("causal", "full"):
                raise ConfigError(
                    f'longnet supports only the masks "causal" and "full", not "{mask.name}": its segments say which '
                    'tokens meet. Choose one of them, or the mixer "attention".',
                    "mask",
                )
            if position.applies_to == "scores":
                raise ConfigError(
                    f"{position.kind} changes the scores of all pairs, and longnet computes few of them. Choose a "
                    'position that is added, such as "sinusoidal", or that rotates, such as "rope".',
                    "position",
                )
            check_even_heads(self.d_k, position)

        def bounded(self, mask: Mask) -> bool:
            return True

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k and c.d_v
            keys, values = c.heads * c.d_k, c.heads * c.d_v
            projections = sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in (keys, keys, values))
            return Cost(
                parameters=projections + scope.linear_parameters(values, scope.d_model, c.bias),
                flops_per_query=4 * scope.d_model * (keys + values),
                flops_by_length=(c._flops,),
                cached_per_text=(c.dilation.lookback + WINDOW_SLACK) * (keys + values),
            )

        def _flops(self, length: int, _: int) -> int:
            """Of the pairs that meet among this many tokens."""
            assert self.d_k and self.d_v
            pairs = 0
            for branch in self.dilation.branches:
                segment = min(branch.segment, length)
                pairs += -(-length // max(segment, 1)) * (-(-segment // branch.rate)) ** 2
            return 2 * self.heads * pairs * (self.d_k + self.d_v)

        @property
        def dilation(self) -> Dilation:
            return Dilation(tuple(map(Branch, self.segments, self.rates)), self.heads, self.offsets)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k and c.d_v
        self.dilation = c.dilation
        keys, values = c.heads * c.d_k, c.heads * c.d_v
        self.query, self.key = (make_linear(scope.d_model, keys, scope, bias=c.bias) for _ in range(2))
        self.value = make_linear(scope.d_model, values, scope, bias=c.bias)
        self.output = make_linear(values, scope.d_model, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: SlidingWindowKVCache | None = None
    ) -> Tensor:
        assert source is None
        check_unpacked(self.config.kind, ctx.queries)
        # Whether x is all there is so far, at positions 0, 1, 2 …; a single token is as quick in the dense form.
        whole = cache is None or (not cache.buffers and ctx.queries.valid is None and x.shape[1] > 1)
        size = self.dilation.lookback
        if not whole and x.shape[1] > size and not self._shows_weights(ctx):
            # In pieces, as the dense form of many tokens would need the square of them.
            starts = range(0, x.shape[1], size)
            pieces = (self(x[:, i : i + size], _take_queries(ctx, i, size), cache=cache) for i in starts)
            return torch.cat(list(pieces), 1)
        kv = project_kv(Memory(x, ctx.queries), "self", cache, lambda inputs: self._project(inputs, ctx))
        q = ctx.transform_query(split_heads(self.query(x), self.config.heads))  # (B, H, T, D)
        if whole and not self._shows_weights(ctx):
            k, v = (keys[:, :, -x.shape[1] :] for keys in (kv.k, kv.v))  # an empty cache puts its free slots first
            causal, valid = ctx.mask.hides_future, ctx.queries.valid
            heads = gathered_dilated(q, k, v, self.dilation, causal=causal, valid=valid)  # (B, H, T, E)
        else:
            heads = self._attend_dense(q, kv, ctx)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> SlidingWindowKVCache:
        cache = new_self_cache(batch, device, self.dilation.lookback, trainable)
        assert isinstance(cache, SlidingWindowKVCache)
        return cache

    def _shows_weights(self, ctx: Context) -> bool:
        return ctx.traced or ctx.captures("weights")

    def _project(self, inputs: Memory, ctx: Context) -> tuple[Tensor, Tensor]:
        k, v = (split_heads(x, self.config.heads) for x in project_together(inputs.values, self.key, self.value))
        return ctx.rotate(k, inputs.positions), v

    def _attend_dense(self, q: Tensor, kv: KeyValues, ctx: Context) -> Tensor:
        bound: BoundDilation = ctx.compute_once(
            ("dilated", self.dilation, kv.owner, kv.positions.length, ctx.mask.name),
            lambda: bind_dilation(self.dilation, ctx.mask, ctx.queries, kv.positions),
        )
        if not self._shows_weights(ctx):
            return dense_dilated(q, kv.k, kv.v, bound)
        result = attend(q, kv.k, kv.v, mask=bound.mask, score_mod=bound.score_mod, also="everything")
        recorded = {"q": q, "k": kv.k, "v": kv.v, "scores": result.scores, "weights": result.weights}
        for name, value in recorded.items():
            ctx.record(name, value)
        return result.output


def _take_queries(ctx: Context, start: int, count: int) -> Context:
    """The same pass, for some of its queries."""
    tokens = ctx.queries
    valid = None if tokens.valid is None else tokens.valid[:, start : start + count]
    positions = tokens.positions[:, start : start + count]
    return replace(ctx, queries=TokenPositions(positions, valid, tokens.end), memo={})
