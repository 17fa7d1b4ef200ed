"""What the verbs print with: messages on stderr, colour only where it is wanted, tables, sparklines.

Results go to stdout, everything else to stderr; a stream that is not a terminal never gets \\r or ESC."""

import io
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console

Level = Literal["internal error", "error", "warning", "info", "detail"]
Depth = Literal["standard", "256", "truecolor"]

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = ".:-=+*#@"
SEPARATORS = str.maketrans("\t\n\r", "   ")
LABEL_COLOURS = {"internal error": "red", "error": "red", "warning": "yellow"}
SHOWN_FROM = {"info": 0, "detail": 1}


@dataclass
class Settings:
    """The global options, as given on this command line."""

    color: str = "auto"
    verbosity: int = 0
    log_format: str = "text"
    debug: bool = False


settings = Settings()


def reset() -> None:
    """Back to the defaults: one process may run several command lines, as the tests do."""
    vars(settings).update(vars(Settings()))


def is_watched(stream: TextIO) -> bool:
    """Whether a person sees this stream on a terminal that can redraw a line."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def wants_colour(stream: TextIO) -> bool:
    """--color first, then NO_COLOR, then FORCE_COLOR, then whether somebody watches."""
    if settings.color != "auto":
        return settings.color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_watched(stream)


def shows_progress() -> bool:
    """Whether a progress bar may be drawn on stderr."""
    return is_watched(sys.stderr) and settings.verbosity >= 0 and settings.log_format == "text"


def colour_depth(stream: TextIO) -> Depth | None:
    """How many colours this stream takes; None for no colour at all."""
    if not wants_colour(stream):
        return None
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256" in os.environ.get("TERM", "") else "standard"


def console(stream: TextIO | None = None) -> "Console":
    """A rich console on stderr, or on `stream`, that follows the policy above instead of rich's own."""
    from rich.console import Console

    stream = stream or sys.stderr
    return Console(
        file=stream,
        color_system=colour_depth(stream),
        force_terminal=stream.isatty(),
        force_interactive=is_watched(stream),
        highlight=False,
    )


def log(message: str, level: Level = "info", **fields: Any) -> None:
    """One line on stderr. -q hides "info"; only -v shows "detail"; errors and warnings are always shown."""
    if settings.verbosity < SHOWN_FROM.get(level, -1):
        return
    if settings.log_format == "json":
        entry = {"time": round(time.time(), 3), "level": level, "message": message, **fields}
        line = json.dumps(entry, ensure_ascii=False, default=str)
    else:
        words = [message, *(f"{name}={value}" for name, value in fields.items())]
        line = " ".join(word for word in words if word)
        if level in LABEL_COLOURS:
            label = f"{level}:"
            if wants_colour(sys.stderr):
                label = click.style(label, fg=LABEL_COLOURS[level], bold=True)
            line = f"{label} {line}"
    # A message may quote what the user gave, and a terminal's encoding need not have it.
    encoding = sys.stderr.encoding or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


@contextmanager
def opened(output: str | None) -> Iterator[TextIO]:
    """A file, packed as its name says, or standard output: UTF-8 like the input, whatever the locale says."""
    if output and output.endswith((".gz", ".xz", ".zst")):
        from headway.data.check.write_clean import packing

        with (
            open(output, "wb") as whole,
            packing(whole, os.path.splitext(output)[1]) as packed,
            io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
        ):
            yield text
        return
    if output:
        with open(output, "w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = sys.stdout.encoding if sys.stdout.isatty() else "utf-8"
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace", newline="\n")
    yield sys.stdout


def can_print(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def sparkline(values: Sequence[float], width: int = 40, stream: TextIO | None = None) -> str:
    """The course of some numbers in one line of at most `width` characters, "▇▅▃▂▁▁". NaN leaves a gap."""
    blocks = BLOCKS if can_print(BLOCKS, stream or sys.stderr) else ASCII_BLOCKS
    columns = min(width, len(values))
    cuts = [column * len(values) // columns for column in range(columns)] + [len(values)]
    finite = [[x for x in values[start:stop] if math.isfinite(x)] for start, stop in pairwise(cuts)]
    means = [sum(part) / len(part) if part else math.nan for part in finite]
    low = min((mean for mean in means if mean == mean), default=0.0)
    high = max((mean for mean in means if mean == mean), default=0.0)
    step = (high - low) / (len(blocks) - 1) or 1.0
    return "".join(" " if mean != mean else blocks[round((mean - low) / step)] for mean in means)


def table(header: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """A table of results on stdout: drawn where somebody watches, otherwise plain TSV with nothing cut."""
    if not is_watched(sys.stdout):
        for row in [header, *rows]:
            print("\t".join(str(cell).translate(SEPARATORS) for cell in row))
        return
    from rich.markup import escape
    from rich.table import Table

    drawn = Table(title=title, title_justify="left", header_style="bold")
    for index, name in enumerate(header):
        numeric = all(isinstance(row[index], int | float) for row in rows)
        drawn.add_column(escape(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(escape(str(cell)) for cell in row))
    console(sys.stdout).print(drawn)
