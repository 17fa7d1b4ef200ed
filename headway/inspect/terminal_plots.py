"""Plots in the terminal: attention heatmaps, masks and positions as characters, or in colours where it has them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.style import Style
from rich.text import Text

from headway.inspect.attention import AttentionMap, format_token

SHADES = " .:-=+*#%@"
# From 0 to 1, readable on dark and on light backgrounds: dark blue, teal, yellow.
COLOUR_RAMP = np.array([(24, 28, 66), (32, 96, 140), (40, 160, 140), (140, 205, 90), (253, 231, 60)], dtype=float)


def shade_character(value: float) -> str:
    """The character for a number from 0 to 1."""
    return SHADES[min(max(int(value * len(SHADES)), 0), len(SHADES) - 1)]


def background_style(value: float) -> Style:
    """The background colour for a number from 0 to 1."""
    offset = min(max(value, 0.0), 1.0) * (len(COLOUR_RAMP) - 1)
    low = min(int(offset), len(COLOUR_RAMP) - 2)
    red, green, blue = COLOUR_RAMP[low] + (COLOUR_RAMP[low + 1] - COLOUR_RAMP[low]) * (offset - low)
    return Style(bgcolor=Color.from_rgb(red, green, blue))


def render_cells(values: Iterable[float], width: int, coloured: bool) -> Text:
    """One row. Exactly 0, as behind a mask, has no colour at all."""
    row = Text()
    for value in values:
        if coloured:
            row.append(" " * width, background_style(float(value)) if value else None)
        else:
            row.append(f"{shade_character(float(value)):>{width}}")
    return row


def render_scale(low: float, high: float, coloured: bool) -> Text:
    steps = (np.arange(len(SHADES)) + 0.5) / len(SHADES)
    return Text.assemble(f"scale: {low:.3g} ", render_cells(steps, 1, coloured), f" {high:.3g}")


def render_heatmap(attention: AttentionMap, weights: Any, width: int, coloured: bool = False) -> Text:
    """One row per query, darker (or brighter, in colours) for larger weights; keys are numbered and listed below."""
    names = [format_token(query) for query in attention.queries]
    margin = min(max(map(cell_len, names)), 20, width // 3)
    count = max(1, min(len(attention.keys), (width - margin - 1) // 3))
    lines = [Text(" " * (margin + 1) + "".join(f"{number:>3}" for number in range(count)))]
    lines += [
        Text.assemble(set_cell_size(name, margin), " ", render_cells(row[:count], 3, coloured))
        for name, row in zip(names, weights)
    ]
    lines += _note_hidden_columns(len(attention.keys), count)
    lines += [Text(line) for line in _wrap_names("keys:", [format_token(key) for key in attention.keys[:count]], width)]
    return Text("\n").join([*lines, render_scale(0.0, 1.0, coloured)])


def render_numbers(attention: AttentionMap, weights: Any, width: int) -> str:
    """Every weight as a number, in blocks of as many keys as fit."""
    names = [format_token(query) for query in attention.queries]
    margin = min(max(map(cell_len, names)), 20, width // 3)
    each = max(1, (width - margin) // 9)
    lines = []
    for start in range(0, len(attention.keys), each):
        keys = [format_token(key) for key in attention.keys[start : start + each]]
        headings = [" " * (9 - min(cell_len(key), 8)) + set_cell_size(key, min(cell_len(key), 8)) for key in keys]
        lines.append(" " * margin + "".join(headings))
        for name, row in zip(names, weights):
            lines.append(set_cell_size(name, margin) + "".join(f" {w:.6f}" for w in row[start : start + each]))
        lines.append("")
    return "\n".join(lines[:-1])


def render_mask(allowed: np.ndarray, width: int, coloured: bool = False) -> Text:
    """Queries from top to bottom, keys from left to right: @ where attention is allowed."""
    values = np.where(allowed, 1.0, 0.0 if coloured else 0.15)
    return Text("\n").join(_render_grid(values, width, coloured, "query", "key"))


def render_table(table: np.ndarray, width: int, rows: str, columns: str, coloured: bool = False) -> Text:
    """Any numbers, scaled to their minimum and maximum."""
    low, high = float(table.min()), float(table.max())
    scaled = (table - low) / ((high - low) or 1.0)
    return Text("\n").join([*_render_grid(scaled, width, coloured, rows, columns), render_scale(low, high, coloured)])


def _render_grid(values: np.ndarray, width: int, coloured: bool, rows: str, columns: str) -> list[Text]:
    margin = max(len(str(len(values) - 1)), len(rows))
    each = 2 if 2 * values.shape[1] + margin + 1 <= width else 1
    count = max(1, min(values.shape[1], (width - margin - 1) // each))
    lines = [Text(f"{rows:>{margin}} {columns} 0 … {count - 1}")]
    lines += [
        Text.assemble(f"{number:>{margin}} ", render_cells(row[:count], each, coloured))
        for number, row in enumerate(values)
    ]
    return [*lines, *_note_hidden_columns(values.shape[1], count)]


def _note_hidden_columns(columns: int, count: int) -> list[Text]:
    note = f"{columns - count} of {columns} columns are not shown: draw all with --png FILE"
    return [Text(note)] if count < columns else []


def _wrap_names(title: str, names: Sequence[str], width: int) -> Iterator[str]:
    line = title
    for number, name in enumerate(names):
        entry = f" {number}:{name}"
        if cell_len(line + entry) > width:
            yield line
            line = " " * len(title)
        line += entry
    yield line
