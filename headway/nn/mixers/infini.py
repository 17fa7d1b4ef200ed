"""Infini-attention: local attention within segments, and a compressive memory of all earlier ones (Munkhdalai 2024)."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import CAUSAL, Mask
from headway.nn.masks.sparse import segments
from headway.nn.mixers.attention import split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, check_unpacked, head_width
from headway.nn.ops.attention import attend
from headway.nn.ops.compressive_memory import feature_map, read_memory, write_segments
from headway.nn.positions.positions import Position
from headway.nn.segments import SegmentLayout, lay_out_segments
from headway.nn.sequence import Memory


class InfiniAttention(nn.Module):
    """(g · softmax(qkᵀ/√d_k) v + (1 - g) · σ(q)M / σ(q)z) W_o: attention sees the query's own segment so far, M and z
    hold all segments before it. g = sigmoid(gate) for each head; in the first segment 1."""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "infini"
        heads: int = number(8, low=1)
        segment: int = number(256, low=1)  # tokens
        update: Literal["linear", "delta", "learned_delta"] = "delta"
        d_k: int | None = number(None, low=1)  # = d_model / heads
        d_v: int | None = number(None, low=1)  # = d_k
        bias: bool = False
        dropout: float | None = number(None, low=0, high=1)  # = the model's; of attention weights
        kernel: Literal["auto", "math", "sdpa"] = "auto"

        def resolved(self, scope: Scope) -> Self:
            dropout = scope.dropout if self.dropout is None else self.dropout
            d_k = head_width(self.heads, self.d_k, scope)
            return replace(self, d_k=d_k, d_v=self.d_v or d_k, dropout=dropout)

        def check(self, mask: Mask, position: Position.Config) -> None:
            if mask.name != "causal":
                raise ConfigError(
                    "Infini-attention has segments and a memory of its own, and supports only the mask "
                    f'"causal", not "{mask.name}". Set mask = "causal", or choose the mixer "attention".',
                    "mask",
                )
            if position.needs_weights and self.kernel == "sdpa":
                raise ConfigError(
                    f'{position.kind} needs attention weights, which the kernel "sdpa" does not return. Set kernel = '
                    '"auto" or "math".',
                    "position",
                )
            check_even_heads(self.d_k, position)

        def bounded(self, mask: Mask) -> bool:
            return True

        def scored(self, mask: Mask) -> Mask:
            return mask & segments(self.segment, 0)

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k and c.d_v
            keys, values = c.heads * c.d_k, c.heads * c.d_v
            outputs = [keys, keys, values, *[c.heads] * (c.update == "learned_delta")]
            return Cost(
                parameters=sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in outputs)
                + scope.linear_parameters(values, scope.d_model, c.bias)
                + c.heads,
                flops_per_query=2 * scope.d_model * (sum(outputs) + values),
                flops_by_length=(c._flops,),
                cached_per_text=c.segment * (keys + values) + 2 * keys * (c.d_v + 1),
            )

        def _flops(self, length: int, _: int) -> int:
            """Matrix products of local attention, of reading and of writing; the last segment is padded, and not
            written."""
            assert self.d_k and self.d_v
            count = max(1, -(-length // self.segment))
            size = length if count == 1 else self.segment
            access = self.d_k * (self.d_v + 1)  # by a token, to the memory
            written = (count - 1) * size * access * (1 if self.update == "linear" else 2)
            return 2 * self.heads * (count * size * (size * (self.d_k + self.d_v) + access) + written)

        @property
        def scale(self) -> float:
            assert self.d_k
            return float(self.d_k**-0.5)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k and c.d_v
        keys, values = c.heads * c.d_k, c.heads * c.d_v
        self.query, self.key = (make_linear(scope.d_model, keys, scope, bias=c.bias) for _ in range(2))
        self.value = make_linear(scope.d_model, values, scope, bias=c.bias)
        self.forget = make_linear(scope.d_model, c.heads, scope, bias=c.bias) if c.update == "learned_delta" else None
        self.gate = nn.Parameter(torch.zeros(c.heads))
        self.output = make_linear(values, scope.d_model, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        c = self.config
        assert source is None
        check_unpacked(c.kind, ctx.queries)
        q, k, v = (split_heads(y, c.heads) for y in project_together(x, self.query, self.key, self.value))
        before = None if cache is None else cache.lengths
        layout: SegmentLayout = ctx.compute_once(
            ("segments", c.segment), lambda: lay_out_segments(ctx.queries, c.segment, before)
        )
        keys, values = layout.align(ctx.rotate(k, layout.within)), layout.align(v)  # (B, H, N, L, D)
        if cache is not None and cache.values:
            keys, values = (layout.continue_segment(x, cache.values[n]) for n, x in (("k", keys), ("v", values)))
        local = self._attend(q, keys, values, ctx, layout)
        recalled, memory = self._recall(x, q, k, v, layout, cache)
        if cache is not None:
            last = {"k": layout.last_segment(keys, c.segment), "v": layout.last_segment(values, c.segment)}
            cache.advance(ctx.queries, **last, **memory)
        # In the first segment there is nothing to recall.
        recalls = (layout.numbers > 0)[:, None, :, None]
        gate = torch.where(recalls, torch.sigmoid(self.gate)[:, None, None], 1.0).to(local.dtype)  # (B or 1, H, T, 1)
        for name, value in (("q", q), ("k", k), ("v", v), ("recalled", recalled), ("gate", gate)):
            ctx.record(name, value)
        mixed = gate * local + (1 - gate) * recalled.to(local.dtype)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))  # (B, T, d)
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)

    def _attend(self, q: Tensor, keys: Tensor, values: Tensor, ctx: Context, layout: SegmentLayout) -> Tensor:
        """Causal attention within each segment, all of them at once; positions count from its start. (B, H, T, D)"""
        c = self.config
        inside = replace(
            ctx, queries=layout.queries, mask=CAUSAL, memo=ctx.compute_once(("segment memo", c.segment), dict)
        )
        q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (layout.group(q), keys, values))  # (B·N, H, L, D)
        mask = inside.bound_mask(layout.keys, c.heads, "segment")
        score_mod = inside.bound_score_mod(q, layout.keys, c.scale)
        q, dropout = inside.transform_query(q), (c.dropout or 0.0) if self.training else 0.0

        def by_token(x: Tensor) -> Tensor:
            return layout.ungroup(x.unflatten(0, (-1, layout.count)).transpose(1, 2))

        if not (ctx.traced or ctx.captures("weights")):
            return by_token(
                attend(q, k, v, mask=mask, score_mod=score_mod, scale=c.scale, dropout=dropout, kernel=c.kernel)
            )
        result = attend(q, k, v, mask=mask, score_mod=score_mod, scale=c.scale, dropout=dropout, also="everything")
        ctx.record("weights", _place_segments(by_token(result.weights), layout))
        return by_token(result.output)

    def _recall(
        self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, layout: SegmentLayout, cache: RecurrentState | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """What the memory says to each query (B, H, T, D), and the memory afterwards."""
        c = self.config
        shares = None if self.forget is None else 1 - torch.sigmoid(split_heads(self.forget(x), c.heads))
        with torch.autocast(x.device.type, enabled=False):  # it would round the memory
            features, queries = layout.group(feature_map(k)), layout.group(feature_map(q))
            empty = features.new_zeros(*k.shape[:2], k.shape[3], v.shape[3] + 1)
            memory, pending = empty, empty
            if cache is not None and cache.values:
                memory, pending = cache.values["memory"], cache.values["pending"]
            written = layout.count - (cache is None)  # nobody reads what the end of a whole text would write
            memories, pending = write_segments(
                features[:, :, :written],
                layout.group(v)[:, :, :written],
                None if shares is None else layout.group(shares)[:, :, :written],
                memory,
                pending,
                layout.complete(c.segment),
                delta=c.update != "linear",
            )
            recalled = layout.ungroup(read_memory(torch.stack(memories[: layout.count], 2), queries))
            if shares is not None and not written:
                recalled = recalled + 0 * shares  # DDP needs a gradient for every weight
        return recalled, {"memory": memories[-1], "pending": pending}


def _place_segments(weights: Tensor, layout: SegmentLayout) -> Tensor:
    """Weights over the slots of each token's own segment (B, H, T, L) -> over the slots of all (B, H, T, N·L), without
    those after the last token."""
    own = F.one_hot(layout.slots // max(layout.length, 1), layout.count).to(weights.dtype)  # (B or 1, T, N)
    placed = (own[:, None, :, :, None] * weights[:, :, :, None]).flatten(3)
    return placed if layout.offset is None else placed[..., : layout.offset + weights.shape[2]]
