"""Numbers that a forward pass tells of itself: means that can still be added up."""

from typing import NamedTuple

import torch
from torch import Tensor


class Mean(NamedTuple):
    """total / over, not divided yet, so that the means of a batch's pieces, of steps and of processes can be joined."""

    total: Tensor  # any shape
    over: Tensor  # ()

    def value(self) -> float | list[float]:
        """Asks the device. NaN where nothing was counted."""
        mean: float | list[float] = (self.total.double() / self.over.double()).tolist()
        return mean


Statistics = dict[str, Mean]


def added(one: Statistics, other: Statistics) -> Statistics:
    """The statistics of both; what only one of them knows stays as it is."""
    sums = dict(one)
    for name, mean in other.items():
        known = sums.get(name)
        sums[name] = mean if known is None else Mean(known.total + mean.total, known.over + mean.over)
    return sums


def kept(statistics: Statistics, keep: Tensor) -> Statistics:
    """The same where `keep` () is true, and nothing otherwise, even of what is no number. Does not ask the device."""
    return {
        name: Mean(torch.where(keep, mean.total, 0), torch.where(keep, mean.over, 0))
        for name, mean in statistics.items()
    }
