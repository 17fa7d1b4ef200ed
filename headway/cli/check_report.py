"""The report of `headway check`: a table of findings, examples, and the next command."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.terminal import DEFAULT_COLUMNS, LiveLine, can_print, is_interactive, print_table, stdout_columns

if TYPE_CHECKING:
    from headway.data.check import CheckReport, MisalignedRun
    from headway.data.check.examples import FaultExample


class LiveCount:
    """A live line on stderr with the number of pairs checked so far."""

    def __init__(self) -> None:
        self.live = LiveLine()

    def __enter__(self) -> "LiveCount":
        return self

    def __exit__(self, *error: object) -> None:
        self.live.clear()

    def show(self, stage: str, done: int, total: int) -> None:
        self.live.draw(f"{stage} {done:,} of {total:,} pairs" if total else f"{stage} …")


def format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def format_share(share: float) -> str:
    if not share:
        return f"{0:>7}"
    return f"{share:>7.2%}" if share >= 0.00005 else " <0.01%"


def print_findings_table(report: "CheckReport", keep: Sequence[str]) -> None:
    """Print how often each fault was found; numbers are formatted on a terminal and plain in a pipe."""
    left_out = {kind.name: count for kind, count in report.removed(keep)}
    remaining = int(report.clean(keep).sum())
    rows = [(f.kind.title, f.pairs, f.share, left_out.get(f.kind.name, 0)) for f in report.findings()]
    rows.append(("pairs that remain", remaining, remaining / report.pairs, report.pairs - remaining))
    interactive = is_interactive(sys.stdout)
    count = "{:>12,}".format if interactive else "{}".format
    share = format_share if interactive else "{:.6f}".format
    cells = [(title, count(pairs), share(part), count(removed)) for title, pairs, part, removed in rows]
    print_table(("finding", "pairs", "share", "to leave out"), cells)


def print_findings(
    report: "CheckReport", examples: "Mapping[str, list[FaultExample]]", clean: Path | None, removed: int
) -> None:
    """Print what each finding means, with examples, and what was written to the clean file."""
    labels = [name or side for name, side in zip(report.languages, ("source", "target"))]
    width = max(map(len, labels))
    for finding in report.findings():
        kind = finding.kind
        if not examples[kind.name]:
            continue
        click.echo(f"\n{kind.title}: {kind.meaning}")
        for example in examples[kind.name]:
            detail = f" ({example.detail})" if example.detail else ""
            click.echo(fit_line(f"  {report.format_location(example.location)}{detail}"))
            for label, text in zip(labels, (example.source, example.target)):
                click.echo(fit_line(f"    {label:{width}}  {text}"))
        if kind.name == "misaligned" and report.runs:
            for line in describe_moved_runs(report, report.located_runs()):
                click.echo(fit_line(line))
    if clean:
        left = format_count(report.pairs - removed, "pair")
        were = "was" if removed == 1 else "were"
        click.echo(f"\n{clean} has {left}; {removed:,} {were} left out, as the table says.")
    elif not report.findings():
        click.echo("\nNothing was found.")
    if is_interactive(sys.stdout):
        click.echo()  # a log message follows: set it apart from the result


def describe_moved_runs(report: "CheckReport", runs: "Sequence[MisalignedRun]", max_runs: int = 5) -> list[str]:
    total = sum(run.last - run.first + 1 for run in runs)
    lines = [f"  {len(runs):,} run{'s' * (len(runs) > 1)} of moved lines, {total:,} lines in all:"]
    for run in runs[:max_runs]:
        moved = ""
        if run.offset:
            count = f"{abs(run.offset)} line{'s' * (abs(run.offset) > 1)}"
            moved = f"  the target is {count} {'late' if run.offset > 0 else 'early'}"
        lines.append(f"    lines {run.first:,}-{run.last:,}{report.of_file(run.corpus)}{moved}")
    return [*lines, "    …"] if len(runs) > max_runs else lines


def fit_line(line: str) -> str:
    """Truncate a line to the terminal's width, and escape what the terminal cannot print."""
    from rich.cells import cell_len, set_cell_size

    line = line.rstrip()
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    if not can_print(line, sys.stdout):
        line = line.encode(sys.stdout.encoding or "ascii", "backslashreplace").decode(sys.stdout.encoding or "ascii")
    width = stdout_columns() if is_interactive(sys.stdout) else DEFAULT_COLUMNS
    if cell_len(line) <= width:
        return line
    ellipsis = "…" if can_print("…", sys.stdout) else "..."
    return set_cell_size(line, width - len(ellipsis)).rstrip() + ellipsis


def suggest_next_command(report: "CheckReport", clean: Path | None, keep: Sequence[str], typed: Sequence[str]) -> str:
    """The command to run next: `--clean`, or training; "" if no pair remains."""
    from headway.data.parallel_files import languages_from_filename

    source, target = report.languages
    if not report.clean(keep).any():
        return ""
    if not clean and not report.clean().all():
        name = f"clean.{source}-{target}.tsv" if source and target else "clean.tsv"
        return shlex.join([*typed, "--clean", name])
    if clean:
        command = ["headway", "train", "--pairs", str(clean)]
        languages_unnamed = languages_from_filename(str(clean)) != (source, target)
    else:
        command = ["headway", "train"]
        languages_unnamed = False
        for files in report.corpora:
            sides = ["--source", files.source, "--target", files.target]
            command += sides if files.target else ["--pairs", files.source]
            languages_unnamed |= not files.target and languages_from_filename(files.source) != (source, target)
    if languages_unnamed and source and target:
        command += ["--from", source, "--to", target]
    return shlex.join([*command, "--out", "my-model"])
