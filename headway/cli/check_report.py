"""How the findings of `headway check` look: a table, examples under it, and what to type next."""

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.terminal import can_print, is_watched, shows_progress, table

if TYPE_CHECKING:
    from headway.data.check import MovedRun, Report
    from headway.data.check.examples import Example


class Live:
    """One line on stderr that says how far the work is, where somebody watches."""

    def __init__(self) -> None:
        self.live = shows_progress()

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    def show(self, what: str, done: int, total: int) -> None:
        if self.live:
            far = f" {done:,} of {total:,} pairs" if total else " …"
            sys.stderr.write(f"\r\x1b[2K{what}{far}")
            sys.stderr.flush()


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def percent(share: float) -> str:
    if not share:
        return f"{0:>7}"
    return f"{share:>7.2%}" if share >= 0.00005 else " <0.01%"


def as_table(report: "Report", keep: Sequence[str]) -> None:
    """How much was found. Numbers are grouped and aligned for people, and plain for programs."""
    left_out = {kind.name: count for kind, count in report.removed(keep)}
    good = int(report.clean(keep).sum())
    rows = [(f.kind.title, f.pairs, f.share, left_out.get(f.kind.name, 0)) for f in report.findings()]
    rows.append(("pairs that remain", good, good / report.pairs, report.pairs - good))
    watched = is_watched(sys.stdout)
    count = "{:>12,}".format if watched else "{}".format
    share = percent if watched else "{:.6f}".format
    cells = [(title, count(pairs), share(part), count(gone)) for title, pairs, part, gone in rows]
    table(("finding", "pairs", "share", "to leave out"), cells)


def as_text(report: "Report", examples: "Mapping[str, list[Example]]", clean: Path | None, gone: int) -> None:
    """What each finding means, with its examples, and what was written."""
    labels = [name or side for name, side in zip(report.languages, ("source", "target"))]
    width = max(map(len, labels))
    for finding in report.findings():
        kind = finding.kind
        if not examples[kind.name]:
            continue
        click.echo(f"\n{kind.title}: {kind.meaning}")
        for example in examples[kind.name]:
            detail = f" ({example.detail})" if example.detail else ""
            click.echo(fitted(f"  {report.name(example.place)}{detail}"))
            for label, text in zip(labels, (example.source, example.target)):
                click.echo(fitted(f"    {label:{width}}  {text}"))
        if kind.name == "misaligned" and report.runs:
            for line in lines_about_runs(report, report.runs):
                click.echo(fitted(line))
    if clean:
        left = counted(report.pairs - gone, "pair")
        click.echo(f"\n{clean} has {left}; {gone:,} {'was' if gone == 1 else 'were'} left out, as the table says.")
    elif not report.findings():
        click.echo("\nNothing was found.")
    if is_watched(sys.stdout):
        click.echo()  # what follows is a message, and stands apart from the result


def lines_about_runs(report: "Report", runs: "Sequence[MovedRun]", most: int = 5) -> list[str]:
    total = sum(run.last - run.first + 1 for run in runs)
    lines = [f"  {len(runs):,} run{'s' * (len(runs) > 1)} of moved lines, {total:,} lines in all:"]
    for run in runs[:most]:
        moved = ""
        if run.offset:
            count = f"{abs(run.offset)} line{'s' * (abs(run.offset) > 1)}"
            moved = f"  the target is {count} {'late' if run.offset > 0 else 'early'}"
        lines.append(f"    lines {run.first:,}-{run.last:,}{report.of_file(run.corpus)}{moved}")
    return [*lines, "    …"] if len(runs) > most else lines


def fitted(line: str) -> str:
    """A line that neither breaks the terminal's width nor the terminal."""
    from rich.cells import cell_len, set_cell_size

    line = line.rstrip()
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    if not can_print(line, sys.stdout):
        line = line.encode(sys.stdout.encoding or "ascii", "backslashreplace").decode(sys.stdout.encoding or "ascii")
    width = shutil.get_terminal_size((80, 24)).columns if is_watched(sys.stdout) else 80
    if cell_len(line) <= width:
        return line
    mark = "…" if can_print("…", sys.stdout) else "..."
    return set_cell_size(line, width - len(mark)).rstrip() + mark


def next_command(report: "Report", clean: Path | None, keep: Sequence[str], typed: Sequence[str]) -> str:
    """What to do with what was found; "" where nothing is left to do anything with."""
    from headway.data.parallel_files import languages_of

    source, target = report.languages
    if not report.clean(keep).any():
        return ""
    if not clean and not report.clean().all():
        name = f"clean.{source}-{target}.tsv" if source and target else "clean.tsv"
        return shlex.join([*typed, "--clean", name])
    if clean:
        words = ["headway", "train", "--pairs", str(clean)]
        unnamed = languages_of(str(clean)) != (source, target)
    else:
        words, unnamed = ["headway", "train"], False
        for files in report.corpora:
            words += ["--source", files.source, "--target", files.target] if files.target else ["--pairs", files.source]
            unnamed |= not files.target and languages_of(files.source) != (source, target)
    if unnamed and source and target:
        words += ["--from", source, "--to", target]
    return shlex.join([*words, "--out", "my-model"])
