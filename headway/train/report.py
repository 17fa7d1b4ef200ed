"""What a run tells of itself while it runs."""

import math
import time
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from headway.train.team import Team
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


class Watcher(Protocol):
    """Whoever wants to know: the terminal, a test, nobody."""

    def note(self, message: str) -> None: ...
    def due(self) -> bool: ...  # whether to be told of this step too, between two reports
    def step(self, moment: Moment) -> None: ...
    def validated(self, step: int, result: Validation, best: bool) -> None: ...


class Tally:
    """Losses and tokens since the last report. They stay on the device until somebody asks."""

    def __init__(self, device: torch.device) -> None:
        self.losses = torch.zeros((), device=device)  # of the steps that were taken
        self.taken = torch.zeros((), device=device)
        self.steps = self.tokens = 0
        self.began = time.monotonic()

    def add(self, loss: Tensor, finite: Tensor, tokens: int) -> None:
        self.losses += torch.where(finite, loss, 0.0)
        self.taken += finite
        self.steps += 1
        self.tokens += tokens

    def pause(self, seconds: float) -> None:
        """Time for something else does not count."""
        self.began += seconds

    def together(self, team: Team) -> "Tally":
        """Of all processes: each knows its share of the loss, and all take the same steps."""
        if team.size > 1:
            self.losses = team.sum(self.losses)
            self.tokens = int(team.sum(torch.tensor(self.tokens)))
        return self

    @property
    def loss(self) -> float:
        return float(self.losses) / float(self.taken) if float(self.taken) else math.nan

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / max(time.monotonic() - self.began, 1e-9)


def memory_of(device: torch.device) -> int:
    """The most that was used so far, in bytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
