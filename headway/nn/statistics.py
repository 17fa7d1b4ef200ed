"""Statistics reported by layers, kept as (sum, weight) so that they can be merged."""

from typing import NamedTuple

import torch
from torch import Tensor


class PartialMean(NamedTuple):
    """total / weight, not yet divided: means over micro-batches, steps and processes can still be merged."""

    total: Tensor  # any shape
    weight: Tensor  # ()

    def value(self) -> float | list[float]:
        """The mean, NaN if nothing was counted. Synchronises with the device."""
        mean: float | list[float] = (self.total.double() / self.weight.double()).tolist()
        return mean


LayerStatistics = dict[str, PartialMean]


def merge_statistics(one: LayerStatistics, other: LayerStatistics) -> LayerStatistics:
    """The statistics of both; a name that is in one of them only stays as it is."""
    sums = dict(one)
    for name, mean in other.items():
        known = sums.get(name)
        sums[name] = mean if known is None else PartialMean(known.total + mean.total, known.weight + mean.weight)
    return sums


def zero_unless(statistics: LayerStatistics, keep: Tensor) -> LayerStatistics:
    """The same where `keep` () is true, else zeros, even in place of NaN. No device sync."""
    return {
        name: PartialMean(torch.where(keep, mean.total, 0), torch.where(keep, mean.weight, 0))
        for name, mean in statistics.items()
    }
