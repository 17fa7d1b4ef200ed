"""Location-based attention: the query alone says which positions it attends to (Luong 2015)."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.kv import AttentionCache, CrossKVCache, LayerCache
from headway.nn.cache.sliding_window import new_self_cache
from headway.nn.context import Context
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import gather_kv, split_heads
from headway.nn.mixers.mixer import MixerConfig, head_width
from headway.nn.mixers.scored_attention import dense_mask, mix_values
from headway.nn.ops.attention import masked_softmax
from headway.nn.positions.positions import Position, last_position
from headway.nn.sequence import Memory, TokenPositions


class LocationAttention(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = softmax(xW_i) yW_v, W_i (d, max_positions): a score for each position"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "location"
        heads: int = number(8, low=1)
        max_positions: int = number(256, low=1)  # of keys: the length of the source, or of the text itself
        d_v: int | None = number(None, low=1)  # = d_model / heads
        bias: bool = True
        dropout: float | None = number(None, low=0, high=1)  # = the model's

        def resolved(self, scope: Scope) -> Self:
            dropout = scope.dropout if self.dropout is None else self.dropout
            return replace(self, d_v=head_width(self.heads, self.d_v, scope), dropout=dropout)

        def check(self, mask: Mask, position: Position.Config) -> None:
            if position.applies_to in ("qk", "scores"):
                raise ConfigError(
                    f"{position.kind} relates queries to keys, and location-based attention has no keys: it learns a "
                    'score for each position by itself. Choose "none", or a position that is added, such as '
                    '"sinusoidal".',
                    "position",
                )

        def bounded(self, mask: Mask) -> bool:
            return mask.lookback is not None

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_v
            scores, values = c.heads * c.max_positions, c.heads * c.d_v
            return Cost(
                parameters=sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in (scores, values))
                + scope.linear_parameters(values, scope.d_model, c.bias),
                flops_per_query=2 * scope.d_model * (scores + values),
                flops_per_key=2 * scope.d_model * values,
                flops_per_pair=2 * values,
                cached_per_token=values,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_v
        self.score = make_linear(scope.d_model, c.heads * c.max_positions, scope, bias=c.bias)
        self.value = make_linear(scope.d_model, c.heads * c.d_v, scope, bias=c.bias)
        self.output = make_linear(c.heads * c.d_v, scope.d_model, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: AttentionCache | None = None
    ) -> Tensor:
        c = self.config
        assert c.dropout is not None
        kv = gather_kv(x, ctx, source, cache, self._project)
        by_position = split_heads(self.score(x), c.heads)  # (B, H, T, max_positions)
        places = self._places(kv.positions).expand(x.shape[0], -1)[:, None, None]  # (B, 1, 1, S)
        scores = by_position.gather(-1, places.expand(*by_position.shape[:3], -1))  # (B, H, T, S)
        weights = masked_softmax(scores, dense_mask(kv, ctx, c.heads, x.shape[0]))
        for name, value in (("v", kv.v), ("scores", scores), ("weights", weights)):
            ctx.record(name, value)
        heads = mix_values(weights, kv.v, None, c.dropout if self.training else 0.0)  # (B, H, T, E)
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

    def _project(self, inputs: Memory) -> tuple[Tensor, Tensor]:
        v = split_heads(self.value(inputs.values), self.config.heads)  # (B, H, S, E)
        return v[..., :0], v  # keys of width 0

    def _places(self, keys: TokenPositions) -> Tensor:
        """The position of each key, (B or 1, S); where there is none, any."""
        size, positions = self.config.max_positions, keys.positions
        if keys.end > size:  # an upper bound, which padding may have raised: look at the real tokens
            length = last_position(keys) + 1
            if length > size:
                raise HeadwayError(
                    f"location-based attention learned scores for {size} positions and was given {length} tokens. "
                    'Shorten the text, or train with a larger max_positions or with the mixer "attention".'
                )
        return positions.clamp(0, size - 1)
