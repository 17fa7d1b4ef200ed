"""Training progress: a live line on a terminal, plain log lines elsewhere, a summary at the end."""

import time
from typing import TYPE_CHECKING

from headway.cli.terminal import LiveLine, log, sparkline, stderr_columns

if TYPE_CHECKING:
    from headway.config.config import Config
    from headway.train.progress import ProgressSnapshot, ReportClock
    from headway.train.result import TrainingResult
    from headway.train.validation import ValidationResult


LIVE_INTERVAL = 0.5  # seconds


def format_duration(seconds: float) -> str:
    """75 -> 1:15, 3700 -> 1:01:40"""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_bytes(count: float) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def format_quantity(number: float) -> str:
    return f"{number / 1e6:.2f}M" if number >= 1e6 else f"{number / 1e3:.1f}k" if number >= 1e3 else f"{number:.0f}"


class TrainingProgress:
    """Prints progress as a `ProgressListener` of training."""

    def __init__(self, config: "Config | None" = None) -> None:
        self.config = config  # known when the run begins
        self.live = LiveLine()
        self.validation = ""
        self.drawn_at = 0.0  # when the live line was last drawn
        self.clock: ReportClock | None = None  # of a log, from the beginning of the run on

    def wants_update(self) -> bool:
        if self.live.enabled:
            return time.monotonic() - self.drawn_at > LIVE_INTERVAL
        return self.clock is not None and self.clock.is_due()

    def on_note(self, message: str) -> None:
        self.clear()
        log(message)

    def on_warning(self, message: str) -> None:
        self.clear()
        log(message, "warning")

    def on_begin(self, config: "Config") -> None:
        from headway.train.progress import ReportClock

        self.config = config
        self.clock = ReportClock()

    def on_step(self, snapshot: "ProgressSnapshot") -> None:
        left = snapshot.seconds / snapshot.done - snapshot.seconds if snapshot.done else 0.0
        if self.live.enabled:
            self.live.draw(self._format_line(snapshot, left))
            self.drawn_at = time.monotonic()
            return
        if self.clock is not None:
            self.clock.add_report()
        log(
            f"step={snapshot.step} loss={snapshot.loss:.4f}{_format_statistics(snapshot)} "
            f"rate={snapshot.learning_rate:.3g} tok/s={snapshot.tokens_per_second:.0f} "
            f"memory={format_bytes(snapshot.memory).replace(' ', '')} epoch={snapshot.epoch} "
            f"elapsed={format_duration(snapshot.seconds)} eta={format_duration(left)}"
        )

    def _format_line(self, snapshot: "ProgressSnapshot", left: float) -> str:
        """As much as fits the terminal; the least important parts are dropped first."""
        budget = self.config.train.steps if self.config else 0
        steps = f"/{budget:,}" if budget else ""
        parts = {
            "step": f"step {snapshot.step:,}{steps}",
            "loss": f"loss {snapshot.loss:.3f}",
            "valid": self.validation,
            "rate": f"rate {snapshot.learning_rate:.2g}",
            "speed": f"{format_quantity(snapshot.tokens_per_second)} tok/s",
            "memory": format_bytes(snapshot.memory),
            "left": f"ETA {format_duration(left)}",
        }
        for name in ("", "memory", "rate", "speed", "valid", "left", "loss"):
            parts.pop(name, None)
            line = "  ".join(part for part in parts.values() if part)
            if len(line) < stderr_columns():
                break
        return line[: stderr_columns() - 1]

    def on_validation(self, step: int, result: "ValidationResult", best: bool) -> None:
        self.validation = f"valid {result.loss:.3f}"
        scores = "" if result.bleu is None else f" bleu={result.bleu:.2f} chrf={result.chrf:.2f}"
        scores += "" if result.lines is None else f" lines={result.lines}"
        if result.next_sentence_loss is not None:
            scores += f" next_sentence_loss={result.next_sentence_loss:.4f}"
        scores += "".join(f" {name}={value:.4f}" for name, value in result.accuracies.items())
        scores += "".join(f" {name}={value:.4f}" for name, value in (result.task or {}).items())
        perplexity = f" perplexity={result.perplexity:.2f}" if result.task is None else ""
        self.clear()
        log(f"step={step} valid_loss={result.loss:.4f}{perplexity}{scores}{' best' * best}")

    def clear(self) -> None:
        self.live.clear()


def _format_statistics(snapshot: "ProgressSnapshot") -> str:
    """The parts of the loss and, for mixture of experts, the load of the busiest expert."""
    parts = [f" {name}={value:.4f}" for name, value in snapshot.statistics.items() if isinstance(value, float)]
    loads = [max(value) for value in snapshot.statistics.values() if isinstance(value, list)]
    return "".join(parts) + (f" busiest={max(loads):.3f}" if loads else "")


def log_summary(outcome: "TrainingResult", config: "Config") -> None:
    """After training: a table, the validation curve, and the next command."""
    from headway.storage.registry import is_adapter
    from headway.train.history import read_history
    from headway.train.model_card import format_usage_command

    curve = [entry["loss"] for entry in read_history(outcome.folder) if entry["kind"] == "validation"]
    result = outcome.result
    rows = [
        ("model", str(outcome.folder)),
        ("weights", outcome.weights_origin),
        ("steps, time", f"{outcome.step:,}, {format_duration(outcome.seconds)}"),
        ("validation", f"loss {result.loss:.4f}" + f", perplexity {result.perplexity:.2f}" * (result.task is None)),
    ]
    if result.task is not None:
        rows.append(("", result.scores_line))
    if result.bleu is not None:
        rows.append(("", f"BLEU {result.bleu:.2f}, chrF {result.chrf:.2f} ({result.method})"))
    if result.accuracies:
        parts = (f"{name.replace('_', ' ')} {value:.1%}" for name, value in result.accuracies.items())
        rows.append(("", ", ".join(parts)))
    if len(curve) > 1:
        rows.append(("validation loss", f"{curve[0]:.3f} {sparkline(curve, 32)} {curve[-1]:.3f}"))
    for name, value in rows:
        log(f"{name:16} {value}")
    log(f"next: {format_usage_command(config, outcome.folder, is_adapter(outcome.folder))}")
