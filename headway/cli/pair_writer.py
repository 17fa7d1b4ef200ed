"""A file of pairs that a model makes and that grows for hours: the loop, its meter, and what is told at the end."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headway.cli.progress import clock, columns
from headway.cli.terminal import log, opened, shows_progress
from headway.text.numbers import keeps_digits

if TYPE_CHECKING:
    from headway.files.resumable import Begin, Counts
    from headway.translate.translator import Translator
    from headway.workflows.back_translation import Pair, Reason, Standards, Way

LIVE_EVERY, LOG_EVERY = 0.5, 30.0  # seconds
TOKENS_A_LINE = 8  # low, so that a group fills several batches of like lengths


class Growing(NamedTuple):
    """How a file begins, and when it is left as it is for another time."""

    resume: bool
    overwrite: bool
    options: dict[str, Any]  # that must be the same to go on
    seconds: float = math.inf


def is_complete(out: str | None) -> bool:
    """Whether nothing is left to do, which is told."""
    done = bool(out) and Path(str(out)).exists() and not Path(f"{out}.partial").exists()
    if done:
        log(f"{out} is complete: nothing is left to do")
    return done


def given_options(may_differ: Sequence[str]) -> dict[str, Any]:
    """What must be the same for a run to go on, by the names of the options."""
    context = click.get_current_context()
    return {
        max(parameter.opts, key=len): context.params[parameter.name]
        for parameter in context.command.params
        if parameter.name in context.params and parameter.name not in may_differ
    }


def refuse_for_file(given: Sequence[str], out: str | None, resume: bool, overwrite: bool) -> None:
    """What does not go together, whatever is made of the files that are given."""
    context = click.get_current_context()
    if resume and overwrite:
        raise click.UsageError("--resume goes on and --overwrite starts anew: choose one.", context)
    if "-" in given and sys.stdin is None:
        raise click.UsageError("standard input is closed: give a file to --text.", context)
    if out and Path(out).resolve() in [Path(path).resolve() for path in given]:
        raise click.UsageError("--out is one of the files that are read: name another.", context)


def standards_for(
    translator: "Translator", to: str, min_score: float | None, length_ratio: float, longest: int | None
) -> "Standards":
    """What is dropped, as the options say."""
    from headway.workflows.back_translation import Standards

    room = translator.outline.longest - len(translator.tag(to)) - 1
    return Standards(
        longest=min(longest or room, room),
        least_score=-math.inf if min_score is None else min_score,
        most_ratio=length_ratio,
        numbers=keeps_digits(translator.outline.languages),
    )


def grow(
    lines: Iterator[str], way: "Way", out: str | None, how: Growing, at_once: int,
    written: "Callable[[Sequence[Pair | Reason], str], str]",
) -> None:  # fmt: skip
    """Group after group to `out`, or to standard output."""
    from headway.files.resumable import GrowingFile
    from headway.workflows.back_translation import augment, no_counts

    begin: Begin = "overwrite" if how.overwrite else "resume" if how.resume else "new"
    file = GrowingFile(Path(out), begin, how.options, no_counts()) if out else None
    counts = file.counts if file else no_counts()
    meter = Meter(counts["lines"])
    with file or nullcontext(), opened(None) as stdout:
        try:
            for found, so_far in augment(lines, way, counts, at_once):
                text = written(found, out or "")
                if file:
                    file.add(text, so_far)
                else:
                    stdout.write(text)
                    stdout.flush()
                meter.tell(so_far)
                counts = so_far
                if time.monotonic() - meter.begun > how.seconds:
                    break
            else:
                how = how._replace(seconds=math.inf)
        except (KeyboardInterrupt, SystemExit):
            meter.clear()
            if file:
                log(f"the same command with --resume goes on after line {file.counts['lines']:,}")
            raise
        meter.clear()
        if file and how.seconds == math.inf:
            file.finish()
        elif file:
            log(f"the time is over: the same command with --resume goes on after line {file.counts['lines']:,}")
            return
    tell(counts, out)


class Meter:
    """How far it is: a live line on a terminal, a line now and then elsewhere."""

    def __init__(self, done: int) -> None:
        self.before = done
        self.begun = self.told = time.monotonic()
        self.live = shows_progress()

    def tell(self, counts: "Counts") -> None:
        now = time.monotonic()
        if now - self.told < (LIVE_EVERY if self.live else LOG_EVERY):
            return
        self.told = now
        rate = (counts["lines"] - self.before) / (now - self.begun)
        line = f"{counts['lines']:,} lines  {counts['pairs']:,} pairs  {rate:.1f} lines/s  {clock(now - self.begun)}"
        if self.live:
            sys.stderr.write(f"\r\x1b[2K{line[: columns() - 1]}")
            sys.stderr.flush()
        else:
            log(line)

    def clear(self) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def tell(counts: "Counts", out: str | None) -> None:
    """What became of the lines."""
    from headway.workflows.back_translation import REASONS

    log(f"{counts['lines']:,} lines, {counts['pairs']:,} pairs{f' in {out}' if out else ''}")
    left_out = [f"{counts[reason]:,} {told}" for reason, told in REASONS.items() if counts[reason]]
    if left_out:
        log("left out: " + ", ".join(left_out))
    if not counts["pairs"]:
        log("there is not one pair: is this the model that translates from the language of the text?", "warning")
