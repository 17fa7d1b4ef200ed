"""xPos, length-extrapolatable positions: RoPE whose scores also fade with distance (Sun 2022)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from headway.config.schema import number
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Scope
from headway.nn.masks.masks import Mask
from headway.nn.positions.positions import (
    ChannelLayout,
    Position,
    apply_rotary,
    last_position,
    rotary_cos_sin,
    rotary_rates,
)
from headway.nn.sequence import TokenPositions

GAMMA = 0.4  # of the paper: the fastest pair of channels fades by γ / (1 + γ) in `scale_base` positions
FADING_RANGE = 0.9  # the share of a dtype's exponents that scales may use; the rest is for the vectors themselves


def log_fading(width: int, device: torch.device) -> Tensor:
    """log ζ of each pair of channels, ζᵢ = (2i/D + γ) / (1 + γ): (D / 2). float64."""
    share = torch.arange(0, width, 2, dtype=torch.float64, device=device) / width
    return ((share + GAMMA) / (1 + GAMMA)).log()


def max_positions(scale_base: float, dtype: torch.dtype) -> int:
    """How many positions there are between the smallest and the largest scale that this dtype can hold."""
    info = torch.finfo(dtype)
    exponent = FADING_RANGE * min(math.log(info.max), -math.log(info.tiny))
    return 2 * int(exponent * scale_base / math.log((1 + GAMMA) / GAMMA))


def rotate_and_fade(
    x: Tensor, positions: Tensor, base: float, layout: ChannelLayout, scale_base: float, power: int
) -> Tensor:
    """Each pair of channels of x (B, H, T, D) rotated as by RoPE, times ζᵢ^(power · (position - centre) / scale_base):
    power 1 for queries and -1 for keys, so that their product has ζᵢ^(distance / scale_base). The centre, which the
    product does not depend on, is the same for every text: a cached key stays valid as the text grows."""
    centre = max_positions(scale_base, x.dtype) // 2
    steps = (positions[:, None, :, None].double() - centre) * (power / scale_base)
    scale = (steps * log_fading(x.shape[-1], x.device)).exp()  # (B or 1, 1, T, D / 2)
    cos, sin = rotary_cos_sin(positions, rotary_rates(x.shape[-1], base, "open", x.device), torch.float64)
    return apply_rotary(x, (cos * scale).to(x.dtype), (sin * scale).to(x.dtype), layout)


class XPos(Position):
    """q·k with pair i of channels rotated by the distance and multiplied by ζᵢ^(distance / scale_base)"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        applies_to = "qk"
        counts_from_start: ClassVar[bool] = True
        kind: str = "xpos"
        base: float = number(10000.0, low=1)
        layout: Literal["interleaved", "halves"] = "interleaved"  # the paper's, x-transformers'
        scale_base: float = number(512.0, low=1)  # positions in which the fastest pair fades by γ / (1 + γ)

        def check(self, mask: Mask) -> None:
            if not mask.hides_future:
                raise ConfigError(
                    "xpos lowers scores with the distance back, and so raises those of later keys without bound. Use "
                    f'it with a mask that hides the future, such as "causal", not "{mask.name}", or choose "rope".',
                    "mask",
                )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = config

    def rotate(self, x: Tensor, tokens: TokenPositions) -> Tensor:
        return self._scaled(x, tokens, -1)

    def transform_query(self, q: Tensor, tokens: TokenPositions, layer: int) -> Tensor:
        return self._scaled(q, tokens, 1)

    def _scaled(self, x: Tensor, tokens: TokenPositions, power: int) -> Tensor:
        c, limit, positions = self.config, max_positions(self.config.scale_base, x.dtype), tokens.positions
        if tokens.end > limit:  # an upper bound, which padding may have raised: look at the real tokens
            length = last_position(tokens) + 1
            if length > limit:
                raise HeadwayError(
                    f"with scale_base = {c.scale_base:g}, xpos covers {limit:,} positions in "
                    f"{str(x.dtype).removeprefix('torch.')}, and was given {length:,} tokens. Shorten the text, or "
                    "train with a larger scale_base."
                )
            positions = positions.clamp(max=limit - 1)
        return rotate_and_fade(x, positions, c.base, c.layout, c.scale_base, power)
