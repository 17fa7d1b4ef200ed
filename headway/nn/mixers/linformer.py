"""Linformer: attention to a fixed number of keys, which mix all tokens (Wang 2020)."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.kv import AttentionCache, CrossKVCache
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import gather_kv, split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, check_unpacked, head_width
from headway.nn.positions.positions import Position, last_position
from headway.nn.sequence import Memory, TokenPositions


def project_length(x: Tensor, projection: Tensor, valid: Tensor | None) -> Tensor:
    """Keys or values (B, H, S, D) -> K of them, each a weighted sum over all tokens: (B, H, K, D).

    projection (H or 1, K, N): a weight for each of N positions, of which the first S are used. Padding adds nothing.
    """
    if valid is not None:
        x = x.masked_fill(~valid[:, None, :, None], 0.0)
    length = min(x.shape[2], projection.shape[2])  # what is beyond is padding
    return projection[:, :, :length] @ x[:, :, :length]


class Linformer(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = softmax(xW_q (E yW_k)ᵀ / √d_k) F yW_v"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "linformer"
        heads: int = number(8, low=1)
        projected: int = number(256, low=1)  # keys that a text of any length is projected to
        max_positions: int = number(1024, low=1)  # the longest text
        shared: Literal["none", "heads", "kv"] = "heads"  # which of a layer's projections are one
        d_k: int | None = number(None, low=1)  # = d_model / heads
        d_v: int | None = number(None, low=1)  # = d_k
        bias: bool = True
        dropout: float | None = number(None, low=0, high=1)  # = the model's

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, self.d_k, scope)
            dropout = scope.dropout if self.dropout is None else self.dropout
            return replace(self, d_k=d_k, d_v=self.d_v or d_k, dropout=dropout)

        def check(self, mask: Mask, position: Position.Config) -> None:
            if mask.name != "full":
                raise ConfigError(
                    f'linformer supports only the mask "full", not "{mask.name}": each of its keys mixes all tokens, '
                    "later ones too. It can stand in an encoder, and as cross-attention. Choose another mixer here.",
                    "mask",
                )
            if position.applies_to == "scores":
                raise ConfigError(
                    f"{position.kind} changes the score of a query and a token, and the keys of linformer are "
                    'mixtures of tokens. Choose a position that is added, such as "sinusoidal", or that rotates, such '
                    'as "rope".',
                    "position",
                )
            check_even_heads(self.d_k, position)

        @property
        def projection_shape(self) -> tuple[int, int, int, int]:
            """Of keys and values, or of both; of each head, or of all; (…, K, N)"""
            own = 1 if self.shared == "kv" else 2
            return own, self.heads if self.shared == "none" else 1, self.projected, self.max_positions

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k and c.d_v
            keys, values = c.heads * c.d_k, c.heads * c.d_v
            parameters = sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in (keys, keys, values))
            own, heads, projected, length = c.projection_shape
            per_token = 2 * scope.d_model * (keys + values) + 2 * projected * (keys + values)
            return Cost(
                parameters=parameters
                + scope.linear_parameters(values, scope.d_model, c.bias)
                + own * heads * projected * length,
                flops_per_query=per_token,
                flops_per_key=per_token,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k and c.d_v
        keys, values = c.heads * c.d_k, c.heads * c.d_v
        self.query, self.key = (make_linear(scope.d_model, keys, scope, bias=c.bias) for _ in range(2))
        self.value = make_linear(scope.d_model, values, scope, bias=c.bias)
        self.output = make_linear(values, scope.d_model, scope, bias=c.bias)
        self.projection = nn.Parameter(torch.randn(c.projection_shape) * c.projected**-0.5)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: AttentionCache | None = None
    ) -> Tensor:
        c = self.config
        assert c.d_k and c.dropout is not None
        check_unpacked(c.kind, ctx.queries)
        kv = gather_kv(x, ctx, source, cache, lambda inputs: self._project(inputs, ctx))
        q = ctx.transform_query(split_heads(self.query(x), c.heads))  # (B, H, T, D)
        scores = q @ kv.k.mT * c.d_k**-0.5  # (B, H, T, K)
        weights = scores.softmax(-1)
        heads = F.dropout(weights, c.dropout, self.training) @ kv.v  # (B, H, T, E)
        recorded = {"q": q, "k": kv.k, "v": kv.v, "scores": scores, "projected_weights": weights}
        for name, value in recorded.items():
            ctx.record(name, value)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return result

    def new_cache(
        self,
        batch: int,
        device: torch.device,
        *,
        cross: bool = False,
        lookback: int | None = None,
        trainable: bool = False,
    ) -> CrossKVCache:
        assert cross, "a decoder refuses its mask"
        return CrossKVCache(batch, device)

    def _project(self, inputs: Memory, ctx: Context) -> tuple[Tensor, Tensor]:
        """(B, H, K, D) and (B, H, K, E)"""
        self._check_length(inputs.positions)
        k, v = (split_heads(x, self.config.heads) for x in project_together(inputs.values, self.key, self.value))
        k = ctx.rotate(k, inputs.positions)
        for_keys, for_values = self.projection[0], self.projection[-1]
        valid = inputs.positions.valid
        return project_length(k, for_keys, valid), project_length(v, for_values, valid)

    def _check_length(self, tokens: TokenPositions) -> None:
        size = self.config.max_positions
        length = last_position(tokens) + 1 if tokens.end > size else 0  # an upper bound, which padding may have raised
        if length > size:
            raise HeadwayError(
                f"linformer learned to project {size} positions and was given {length} tokens. Shorten the text, or "
                'train with a larger max_positions or with another mixer, such as "longnet".'
            )
