"""Scalings of rotary positions: other rates of rotation, for texts longer than those that a model was trained on.

scale_rates(rates, base) -> (D / 2,)    the rates of the pairs of channels, fastest first, in float64
amplitude                               a factor of rotated queries and keys
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headway.config.schema import Part, number
from headway.errors import ConfigError

TURN = 2 * math.pi


class LinearScaling:
    """rate / factor: position interpolation"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        amplitude: ClassVar[float] = 1.0
        kind: str = "linear"
        factor: float = number(2.0, low=1e-3)

        def scale_rates(self, rates: Tensor, base: float) -> Tensor:
            return rates / self.factor


class Llama3Scaling:
    """rate / factor for pairs that turn less than `low` times in a text of `length` tokens, rate for those that turn
    more than `high` times, and between them a mixture"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        amplitude: ClassVar[float] = 1.0
        kind: str = "llama3"
        factor: float = number(8.0, low=1e-3)
        length: int = number(8192, low=1)  # tokens of a text before scaling
        low: float = number(1.0, low=0)
        high: float = number(4.0, low=0)

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.high <= self.low:
                raise ConfigError(f"high = {self.high} must be larger than low = {self.low}.", "high")

        def scale_rates(self, rates: Tensor, base: float) -> Tensor:
            turns = self.length * rates / TURN
            share = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)  # of the rate as it was
            return (1 - share) * rates / self.factor + share * rates


class YarnScaling:
    """As llama3, with a mixture that is linear in the number of the pair, and longer queries and keys"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "yarn"
        factor: float = number(4.0, low=1e-3)
        length: int = number(4096, low=1)  # tokens of a text before scaling
        fast: float = number(32.0, low=1e-3)  # pairs that turn more often in such a text keep their rate
        slow: float = number(1.0, low=1e-3)  # those that turn less often are slowed by the factor
        truncate: bool = True  # the pairs between which the mixture runs are whole numbers
        attention_factor: float | None = number(None, low=0)  # = 0.1 · ln(factor) + 1: of rotated queries and keys

        @property
        def amplitude(self) -> float:
            if self.attention_factor is not None:
                return self.attention_factor
            return 0.1 * math.log(self.factor) + 1 if self.factor > 1 else 1.0

        def scale_rates(self, rates: Tensor, base: float) -> Tensor:
            width = 2 * len(rates)
            first, last = (self._pair_of(turns, width, base) for turns in (self.fast, self.slow))
            if self.truncate:
                first, last = math.floor(first), math.ceil(last)
            first, last = max(first, 0), min(last, width - 1)
            last += 0.001 if first == last else 0.0  # as the paper's code
            pairs = torch.arange(len(rates), dtype=rates.dtype, device=rates.device)
            slowed = ((pairs - first) / (last - first)).clamp(0, 1)
            return slowed * rates / self.factor + (1 - slowed) * rates

        def _pair_of(self, turns: float, width: int, base: float) -> float:
            """The number of the pair that turns so often in a text before scaling."""
            return width * math.log(self.length / (turns * TURN)) / (2 * math.log(base))
