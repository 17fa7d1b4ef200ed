"""The learning rate at each step, counted from 1. Each kind is a function of the step and of the whole run."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from headway.config.schema import Part, number
from headway.errors import ConfigError

LATEST = 0.9  # of a run; from there on a rate falls, even if the warm-up would take longer


class Run(NamedTuple):
    d_model: int
    steps: int  # in all, as far as is known; 0: not known
    done: float = 0.0  # share of what follows the warm-up, by a budget that is not counted in steps: epochs, time


class Noam:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        """d_model^-½ · min(step^-½, step · warmup^-1½), times a factor"""

        kind: str = "noam"
        warmup: int = number(4000, low=1)
        factor: float = number(1.0, low=0)

        def rate(self, step: int, run: Run) -> float:
            return float(self.factor * run.d_model**-0.5 * min(step**-0.5, step * self.warmup**-1.5))


class InverseSqrt:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "inverse_sqrt"
        peak: float = number(5e-4, low=0)
        warmup: int = number(4000, low=1)

        def rate(self, step: int, run: Run) -> float:
            return float(self.peak * min((self.warmup / step) ** 0.5, step / self.warmup))


class Cosine:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "cosine"
        peak: float = number(5e-4, low=0)
        warmup: int = number(1000, low=1)
        floor: float = number(0.0, low=0)

        def __post_init__(self) -> None:
            super().__post_init__()
            refuse_rising(self.peak, self.floor)

        def rate(self, step: int, run: Run) -> float:
            return self.floor + (self.peak - self.floor) * _rise(step, self.warmup) * _fall(step, self.warmup, run)


class Linear:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "linear"
        peak: float = number(5e-4, low=0)
        warmup: int = number(1000, low=1)
        floor: float = number(0.0, low=0)

        def __post_init__(self) -> None:
            super().__post_init__()
            refuse_rising(self.peak, self.floor)

        def rate(self, step: int, run: Run) -> float:
            left = 1 - _share(step, self.warmup, run)
            return self.floor + (self.peak - self.floor) * _rise(step, self.warmup) * left


class Constant:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "constant"
        peak: float = number(5e-4, low=0)
        warmup: int = number(1, low=1)

        def rate(self, step: int, run: Run) -> float:
            return self.peak * _rise(step, self.warmup)


def refuse_rising(peak: float, floor: float) -> None:
    if floor > peak:
        raise ConfigError(
            f"{floor:g} is above the peak, {peak:g}: the rate would rise at the end. Lower the one or raise the other.",
            "floor",
        )


def _rise(step: int, warmup: int) -> float:
    return min(1.0, step / warmup)


def after_warm_up(spent: float, warm: float, limit: float) -> float:
    """How much of what follows the warm-up is over, from 0 to 1."""
    warm = min(warm, LATEST * limit)
    return min(max((spent - warm) / (limit - warm), 0.0), 1.0)


def _share(step: int, warmup: int, run: Run) -> float:
    """The same by whichever budget ends first."""
    return max(after_warm_up(step, warmup, run.steps) if run.steps else 0.0, run.done)


def _fall(step: int, warmup: int, run: Run) -> float:
    return 0.5 * (1 + math.cos(math.pi * _share(step, warmup, run)))
