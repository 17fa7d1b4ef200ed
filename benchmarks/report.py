"""Tables of benchmark results: printed for a terminal of 80 columns, or appended to a Markdown file with the
command."""

import datetime
import importlib.metadata
import platform
import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path


class Table:
    """Each row is also printed to stderr as it is added. A row of one cell says why it has no numbers."""

    def __init__(self, title: str, columns: Sequence[str]) -> None:
        self.title, self.columns, self.rows = title, list(columns), dict[str, list[str]]()

    def add(self, name: str, cells: list[str]) -> None:
        self.rows[name] = cells
        parts = [f"{column} {cell}" for column, cell in zip(self.columns, cells)] if len(cells) > 1 else cells
        print(f"  {name}: {', '.join(parts)}", file=sys.stderr, flush=True)

    def format_text(self) -> str:
        full = [cells for cells in self.rows.values() if len(cells) > 1]
        widths = [max(map(len, column)) for column in zip(self.columns, *full)]
        name_width = max(80 - sum(widths) - 2 * len(widths), 0)
        lines = ["", wrap_text(self.title), " " * name_width + _line(self.columns, widths)]
        for name, cells in self.rows.items():
            if len(cells) == 1:
                lines += [name, f"  {cells[0]}"[:80]]
            elif len(name) > name_width:
                lines += [name, " " * name_width + _line(cells, widths)]
            else:
                lines.append(f"{name:{name_width}}{_line(cells, widths)}")
        return "\n".join(lines)

    def format_markdown(self) -> str:
        rows = [[self.title, *self.columns], ["---"] * (1 + len(self.columns))]
        rows += [[name, *cells, *[""] * (len(self.columns) - len(cells))] for name, cells in self.rows.items()]
        return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths))


def versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in ("torch", "triton", "transformers"):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


def wrap_text(text: str) -> str:
    return textwrap.fill(text, 80)


def append_section(results: Path, title: str, facts: str, tables: Sequence[Table]) -> None:
    """Append a section to a Markdown file: facts, the command, the tables. Absolute paths become names."""
    arguments = [Path(text).name if Path(text).is_absolute() else text for text in sys.argv]
    command = f"```\npython benchmarks/{shlex.join(arguments).removeprefix('benchmarks/')}\n```"
    parts = [f"## {title} ({datetime.date.today()})", facts, command, *(table.format_markdown() for table in tables)]
    with results.open("a", encoding="utf-8") as file:
        file.write("\n" + "\n\n".join(parts) + "\n")
