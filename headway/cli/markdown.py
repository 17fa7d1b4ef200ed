"""A page of the documentation, as wide as whoever reads it has room for."""

import io
import re
import shutil
import sys
import textwrap

import click

from headway.cli.terminal import console, is_watched

NOT_PROSE = ("    ", "|", "#", "<!--")
LOOKS_LIKE_A_MARK = re.compile(r" (?=(?:[-+*#>=]+|\d+[.)]) )")  # at the start of a line it would become a list


def columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def show_page(text: str) -> None:
    """Rendered where somebody watches, else as Markdown."""
    if not is_watched(sys.stdout):
        click.echo(f"\n{narrowed(text, columns())}", nl=False)
        return
    from rich.markdown import Markdown

    console(sys.stdout).print(Markdown(text))


def narrowed(page: str, width: int) -> str:
    """Paragraphs, lists and tables in lines of `width`; code as it is."""
    lines: list[str] = []
    table: list[str] = []
    code = False
    for line in page.split("\n"):
        fence = line.lstrip().startswith("```")
        code ^= fence
        if line.startswith("|") and not code:
            table.append(line)
            continue
        lines += _table(table, width)
        table = []
        lines += [line] if code or fence else _prose(line, width)
    return "\n".join([*lines, *_table(table, width)])


def _prose(line: str, width: int) -> list[str]:
    if len(line) <= width or line.startswith(NOT_PROSE):
        return [line]
    mark = re.match(r" *(?:[-*] |\d+\. )?", line)
    indent = mark[0] if mark else ""
    bound = LOOKS_LIKE_A_MARK.sub("\0", line[len(indent) :])
    wrapped = textwrap.wrap(
        bound,
        width,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace("\0", " ") for part in wrapped]


def _table(lines: list[str], width: int) -> list[str]:
    """Where a row is too long, its cells go on below."""
    if all(len(line) <= width for line in lines):
        return lines
    from rich.box import MARKDOWN
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    header, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    table = Table(box=MARKDOWN)
    for name in header:
        table.add_column(escape(name), overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    drawn = io.StringIO()
    Console(file=drawn, width=width, color_system=None, highlight=False).print(table)
    return [line.strip() for line in drawn.getvalue().splitlines() if line.strip()]
