"""Write model-made pairs to a resumable file, for `augment` and `distil`: options, main loop, progress, summary."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headway.cli.help import GroupedOption
from headway.cli.progress import format_duration
from headway.cli.terminal import LiveLine, log, open_output, stderr_columns
from headway.text.numbers import share_number_format

if TYPE_CHECKING:
    from headway.files.resumable import Counts, StartMode
    from headway.translate.translator import Translator
    from headway.workflows.back_translation import PairFilter, PairMaker, RejectReason, SyntheticPair

LIVE_INTERVAL = 0.5  # seconds between updates on a terminal
LOG_INTERVAL = 30.0  # seconds between log lines elsewhere
TOKENS_PER_LINE = 8  # a low estimate, so that a group fills several batches of similar lengths


class PairFileOptions(NamedTuple):
    """How the output file is opened, and after how many seconds to stop."""

    resume: bool
    overwrite: bool
    options: dict[str, Any]  # those that must be the same to resume
    seconds: float = math.inf


def is_complete(out: str | None) -> bool:
    """Whether the output is complete already; if so, log it."""
    done = bool(out) and Path(str(out)).exists() and not Path(f"{out}.partial").exists()
    if done:
        log(f"{out} is complete: nothing to do")
    return done


def options_fixed_on_resume(changeable: Sequence[str]) -> dict[str, Any]:
    """The options that must be the same to resume, by name."""
    context = click.get_current_context()
    return {
        _recorded_name(parameter): context.params[parameter.name]
        for parameter in context.command.params
        if parameter.name in context.params and parameter.name not in changeable
    }


def _recorded_name(parameter: click.Parameter) -> str:
    """The option's first name if it was renamed, so that a file begun under that name can be resumed."""
    aliases = parameter.aliases if isinstance(parameter, GroupedOption) else ()
    return max(aliases or parameter.opts, key=len)


def check_files(given: Sequence[str], out: str | None, resume: bool, overwrite: bool) -> None:
    """Refuse options that exclude each other, and an output that is also an input."""
    context = click.get_current_context()
    if resume and overwrite:
        raise click.UsageError("--resume continues and --overwrite starts over: choose one.", context)
    if "-" in given and sys.stdin is None:
        raise click.UsageError("standard input is closed: give a file to --text.", context)
    if out and Path(out).resolve() in [Path(path).resolve() for path in given]:
        raise click.UsageError("--out is one of the input files: choose another file.", context)


def make_pair_filter(
    translator: "Translator", to: str, min_score: float | None, length_ratio: float, max_tokens: int | None
) -> "PairFilter":
    """The filter that the options describe; no line may be longer than the model can read."""
    from headway.workflows.back_translation import PairFilter

    model_limit = translator.summary.max_tokens - translator.direction_tokens(target=to).source_count
    return PairFilter(
        max_tokens=min(max_tokens or model_limit, model_limit),
        min_score=-math.inf if min_score is None else min_score,
        max_length_ratio=length_ratio,
        keep_numbers=share_number_format(translator.summary.languages),
    )


def write_pairs(
    lines: Iterator[str], pair_maker: "PairMaker", out: str | None, options: PairFileOptions, group_size: int,
    format_pairs: "Callable[[Sequence[SyntheticPair | RejectReason], str], str]",
) -> None:  # fmt: skip
    """Make pairs of `lines`, group by group, and write them to `out` or to standard output."""
    from headway.files.resumable import ResumableFile
    from headway.workflows.back_translation import initial_counts, make_pairs

    mode: StartMode = "overwrite" if options.overwrite else "resume" if options.resume else "new"
    file = ResumableFile(Path(out), mode, options.options, initial_counts()) if out else None
    counts = file.counts if file else initial_counts()
    progress = PairProgress(counts["lines"])
    timed_out = False
    with file or nullcontext(), open_output(None) as stdout:
        try:
            for pairs, new_counts in make_pairs(lines, pair_maker, counts, group_size):
                text = format_pairs(pairs, out or "")
                if file:
                    file.add(text, new_counts)
                else:
                    stdout.write(text)
                    stdout.flush()
                progress.update(new_counts)
                counts = new_counts
                if time.monotonic() - progress.started > options.seconds:
                    timed_out = True
                    break
        except (KeyboardInterrupt, SystemExit):
            progress.clear()
            if file:
                log(f"to continue after line {file.counts['lines']:,}, run the same command with --resume")
            raise
        progress.clear()
        if file and timed_out:
            log(f"time limit reached: to continue after line {file.counts['lines']:,}, run it again with --resume")
            return
        if file:
            file.finish()
    log_summary(counts, out)


class PairProgress:
    """Progress in lines and pairs: a live line on a terminal, a log line now and then elsewhere."""

    def __init__(self, done: int) -> None:
        self.resumed_lines = done
        self.started = self.updated = time.monotonic()
        self.live = LiveLine()

    def update(self, counts: "Counts") -> None:
        now = time.monotonic()
        if now - self.updated < (LIVE_INTERVAL if self.live.enabled else LOG_INTERVAL):
            return
        self.updated = now
        elapsed = now - self.started
        rate = (counts["lines"] - self.resumed_lines) / elapsed
        line = f"{counts['lines']:,} lines  {counts['pairs']:,} pairs  {rate:.1f} lines/s  {format_duration(elapsed)}"
        if self.live.enabled:
            self.live.draw(line[: stderr_columns() - 1])
        else:
            log(line)

    def clear(self) -> None:
        self.live.clear()


def log_summary(counts: "Counts", out: str | None) -> None:
    """Log how many pairs were made, and why lines were left out."""
    from headway.workflows.back_translation import REJECT_REASONS

    log(f"{counts['lines']:,} lines, {counts['pairs']:,} pairs{f' in {out}' if out else ''}")
    left_out = [f"{counts[reason]:,} {description}" for reason, description in REJECT_REASONS.items() if counts[reason]]
    if left_out:
        log("left out: " + ", ".join(left_out))
    if not counts["pairs"]:
        log("no pair was made: does this model translate from the language of the text?", "warning")
