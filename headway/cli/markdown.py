"""Print a page of the documentation, wrapped to the width of the terminal."""

import io
import re
import sys
import textwrap

import click

from headway.cli.terminal import is_interactive, make_console, stdout_columns

UNWRAPPED_PREFIXES = ("    ", "|", "#", "<!--")
SPACE_BEFORE_LIST_MARKER = re.compile(r" (?=(?:[-+*#>=]+|\d+[.)]) )")  # at the start of a line it would become a list


def print_markdown(text: str) -> None:
    """Rendered on a terminal, otherwise as Markdown."""
    if not is_interactive(sys.stdout):
        click.echo(f"\n{wrap_markdown(text, stdout_columns())}", nl=False)
        return
    from rich.markdown import Markdown

    make_console(sys.stdout).print(Markdown(text))


def wrap_markdown(page: str, width: int) -> str:
    """Wrap paragraphs, lists and tables at `width`; leave code unchanged."""
    lines: list[str] = []
    table: list[str] = []
    in_code = False
    for line in page.split("\n"):
        is_fence = line.lstrip().startswith("```")
        in_code ^= is_fence
        if line.startswith("|") and not in_code:
            table.append(line)
            continue
        lines += _wrap_table(table, width)
        table = []
        lines += [line] if in_code or is_fence else _wrap_prose(line, width)
    return "\n".join([*lines, *_wrap_table(table, width)])


def _wrap_prose(line: str, width: int) -> list[str]:
    if len(line) <= width or line.startswith(UNWRAPPED_PREFIXES):
        return [line]
    list_marker = re.match(r" *(?:[-*] |\d+\. )?", line)
    indent = list_marker[0] if list_marker else ""
    bound = SPACE_BEFORE_LIST_MARKER.sub("\0", line[len(indent) :])
    wrapped = textwrap.wrap(
        bound,
        width,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace("\0", " ") for part in wrapped]


def _wrap_table(lines: list[str], width: int) -> list[str]:
    """Fold the cells of rows that are too long."""
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
    output = io.StringIO()
    Console(file=output, width=width, color_system=None, highlight=False).print(table)
    return [line.strip() for line in output.getvalue().splitlines() if line.strip()]
