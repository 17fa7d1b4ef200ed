"""What training shows: a live line on a terminal, plain lines elsewhere, a summary at the end."""

import os
import sys
import time
from typing import TYPE_CHECKING

from headway.cli.terminal import log, shows_progress, sparkline

if TYPE_CHECKING:
    from headway.config.config import Config
    from headway.train.progress import Moment
    from headway.train.run import Outcome
    from headway.train.validation import Validation


LIVE_EVERY = 0.5  # seconds


def columns() -> int:
    """How wide the terminal behind stderr is; stdout may be a file."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def clock(seconds: float) -> str:
    """75 -> 1:15, 3700 -> 1:01:40"""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def size(count: float) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def short(number: float) -> str:
    return f"{number / 1e6:.2f}M" if number >= 1e6 else f"{number / 1e3:.1f}k" if number >= 1e3 else f"{number:.0f}"


class TrainingProgress:
    """Prints as a Watcher of training."""

    def __init__(self, config: "Config") -> None:
        self.config = config
        self.live = shows_progress()
        self.valid = ""
        self.drawn = 0.0  # when the live line was

    def due(self) -> bool:
        return self.live and time.monotonic() - self.drawn > LIVE_EVERY

    def note(self, message: str) -> None:
        self.clear()
        log(message)

    def step(self, moment: "Moment") -> None:
        left = moment.seconds / moment.done - moment.seconds if moment.done else 0.0
        if self.live:
            sys.stderr.write(f"\r\x1b[2K{self._line(moment, left)}")
            sys.stderr.flush()
            self.drawn = time.monotonic()
            return
        log(
            f"step={moment.step} loss={moment.loss:.4f}{_told(moment)} rate={moment.rate:.3g} tok/s={moment.tokens_per_second:.0f} "
            f"memory={size(moment.memory).replace(' ', '')} epoch={moment.epoch} "
            f"elapsed={clock(moment.seconds)} eta={clock(left)}"
        )

    def _line(self, moment: "Moment", left: float) -> str:
        """As much as fits the terminal; what is wanted least goes first."""
        steps = f"/{self.config.train.steps:,}" if self.config.train.steps else ""
        parts = {
            "step": f"step {moment.step:,}{steps}",
            "loss": f"loss {moment.loss:.3f}",
            "valid": self.valid,
            "rate": f"rate {moment.rate:.2g}",
            "speed": f"{short(moment.tokens_per_second)} tok/s",
            "memory": size(moment.memory),
            "left": f"ETA {clock(left)}",
        }
        for name in ("", "memory", "rate", "speed", "valid", "left", "loss"):
            parts.pop(name, None)
            line = "  ".join(part for part in parts.values() if part)
            if len(line) < columns():
                break
        return line[: columns() - 1]

    def validated(self, step: int, result: "Validation", best: bool) -> None:
        self.valid = f"valid {result.loss:.3f}"
        scores = "" if result.bleu is None else f" bleu={result.bleu:.2f} chrf={result.chrf:.2f}"
        self.clear()
        log(f"step={step} valid_loss={result.loss:.4f} perplexity={result.perplexity:.2f}{scores}{' best' * best}")

    def clear(self) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _told(moment: "Moment") -> str:
    """What makes up the loss; and of the experts, where a layer has some, how much goes to the busiest of all."""
    parts = [f" {name}={value:.4f}" for name, value in moment.statistics.items() if isinstance(value, float)]
    loads = [max(value) for value in moment.statistics.values() if isinstance(value, list)]
    return "".join(parts) + (f" busiest={max(loads):.3f}" if loads else "")


def summary(outcome: "Outcome", config: "Config") -> None:
    """At the end: a table, the curve, and what to type next."""
    from headway.train.history import read_history
    from headway.train.model_card import command_for

    curve = [entry["loss"] for entry in read_history(outcome.folder) if entry["kind"] == "validation"]
    result = outcome.result
    rows = [
        ("model", str(outcome.folder)),
        ("weights", outcome.chosen),
        ("steps, time", f"{outcome.step:,}, {clock(outcome.seconds)}"),
        ("validation", f"loss {result.loss:.4f}, perplexity {result.perplexity:.2f}"),
    ]
    if result.bleu is not None:
        rows.append(("", f"BLEU {result.bleu:.2f}, chrF {result.chrf:.2f} (greedy)"))
    if len(curve) > 1:
        rows.append(("validation loss", f"{curve[0]:.3f} {sparkline(curve, 32)} {curve[-1]:.3f}"))
    for name, value in rows:
        log(f"{name:16} {value}")
    log(f"next: {command_for(config, outcome.folder)}")
