"""Longformer attention: the queries of global tokens have projections of their own, and so have what they attend to
(Beltagy 2020). Which tokens are global, and what everybody sees, says the mask."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.kv import AttentionCache
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import AttentionConfig, split_heads
from headway.nn.ops.attention import attend
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory, TokenPositions


class LongformerAttention(nn.Module):
    """Attention under a mask with global tokens; their own queries are xW_q', of keys xW_k' and values xW_v'"""

    residual_outputs = ("value", "global_value", "output")

    @dataclass(frozen=True, kw_only=True)
    class Config(AttentionConfig):
        cross_attends: ClassVar[bool] = False
        kind: str = "longformer"

        def resolved(self, scope: Scope) -> Self:
            resolved = super().resolved(scope)
            if resolved.groups != resolved.heads:
                raise ConfigError(
                    f"longformer attention has a key for each of its {self.heads} heads, not {resolved.groups} groups "
                    'of them. Leave groups out, or choose the mixer "attention".',
                    "groups",
                )
            return resolved

        def check(self, mask: Mask, position: Position.Config) -> None:
            super().check(mask, position)
            if not mask.global_tokens or mask.hides_future:
                raise ConfigError(
                    "longformer attention needs global tokens that see all of the text, and the mask "
                    f'"{mask.name}" has none. Set mask = "longformer(256)" in an encoder, or choose the mixer '
                    '"attention".',
                    "mask",
                )
            if position.applies_to == "scores":
                raise ConfigError(
                    f"{position.kind} changes scores, and those of global tokens are made by other projections. Choose "
                    'a position that is added, such as "learned", or that rotates, such as "rope".',
                    "position",
                )

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k and c.d_v
            keys, values = c.heads * c.d_k, c.heads * c.d_v
            extra = sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in (keys, keys, values))
            query, pair = 2 * scope.d_model * keys, 2 * c.heads * (c.d_k + c.d_v)

            def global_flops(queries: int, length: int) -> int:
                rows = sum(position < length for mask in scope.masks[:1] for position in mask.global_tokens)
                return rows * (query + pair * length)

            more = Cost(
                parameters=extra, flops_per_key=2 * scope.d_model * (keys + values), flops_by_length=(global_flops,)
            )
            return super().cost(scope) + more

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k and c.d_v
        keys, values = c.heads * c.d_k, c.heads * c.d_v
        self.query, self.key, self.global_query, self.global_key = (
            make_linear(scope.d_model, keys, scope, bias=c.bias) for _ in range(4)
        )
        self.value, self.global_value = (make_linear(scope.d_model, values, scope, bias=c.bias) for _ in range(2))
        self.output = make_linear(values, scope.d_model, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: AttentionCache | None = None
    ) -> Tensor:
        assert source is None and cache is None
        q, k, v = project_together(x, self.query, self.key, self.value)
        found = self._attend(q, k, v, ctx, ctx.queries)
        chosen, rows = _select_global(ctx)
        k, v = project_together(x, self.global_key, self.global_value)
        asked = self._attend(self.global_query(x[:, chosen]), k, v, rows, ctx.queries)
        is_global = torch.isin(ctx.queries.positions, torch.tensor(ctx.mask.global_tokens, device=x.device))
        for name, own in found.items():
            replaced = own.index_copy(2, chosen, asked[name])
            found[name] = torch.where(is_global[:, None, :, None], replaced, own)
        for name in found.keys() - {"output"}:
            ctx.record(name, found[name])
        result: Tensor = self.output(found["output"].transpose(1, 2).flatten(2))  # (B, T, d)
        return result

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, keys: TokenPositions) -> dict[str, Tensor]:
        """Of q (B, Q, H·D), k and v (B, T, …): the heads (B, H, Q, E), and what a trace shows."""
        c = self.config
        assert c.dropout is not None
        q, k, v = (split_heads(x, c.heads) for x in (q, k, v))
        q, k, mask = ctx.transform_query(q), ctx.rotate(k, keys), ctx.bound_mask(keys, c.heads, "self")
        dropout = c.dropout if self.training else 0.0
        if not (ctx.traced or ctx.captures("weights")):
            few = ctx.queries is not keys and c.kernel in ("flex", "blocks")  # global queries: no blocks to skip
            kernel = "auto" if few else c.kernel
            return {"output": attend(q, k, v, mask=mask, scale=c.scale, dropout=dropout, kernel=kernel)}
        result = attend(q, k, v, mask=mask, scale=c.scale, dropout=dropout, also="everything")
        return {"output": result.output, "scores": result.scores, "weights": result.weights}


def _select_global(ctx: Context) -> tuple[Tensor, Context]:
    """The queries that may be global, and the context of these alone. Where texts are packed, that is all of them."""
    tokens = ctx.queries
    known = [position for position in ctx.mask.global_tokens if position < tokens.length]
    chosen = torch.tensor(known if tokens.in_order else list(range(tokens.length)), dtype=torch.long)
    chosen = chosen.to(tokens.positions.device)
    texts = tokens.texts and tokens.texts._replace(text_index=tokens.texts.text_index[:, chosen])
    valid = None if tokens.valid is None else tokens.valid[:, chosen]
    rows = TokenPositions(tokens.positions[:, chosen], valid, tokens.end, texts=texts)
    return chosen, replace(ctx, queries=rows, memo={})
