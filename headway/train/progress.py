"""Progress of a run: running loss, snapshots, and the listener that shows them."""

import math
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from headway.config.config import Config
from headway.nn.statistics import LayerStatistics, PartialMean, merge_statistics, zero_unless
from headway.train.distributed import ProcessGroup
from headway.train.history import to_json_number
from headway.train.loss import LossOutput
from headway.train.validation import ValidationResult

FIRST_REPORT_SECONDS = 3.0
MAX_QUIET_SECONDS = 60.0


class ProgressSnapshot(NamedTuple):
    """How far a run has come."""

    step: int
    epoch: int
    loss: float
    learning_rate: float
    tokens_per_second: float
    seconds: float
    done: float  # share of the budget that is spent, 0 to 1
    memory: int  # peak, in bytes
    statistics: Mapping[str, float | list[float]] = {}  # the terms of the loss, and what layers report

    def report(self, gradient: float, skipped: int) -> dict[str, Any]:
        """What history.jsonl has of it, with the norm of the gradient and the steps skipped so far."""
        values: dict[str, Any] = {
            "loss": to_json_number(self.loss),
            "gradient": to_json_number(gradient),
            "rate": self.learning_rate,
            "tokens_per_second": round(self.tokens_per_second),
            "skipped": skipped or None,
        }
        return values | {name: to_json_number(value) for name, value in self.statistics.items()}


class ProgressListener(Protocol):
    """Shows or records progress: on a terminal, in a test."""

    def on_note(self, message: str) -> None: ...
    def on_warning(self, message: str) -> None: ...
    def on_begin(self, config: Config) -> None: ...  # before the first step
    def wants_update(self) -> bool: ...  # whether to call on_step between two regular reports
    def on_step(self, snapshot: ProgressSnapshot) -> None: ...
    def on_validation(self, step: int, result: ValidationResult, best: bool) -> None: ...


class ReportClock:
    """When a line of a log is due although few steps were taken: soon after the start, so that nobody wonders whether
    anything happens, and then at least every minute."""

    def __init__(self) -> None:
        self.reported_at = time.monotonic()
        self.reports = 0

    def add_report(self) -> None:
        self.reported_at = time.monotonic()
        self.reports += 1

    def is_due(self) -> bool:
        wait = MAX_QUIET_SECONDS if self.reports else FIRST_REPORT_SECONDS
        return time.monotonic() - self.reported_at >= wait


class SilentProgress:
    """Shows nothing."""

    def on_note(self, message: str) -> None: ...

    def on_warning(self, message: str) -> None: ...

    def on_begin(self, config: Config) -> None: ...

    def wants_update(self) -> bool:
        return False

    def on_step(self, snapshot: ProgressSnapshot) -> None: ...

    def on_validation(self, step: int, result: ValidationResult, best: bool) -> None: ...


class PlainProgress(SilentProgress):
    """One line a report, on stderr."""

    def __init__(self) -> None:
        self.clock = ReportClock()

    def on_begin(self, config: Config) -> None:
        self.clock = ReportClock()

    def wants_update(self) -> bool:
        return self.clock.is_due()

    def on_note(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def on_warning(self, message: str) -> None:
        self.on_note(f"warning: {message}")

    def on_step(self, snapshot: ProgressSnapshot) -> None:
        self.clock.add_report()
        self.on_note(
            f"step {snapshot.step:,}  loss {snapshot.loss:.4f}  rate {snapshot.learning_rate:.3g}  "
            f"{snapshot.tokens_per_second:,.0f} tokens/s  {snapshot.done:.0%}"
        )

    def on_validation(self, step: int, result: ValidationResult, best: bool) -> None:
        scores = "" if result.bleu is None else f"  BLEU {result.bleu:.2f}  chrF {result.chrf:.2f}"
        scores += "".join(f"  {name.replace('_', ' ')} {value:.1%}" for name, value in result.accuracies.items())
        scores += "".join(f"  {name} {value:.4f}" for name, value in (result.task or {}).items())
        self.on_note(f"step {step:,}  validation loss {result.loss:.4f}{scores}{'  best' * best}")


class RunningLoss:
    """Losses, statistics and tokens since the last report. They stay on the device until they are read."""

    def __init__(self, device: torch.device) -> None:
        self.losses: dict[str, Tensor] = {}  # sums over the steps taken, of "loss" and its parts
        self.taken = torch.zeros((), device=device)  # steps that were not skipped
        self.statistics = LayerStatistics()  # of these steps
        self.steps = 0
        self.tokens = 0
        self.started = time.monotonic()

    def add(self, output: LossOutput, finite: Tensor, tokens: int) -> None:
        for name, loss in {"loss": output.loss, **output.parts}.items():
            self.losses[name] = self.losses.get(name, 0) + torch.where(finite, loss, 0.0)
        self.statistics = merge_statistics(self.statistics, zero_unless(output.statistics, finite))
        self.taken += finite
        self.steps += 1
        self.tokens += tokens

    def exclude_time(self, seconds: float) -> None:
        """Do not count time spent on something else, such as validation, in tokens per second."""
        self.started += seconds

    def reduce(self, group: ProcessGroup) -> "RunningLoss":
        """Sum over all processes: each has its share of the loss, and all take the same steps."""
        if group.size > 1:
            self.losses = dict(zip(self.losses, group.sum(torch.stack(list(self.losses.values())))))
            self.tokens = int(group.sum(torch.tensor(self.tokens)))
            self.statistics = _sum_statistics(self.statistics, group)
        return self

    @property
    def loss(self) -> float:
        return float(self.losses["loss"]) / float(self.taken) if float(self.taken) else math.nan

    @property
    def means(self) -> dict[str, float | list[float]]:
        """Of the terms of the loss, and of the statistics of layers."""
        if not float(self.taken):
            return {}
        parts = {name: float(total) / float(self.taken) for name, total in self.losses.items() if name != "loss"}
        return parts | {name: mean.value() for name, mean in self.statistics.items() if float(mean.weight)}

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / max(time.monotonic() - self.started, 1e-9)


def _sum_statistics(statistics: LayerStatistics, group: ProcessGroup) -> LayerStatistics:
    """Over all processes, which have the same names, in one message."""
    numbers = [number for mean in statistics.values() for number in mean]
    if not numbers:
        return statistics
    sums = group.sum(torch.cat([number.double().flatten() for number in numbers]))
    parts = iter(torch.split(sums, [number.numel() for number in numbers]))
    return {name: PartialMean(next(parts).view_as(mean.total), next(parts)[0]) for name, mean in statistics.items()}


def peak_memory(device: torch.device) -> int:
    """The maximum used so far, in bytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
