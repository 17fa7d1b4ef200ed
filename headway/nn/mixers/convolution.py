"""Gated convolution: the mixer of convolutional sequence-to-sequence learning (ConvS2S, Gehring 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.masks.masks import Mask
from headway.nn.mixers.mixer import MixerConfig, check_unpacked
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory, TokenPositions


class GatedConvolution(nn.Module):
    """a ⊙ sigmoid(b), [a, b] = Concat(x_{t-K+1} … x_t) W; where the future may be seen, the K tokens around t"""

    residual_outputs = ("filters",)  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        cross_attends: ClassVar[bool] = False
        kind: str = "convolution"
        width: int = number(3, low=1)  # K: the tokens that an output sees
        bias: bool = True

        def check(self, mask: Mask, position: Position.Config) -> None:
            if mask.name not in ("full", "causal"):
                raise ConfigError(
                    f'a convolution sees its {self.width} neighbours, whatever the mask "{mask.name}" hides of them. '
                    'Set mask = "causal", or "full" in an encoder.',
                    "mask",
                )
            if mask.name == "full" and self.width % 2 == 0:
                raise ConfigError(
                    f'under the mask "full" a convolution is centred on its token, so its width is odd, not '
                    f'{self.width}. Choose another width, or mask = "causal".',
                    "mask",
                )
            if position.applies_to not in ("nothing", "input"):
                raise ConfigError(
                    f"{position.kind} changes queries, keys or scores, and a convolution has none. Choose a position "
                    'that is added, such as "learned".',
                    "position",
                )

        def bounded(self, mask: Mask) -> bool:
            return True

        def cost(self, scope: Scope) -> Cost:
            d = scope.d_model
            return Cost(
                parameters=scope.linear_parameters(self.width * d, 2 * d, self.bias),
                flops_per_query=2 * self.width * d * 2 * d,
                cached_per_text=(self.width - 1) * d,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.width = config.width
        self.filters = make_linear(config.width * scope.d_model, 2 * scope.d_model, scope, bias=config.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        assert source is None
        check_unpacked("convolution", ctx.queries)
        windows = self._windows(x, ctx) if cache is None else self._windows_after(x, ctx.queries, cache)
        values, gates = self.filters(windows).chunk(2, -1)  # (B, T, d) each
        shares = torch.sigmoid(gates)
        ctx.record("gates", shares)
        result: Tensor = values * shares
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)

    def _windows(self, x: Tensor, ctx: Context) -> Tensor:
        """The neighbours of each token of whole texts, zeros beyond their ends: (B, T, K · d)"""
        valid = ctx.queries.valid
        x = x if valid is None else x.masked_fill(~valid[..., None], 0.0)
        ahead = 0 if ctx.mask.hides_future else self.width // 2
        return _unfold(F.pad(x, (0, 0, self.width - 1 - ahead, ahead)), self.width)

    def _windows_after(self, x: Tensor, tokens: TokenPositions, cache: RecurrentState) -> Tensor:
        """The same for tokens that follow others, of which the last K - 1 are kept; padding is no token."""
        before, valid, kept = cache.get("inputs"), tokens.valid, self.width - 1
        before = x.new_zeros(len(x), kept, x.shape[2]) if before is None else before.to(x.dtype)
        if valid is None:
            known = torch.cat([before, x], 1)
            cache.advance(tokens, inputs=known[:, known.shape[1] - kept :])
            return _unfold(known, self.width)
        order = (~valid).long().argsort(dim=1, stable=True)  # real tokens first
        known = torch.cat([before, _gather(x, order)], 1)
        last = valid.sum(1, keepdim=True) + torch.arange(kept, device=x.device)
        cache.advance(tokens, inputs=_gather(known, last))
        return _gather(_unfold(known, self.width), (valid.long().cumsum(1) - 1).clamp(min=0))


def _unfold(x: Tensor, width: int) -> Tensor:
    """Every `width` neighbours side by side: (B, T + width - 1, d) -> (B, T, width · d)"""
    return x.unfold(1, width, 1).transpose(2, 3).flatten(2)


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """The rows of x (B, S, d) at index (B, T): (B, T, d)"""
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[2]))
