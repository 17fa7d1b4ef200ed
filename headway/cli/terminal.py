"""Terminal output for the verbs: log messages, colour, tables, a live progress line, sparklines.

Results go to stdout, everything else to stderr; a stream that is not a terminal never gets \\r or ESC."""

import io
import json
import math
import os
import shutil
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

LogLevel = Literal["internal error", "error", "warning", "info", "detail"]
ColourDepth = Literal["standard", "256", "truecolor"]

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = ".:-=+*#@"
DEFAULT_COLUMNS = 80
CLEAR_LINE = "\r\x1b[2K"
SEPARATORS = str.maketrans("\t\n\r", "   ")
LABEL_COLOURS = {"internal error": "red", "error": "red", "warning": "yellow"}
MIN_VERBOSITY = {"info": 0, "detail": 1}


@dataclass
class TerminalSettings:
    """The global options of the current command line."""

    color: str = "auto"
    verbosity: int = 0
    log_format: str = "text"
    debug: bool = False
    timestamps: bool = False  # at the beginning of each message, as a server's log needs them


settings = TerminalSettings()


def reset_settings() -> None:
    """Restore the defaults: one process may run several command lines, as the tests do."""
    vars(settings).update(vars(TerminalSettings()))


def is_interactive(stream: TextIO) -> bool:
    """Whether this stream is a terminal that can redraw a line."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def wants_colour(stream: TextIO) -> bool:
    """--color first, then NO_COLOR, then FORCE_COLOR, then whether the stream is a terminal."""
    if settings.color != "auto":
        return settings.color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_interactive(stream)


def shows_progress() -> bool:
    """Whether a live progress line may be drawn on stderr."""
    return is_interactive(sys.stderr) and settings.verbosity >= 0 and settings.log_format == "text"


def stdout_columns() -> int:
    return shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns


def stderr_columns() -> int:
    """The width of the terminal behind stderr; stdout may be a file."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or DEFAULT_COLUMNS
    except (OSError, ValueError):
        return DEFAULT_COLUMNS


class LiveLine:
    """One line on stderr that is redrawn in place; disabled where `shows_progress` says so."""

    def __init__(self) -> None:
        self.enabled = shows_progress()

    def draw(self, text: str) -> None:
        if self.enabled:
            sys.stderr.write(f"{CLEAR_LINE}{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        self.draw("")


def colour_depth(stream: TextIO) -> ColourDepth | None:
    """How many colours this stream supports; None for no colour."""
    if not wants_colour(stream):
        return None
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256" in os.environ.get("TERM", "") else "standard"


def make_console(stream: TextIO | None = None) -> "Console":
    """A rich console on stderr, or on `stream`, with the colour policy of this module instead of rich's."""
    from rich.console import Console

    stream = stream or sys.stderr
    return Console(
        file=stream,
        color_system=colour_depth(stream),
        force_terminal=stream.isatty(),
        force_interactive=is_interactive(stream),
        highlight=False,
    )


def log(message: str, level: LogLevel = "info", **fields: Any) -> None:
    """One line on stderr. -q hides "info"; only -v shows "detail"; errors and warnings are always shown."""
    if settings.verbosity < MIN_VERBOSITY.get(level, -1):
        return
    if settings.log_format == "json":
        entry = {"time": round(time.time(), 3), "level": level, "message": message, **fields}
        line = json.dumps(entry, ensure_ascii=False, default=str)
    else:
        parts = [message, *(f"{name}={value}" for name, value in fields.items())]
        line = " ".join(part for part in parts if part)
        if level in LABEL_COLOURS:
            label = f"{level}:"
            if wants_colour(sys.stderr):
                label = click.style(label, fg=LABEL_COLOURS[level], bold=True)
            line = f"{label} {line}"
        if settings.timestamps:
            line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}"
    # A message may quote user input that the terminal's encoding cannot represent.
    encoding = sys.stderr.encoding or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


@contextmanager
def open_output(output: str | None) -> Iterator[TextIO]:
    """A file, compressed according to its suffix, or standard output; UTF-8 whatever the locale."""
    if output and output.endswith((".gz", ".bz2", ".xz", ".zst")):
        from headway.data.check.write_clean import open_compressor

        with (
            open(output, "wb") as binary,
            open_compressor(binary, os.path.splitext(output)[1]) as compressed,
            io.TextIOWrapper(compressed, encoding="utf-8", newline="\n") as text,
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
    """A curve in one line of at most `width` characters, such as "▇▅▃▂▁▁". NaN leaves a gap."""
    blocks = BLOCKS if can_print(BLOCKS, stream or sys.stderr) else ASCII_BLOCKS
    columns = min(width, len(values))
    cuts = [column * len(values) // columns for column in range(columns)] + [len(values)]
    groups = [[x for x in values[start:stop] if math.isfinite(x)] for start, stop in pairwise(cuts)]
    means = [sum(group) / len(group) if group else math.nan for group in groups]
    low = min((mean for mean in means if mean == mean), default=0.0)
    high = max((mean for mean in means if mean == mean), default=0.0)
    step = (high - low) / (len(blocks) - 1) or 1.0
    return "".join(" " if mean != mean else blocks[round((mean - low) / step)] for mean in means)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """Print a table on stdout: drawn on a terminal, otherwise plain TSV with nothing truncated."""
    if not is_interactive(sys.stdout):
        for row in [header, *rows]:
            print("\t".join(str(cell).translate(SEPARATORS) for cell in row))
        return
    from rich.markup import escape
    from rich.table import Table

    drawing = Table(title=title, title_justify="left", header_style="bold")
    for index, name in enumerate(header):
        numeric = all(isinstance(row[index], int | float) for row in rows)
        drawing.add_column(escape(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawing.add_row(*(escape(str(cell)) for cell in row))
    make_console(sys.stdout).print(drawing)
