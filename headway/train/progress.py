"""What a run tells of itself while it runs."""

import math
import time
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from headway.nn.statistics import Mean, Statistics, added, kept
from headway.train.distributed import Team
from headway.train.loss import Told
from headway.train.validation import Validation


class Moment(NamedTuple):
    """How a run stands."""

    step: int
    epoch: int
    loss: float
    rate: float
    tokens_per_second: float
    seconds: float
    done: float  # share of the budget that is spent
    memory: int  # bytes
    statistics: Mapping[str, float | list[float]] = {}  # what makes up the loss, and what layers tell


class Watcher(Protocol):
    """Whoever wants to know: the terminal, a test, nobody."""

    def note(self, message: str) -> None: ...
    def due(self) -> bool: ...  # whether to be told of this step too, between two reports
    def step(self, moment: Moment) -> None: ...
    def validated(self, step: int, result: Validation, best: bool) -> None: ...


class Tally:
    """Losses, statistics and tokens since the last report. They stay on the device until somebody asks."""

    def __init__(self, device: torch.device) -> None:
        self.losses: dict[str, Tensor] = {}  # of the steps that were taken: "loss", and its parts
        self.taken = torch.zeros((), device=device)
        self.statistics = Statistics()  # of these steps
        self.steps = self.tokens = 0
        self.began = time.monotonic()

    def add(self, told: Told, finite: Tensor, tokens: int) -> None:
        for name, loss in {"loss": told.loss, **told.parts}.items():
            self.losses[name] = self.losses.get(name, 0) + torch.where(finite, loss, 0.0)
        self.statistics = added(self.statistics, kept(told.statistics, finite))
        self.taken += finite
        self.steps += 1
        self.tokens += tokens

    def pause(self, seconds: float) -> None:
        """Time for something else does not count."""
        self.began += seconds

    def together(self, team: Team) -> "Tally":
        """Of all processes: each knows its share of the loss, and all take the same steps."""
        if team.size > 1:
            self.losses = dict(zip(self.losses, team.sum(torch.stack(list(self.losses.values())))))
            self.tokens = int(team.sum(torch.tensor(self.tokens)))
            self.statistics = _summed(self.statistics, team)
        return self

    @property
    def loss(self) -> float:
        return float(self.losses["loss"]) / float(self.taken) if float(self.taken) else math.nan

    @property
    def means(self) -> dict[str, float | list[float]]:
        """Of the loss's parts, and of what layers told."""
        if not float(self.taken):
            return {}
        parts = {name: float(sum_) / float(self.taken) for name, sum_ in self.losses.items() if name != "loss"}
        return parts | {name: mean.value() for name, mean in self.statistics.items() if float(mean.over)}

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / max(time.monotonic() - self.began, 1e-9)


def _summed(statistics: Statistics, team: Team) -> Statistics:
    """Over all processes, which know the same names, in one message."""
    numbers = [number for mean in statistics.values() for number in mean]
    if not numbers:
        return statistics
    sums = team.sum(torch.cat([number.double().flatten() for number in numbers]))
    parts = iter(torch.split(sums, [number.numel() for number in numbers]))
    return {name: Mean(next(parts).view_as(mean.total), next(parts)[0]) for name, mean in statistics.items()}


def memory_of(device: torch.device) -> int:
    """The most that was used so far, in bytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
