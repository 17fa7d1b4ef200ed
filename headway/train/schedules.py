"""Learning rate schedules: warm-up, then decay. Each is a function of the step, counted from 1, and of the run."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from headway.config.schema import Part, number
from headway.errors import ConfigError

LATEST_DECAY_START = 0.9  # share of a run at which decay begins at the latest, even if the warm-up is longer


class ScheduleContext(NamedTuple):
    d_model: int
    steps: int  # of the whole run; 0: unknown
    decay_share: float = 0.0  # how much of the time after the warm-up is over, by the budgets in epochs and seconds


class NoamSchedule:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        """d_model^-½ · min(step^-½, step · warmup^-1½), times a factor"""

        kind: str = "noam"
        warmup: int = number(4000, low=1)
        factor: float = number(1.0, low=0)

        def rate(self, step: int, run: ScheduleContext) -> float:
            return float(self.factor * run.d_model**-0.5 * min(step**-0.5, step * self.warmup**-1.5))


class InverseSqrtSchedule:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "inverse_sqrt"
        peak: float = number(5e-4, low=0)
        warmup: int = number(4000, low=1)

        def rate(self, step: int, run: ScheduleContext) -> float:
            return float(self.peak * min((self.warmup / step) ** 0.5, step / self.warmup))


class CosineSchedule:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "cosine"
        peak: float = number(5e-4, low=0)
        warmup: int = number(1000, low=1)
        floor: float = number(0.0, low=0)

        def __post_init__(self) -> None:
            super().__post_init__()
            refuse_floor_above_peak(self.peak, self.floor)

        def rate(self, step: int, run: ScheduleContext) -> float:
            factor = _warm_up_factor(step, self.warmup) * _cosine_factor(step, self.warmup, run)
            return self.floor + (self.peak - self.floor) * factor


class LinearSchedule:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "linear"
        peak: float = number(5e-4, low=0)
        warmup: int = number(1000, low=1)
        floor: float = number(0.0, low=0)

        def __post_init__(self) -> None:
            super().__post_init__()
            refuse_floor_above_peak(self.peak, self.floor)

        def rate(self, step: int, run: ScheduleContext) -> float:
            left = 1 - _decay_share(step, self.warmup, run)
            return self.floor + (self.peak - self.floor) * _warm_up_factor(step, self.warmup) * left


class ConstantSchedule:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "constant"
        peak: float = number(5e-4, low=0)
        warmup: int = number(1, low=1)

        def rate(self, step: int, run: ScheduleContext) -> float:
            return self.peak * _warm_up_factor(step, self.warmup)


def refuse_floor_above_peak(peak: float, floor: float) -> None:
    if floor > peak:
        raise ConfigError(
            f"{floor:g} is above the peak, {peak:g}. The learning rate must not rise at the end: lower the floor or "
            "raise the peak.",
            "floor",
        )


def _warm_up_factor(step: int, warmup: int) -> float:
    return min(1.0, step / warmup)


def share_after_warm_up(spent: float, warm_up: float, budget: float) -> float:
    """How much of the time after the warm-up is over, from 0 to 1."""
    warm_up = min(warm_up, LATEST_DECAY_START * budget)
    return min(max((spent - warm_up) / (budget - warm_up), 0.0), 1.0)


def _decay_share(step: int, warmup: int, run: ScheduleContext) -> float:
    """share_after_warm_up, by the budget that will end first."""
    return max(share_after_warm_up(step, warmup, run.steps) if run.steps else 0.0, run.decay_share)


def _cosine_factor(step: int, warmup: int, run: ScheduleContext) -> float:
    return 0.5 * (1 + math.cos(math.pi * _decay_share(step, warmup, run)))
