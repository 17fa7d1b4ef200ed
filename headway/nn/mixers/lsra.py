"""Long-short range attention (Lite Transformer, Wu 2020): attention over half of the channels, for what is far, and a
short convolution over the others, for what is near."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.composite import CompositeCache
from headway.nn.cache.kv import LayerCache
from headway.nn.cache.sliding_window import WINDOW_SLACK, InputWindowCache, SlidingWindowKVCache
from headway.nn.context import Context
from headway.nn.masks.masks import CAUSAL, FULL, Mask
from headway.nn.mixers.attention import Attention
from headway.nn.mixers.mixer import MixerConfig
from headway.nn.ops.dropout import Dropout
from headway.nn.ops.light_convolution import convolve
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory, TokenPositions


class LongShortRangeAttention(nn.Module):
    """Concat(attention(x₁), convolution(x₂)), x₁ and x₂ the two halves of the channels"""

    residual_outputs = ("attention.value", "attention.output", "convolution.output")

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        cross_attends: ClassVar[bool] = False  # a convolution is along one sequence

        kind: str = "lsra"
        heads: int = number(4, low=1)  # of each half
        kernel_size: int = number(7, low=1)  # taps of a filter
        conv: Literal["dynamic", "light"] = "dynamic"  # filters made from the token, or learned once for all
        glu: bool = True  # a gated linear unit before the convolution
        d_k: int | None = number(None, low=1)  # = d_model / 2 / heads
        bias: bool = True
        dropout: float | None = number(None, low=0, high=1)  # = the model's; of attention weights and filters
        scale: float | None = None  # = 1 / √d_k
        kernel: Literal["auto", "math", "sdpa", "flex"] = "auto"  # of attention

        def resolved(self, scope: Scope) -> Self:
            if scope.d_model % 2 or scope.d_model // 2 % self.heads:
                raise ConfigError(
                    f"lsra splits the channels in halves of equal heads, and half of d_model = {scope.d_model} is not "
                    f"a multiple of {self.heads} heads. Choose another number of heads.",
                    "heads",
                )
            attention = self.attention().resolved(_half(scope))
            return replace(self, d_k=attention.d_k, dropout=attention.dropout, scale=attention.scale)

        def attention(self) -> Attention.Config:
            """The settings of the half that attends."""
            names = ("heads", "d_k", "bias", "dropout", "scale", "kernel")
            return Attention.Config(**{name: getattr(self, name) for name in names})

        @property
        def d_v(self) -> int | None:
            """The width of a value, for positions that change values."""
            return self.d_k

        def check(self, mask: Mask, position: Position.Config) -> None:
            self.attention().check(mask, position)

        def bounded(self, mask: Mask) -> bool:
            return mask.lookback is not None

        def cost(self, scope: Scope) -> Cost:
            half = _half(scope)
            inputs = half.d_model * (2 if self.glu else 1)
            filters = self.heads * self.kernel_size
            products = [(half.d_model, inputs, self.bias), (half.d_model, half.d_model, self.bias)]
            products += [(half.d_model, filters, False)] if self.conv == "dynamic" else []
            convolution = Cost(
                parameters=sum(half.linear_parameters(*product) for product in products)
                + (filters if self.conv == "light" else 0),
                flops_per_query=sum(2 * wide * narrow for wide, narrow, _ in products),
                cached_per_text=(self.kernel_size + WINDOW_SLACK) * half.d_model,
            )
            return self.attention().cost(half) + convolution

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        config = config.resolved(scope)
        self.attention = Attention(config.attention(), _half(scope))
        self.convolution = HeadConvolution(config, _half(scope))

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: CompositeCache | None = None
    ) -> Tensor:
        assert source is None
        far, near = x.chunk(2, dim=-1)
        parts: dict[str, LayerCache] = {} if cache is None else cache.parts
        attended = self.attention(far, ctx, cache=parts.get("attention"))
        convolved = self.convolution(near, ctx, parts.get("convolution"))
        return torch.cat([attended, convolved], dim=-1)

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> CompositeCache:
        window = InputWindowCache if trainable else SlidingWindowKVCache
        return CompositeCache(
            {
                "attention": self.attention.new_cache(batch, device, lookback=lookback, trainable=trainable),
                "convolution": window(batch, device, self.convolution.taps),
            }
        )


class HeadConvolution(nn.Module):
    """convolve(glu(xW₁), filters) W₂, with one filter of positive taps that sum to 1 for each head"""

    def __init__(self, config: LongShortRangeAttention.Config, scope: Scope) -> None:
        super().__init__()
        width = scope.d_model
        self.heads, self.taps, self.glu = config.heads, config.kernel_size, config.glu
        self.input = make_linear(width, 2 * width if config.glu else width, scope, bias=config.bias)
        self.filters = None
        if config.conv == "light":
            self.weight = nn.Parameter(torch.zeros(self.heads, 1, self.taps))
        else:
            self.filters = make_linear(width, self.heads * self.taps, scope, bias=False)
        self.output = make_linear(width, width, scope, bias=config.bias)
        self.dropout = Dropout(config.dropout or 0.0)

    def forward(self, x: Tensor, ctx: Context, cache: SlidingWindowKVCache | None) -> Tensor:
        values = self._project(x)  # (B, T, C)
        filters = self._make_filters(values)  # (B, T, H, K), or 1 for B and T
        ctx.record("filters", filters)
        ahead = 0 if ctx.mask.hides_future else self.taps - 1 - self.taps // 2
        offsets = torch.arange(self.taps, device=x.device) - (self.taps - 1 - ahead)
        allowed = visible_taps(ctx, offsets, self.heads, len(x))
        filters = filters if allowed is None else filters * allowed
        known, index = (values, None) if cache is None else self._extend(cache, x, values, ctx.queries)
        if cache is None and ctx.queries.valid is not None:
            known = known.masked_fill(~ctx.queries.valid[..., None], 0.0)
        heads = convolve(known.unflatten(-1, (self.heads, -1)), filters, ahead, index)
        result: Tensor = self.output(heads.flatten(2))
        return result

    def _project(self, x: Tensor) -> Tensor:
        values: Tensor = self.input(x)
        return F.glu(values, dim=-1) if self.glu else values

    def _make_filters(self, values: Tensor) -> Tensor:
        if self.filters is None:
            logits = self.weight.view(1, 1, self.heads, self.taps)
        else:
            logits = self.filters(values).unflatten(-1, (self.heads, self.taps))
        filters: Tensor = self.dropout(logits.softmax(-1))
        return filters

    def _extend(
        self, cache: SlidingWindowKVCache, x: Tensor, values: Tensor, tokens: TokenPositions
    ) -> tuple[Tensor, Tensor]:
        """The cached and the new inputs of the convolution in the order of their positions, and where in them the
        tokens are. Slots without a token come first, as zeros."""
        keeps_inputs = isinstance(cache, InputWindowCache)
        (known,), slots = cache.append_all(((x if keeps_inputs else values)[:, None],), tokens)
        assert slots.valid is not None
        known = self._project(known[:, 0]) if keeps_inputs else known[:, 0]
        known = known.masked_fill(~slots.valid[..., None], 0.0)
        order = slots.positions.masked_fill(~slots.valid, -1).argsort(1)
        index = known.shape[1] - cache.lengths[:, None] + tokens.positions
        return known.gather(1, order[..., None].expand_as(known)), index.clamp(0, known.shape[1] - 1)


def visible_taps(ctx: Context, offsets: Tensor, heads: int, batch: int) -> Tensor | None:
    """(B or 1, T, H or 1, K): which taps the mask shows, and which are of the same text; None: all that are not zeros
    anyway."""
    tokens, mask = ctx.queries, ctx.mask
    allowed = None
    if mask is not FULL and mask is not CAUSAL:
        rows = torch.arange(batch, device=offsets.device)[:, None, None, None]
        each_head = torch.arange(heads, device=offsets.device)[None, None, :, None]
        q = tokens.positions[..., None, None]  # (B or 1, T, 1, 1)
        allowed = mask(rows, each_head, q, (q + offsets).clamp(0, tokens.end - 1))
    if tokens.texts is not None:
        texts = tokens.texts.text_index  # (1, T)
        places = torch.arange(tokens.length, device=offsets.device)[:, None] + offsets  # (T, K)
        same = texts[:, places.clamp(0, tokens.length - 1)] == texts[..., None]
        allowed = same[:, :, None] if allowed is None else allowed & same[:, :, None]
    return allowed


def _half(scope: Scope) -> Scope:
    return replace(scope, d_model=scope.d_model // 2)
