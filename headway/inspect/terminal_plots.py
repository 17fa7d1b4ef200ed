"""Pictures made of characters: attention, masks and positions in a terminal, with colours where it has them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.style import Style
from rich.text import Text

from headway.inspect.attention import Attended, label

SHADES = " .:-=+*#%@"
# From nothing to everything, readable on dark and on light: dark blue, teal, yellow.
RAMP = np.array([(24, 28, 66), (32, 96, 140), (40, 160, 140), (140, 205, 90), (253, 231, 60)], dtype=float)


def shade(value: float) -> str:
    """A character for a number from 0 to 1."""
    return SHADES[min(max(int(value * len(SHADES)), 0), len(SHADES) - 1)]


def colour(value: float) -> Style:
    """A background for a number from 0 to 1."""
    place = min(max(value, 0.0), 1.0) * (len(RAMP) - 1)
    low = min(int(place), len(RAMP) - 2)
    red, green, blue = RAMP[low] + (RAMP[low + 1] - RAMP[low]) * (place - low)
    return Style(bgcolor=Color.from_rgb(red, green, blue))


def cells(values: Iterable[float], wide: int, coloured: bool) -> Text:
    """One row. What is exactly 0, as where a mask hides a key, has no colour at all."""
    row = Text()
    for value in values:
        if coloured:
            row.append(" " * wide, colour(float(value)) if value else None)
        else:
            row.append(f"{shade(float(value)):>{wide}}")
    return row


def scale(low: float, high: float, coloured: bool) -> Text:
    steps = (np.arange(len(SHADES)) + 0.5) / len(SHADES)
    return Text.assemble(f"scale: {low:.3g} ", cells(steps, 1, coloured), f" {high:.3g}")


def heatmap(found: Attended, weights: Any, width: int, coloured: bool = False) -> Text:
    """One row a query, darker (or brighter, in colours) where it looks; keys are numbered and listed below."""
    names = [label(query) for query in found.queries]
    margin = min(max(map(cell_len, names)), 20, width // 3)
    shown = max(1, min(len(found.keys), (width - margin - 1) // 3))
    lines = [Text(" " * (margin + 1) + "".join(f"{number:>3}" for number in range(shown)))]
    lines += [
        Text.assemble(set_cell_size(name, margin), " ", cells(row[:shown], 3, coloured))
        for name, row in zip(names, weights)
    ]
    lines += _cut(len(found.keys), shown)
    lines += [Text(line) for line in _listed("keys:", [label(key) for key in found.keys[:shown]], width)]
    return Text("\n").join([*lines, scale(0.0, 1.0, coloured)])


def numbers(found: Attended, weights: Any, width: int) -> str:
    """The same with every weight written out, in blocks of as many keys as fit."""
    names = [label(query) for query in found.queries]
    margin = min(max(map(cell_len, names)), 20, width // 3)
    each = max(1, (width - margin) // 9)
    lines = []
    for start in range(0, len(found.keys), each):
        keys = [label(key) for key in found.keys[start : start + each]]
        heads = [" " * (9 - min(cell_len(key), 8)) + set_cell_size(key, min(cell_len(key), 8)) for key in keys]
        lines.append(" " * margin + "".join(heads))
        for name, row in zip(names, weights):
            lines.append(set_cell_size(name, margin) + "".join(f" {w:.6f}" for w in row[start : start + each]))
        lines.append("")
    return "\n".join(lines[:-1])


def mask_picture(allowed: np.ndarray, width: int, coloured: bool = False) -> Text:
    """Queries from top to bottom, keys from left to right: @ where looking is allowed."""
    values = np.where(allowed, 1.0, 0.0 if coloured else 0.15)
    return Text("\n").join(_grid(values, width, coloured, "query", "key"))


def table_picture(table: np.ndarray, width: int, rows: str, columns: str, coloured: bool = False) -> Text:
    """Any numbers, between the least and the greatest of them."""
    low, high = float(table.min()), float(table.max())
    shares = (table - low) / ((high - low) or 1.0)
    return Text("\n").join([*_grid(shares, width, coloured, rows, columns), scale(low, high, coloured)])


def _grid(values: np.ndarray, width: int, coloured: bool, rows: str, columns: str) -> list[Text]:
    margin = max(len(str(len(values) - 1)), len(rows))
    each = 2 if 2 * values.shape[1] + margin + 1 <= width else 1
    shown = max(1, min(values.shape[1], (width - margin - 1) // each))
    lines = [Text(f"{rows:>{margin}} {columns} 0 … {shown - 1}")]
    lines += [
        Text.assemble(f"{number:>{margin}} ", cells(row[:shown], each, coloured)) for number, row in enumerate(values)
    ]
    return [*lines, *_cut(values.shape[1], shown)]


def _cut(columns: int, shown: int) -> list[Text]:
    told = f"{columns - shown} of {columns} columns are not shown: draw all with --png FILE"
    return [Text(told)] if shown < columns else []


def _listed(title: str, names: Sequence[str], width: int) -> Iterator[str]:
    line = title
    for number, name in enumerate(names):
        entry = f" {number}:{name}"
        if cell_len(line + entry) > width:
            yield line
            line = " " * len(title)
        line += entry
    yield line
