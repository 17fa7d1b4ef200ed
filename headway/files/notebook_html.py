"""HTML for notebook cells: tables, grids of numbers and framed pages. Everything is inside the cell, without scripts or
addresses, so that it is shown offline, in exported notebooks, and by viewers that allow no scripts."""

from collections.abc import Sequence
from html import escape

CELL_PIXELS = 14  # of a grid
MAX_GRID_PIXELS = 420
MAX_LABELS = 60  # tokens at the side of a grid: more could not be read
MAX_LABEL_CHARACTERS = 14
LABEL_PIXELS = 7  # of a character
MAX_ROWS = 100  # of a table
COLOUR = "#1f6fb4"
# currentColor and transparency: readable in light and dark notebooks.
TABLE_STYLE = "border-collapse:collapse;text-align:left"
CELL_STYLE = "text-align:left;vertical-align:top;padding:.25em .7em;border-bottom:1px solid #8884"


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table of plain texts."""
    more = f'<div style="opacity:.7">… and {len(rows) - MAX_ROWS:,} more</div>' if len(rows) > MAX_ROWS else ""
    lines = ["".join(f'<td style="{CELL_STYLE}">{_text(cell)}</td>' for cell in row) for row in rows[:MAX_ROWS]]
    head = "".join(f'<th style="{CELL_STYLE}">{_text(name)}</th>' for name in header)
    title = f'<caption style="text-align:left;opacity:.7">{_text(caption)}</caption>' if caption else ""
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    top = f"<thead><tr>{head}</tr></thead>" if header else ""
    return f'<table style="{TABLE_STYLE}">{title}{top}<tbody>{body}</tbody></table>{more}'


def render_grid(
    values: Sequence[Sequence[float]], rows: Sequence[str] = (), columns: Sequence[str] = (), title: str = ""
) -> str:
    """A picture (SVG) of numbers from 0 to 1, darker for larger ones; each cell says its labels and its number."""
    height, width = len(values), len(values[0]) if values else 0
    side = max(1.0, min(CELL_PIXELS, MAX_GRID_PIXELS / max(height, width, 1)))
    show_rows, show_columns = (0 < len(names) <= MAX_LABELS for names in (rows, columns))
    left, top = (_margin(names if shown else ()) for names, shown in ((rows, show_rows), (columns, show_columns)))
    cells = []
    for i, line in enumerate(values):
        for j, value in enumerate(line):
            if value > 0.004:
                name = f"{rows[i]} → {columns[j]}: {value:.2f}" if rows and columns else f"{i}, {j}"
                cells.append(
                    f'<rect x="{left + j * side:.1f}" y="{top + i * side:.1f}" width="{side:.1f}" height="{side:.1f}" '
                    f'fill="{COLOUR}" fill-opacity="{min(value, 1):.2f}"><title>{_text(name)}</title></rect>'
                )
    style = 'font-size="10" font-family="sans-serif" fill="currentColor"'
    labels = [
        f'<text x="{left - 4}" y="{top + (i + 0.75) * side:.1f}" text-anchor="end" {style}>{_label(name)}</text>'
        for i, name in enumerate(rows if show_rows else ())
    ]
    labels += [
        f'<text transform="translate({left + (j + 0.75) * side:.1f},{top - 4}) rotate(-90)" {style}>'
        f"{_label(name)}</text>"
        for j, name in enumerate(columns if show_columns else ())
    ]
    frame = (
        f'<rect x="{left}" y="{top}" width="{width * side:.1f}" height="{height * side:.1f}" fill="none" '
        'stroke="currentColor" stroke-opacity=".3"/>'
    )
    caption = f'<figcaption style="font-size:90%">{_text(title)}</figcaption>' if title else ""
    size = f'width="{left + width * side + 4:.0f}" height="{top + height * side + 4:.0f}"'
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{"".join(cells)}{frame}{"".join(labels)}</svg>'
    )
    return f'<figure style="display:inline-block;margin:.3em .8em .3em 0">{caption}{picture}</figure>'


def render_framed_page(page: str, title: str, height: int) -> str:
    """A whole page in a frame, sandboxed: its scripts run there, without access to the notebook or its server."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts allow-downloads" title="{_text(title)}" '
        f'style="width: 100%; height: {height}px; border: 0"></iframe>'
    )


def _margin(names: Sequence[str]) -> int:
    """Pixels that the longest label needs."""
    return 8 + LABEL_PIXELS * min(max(map(len, names), default=0), MAX_LABEL_CHARACTERS)


def _text(text: str) -> str:
    return escape(str(text))


def _label(text: str) -> str:
    return _text(text if len(text) <= MAX_LABEL_CHARACTERS else f"{text[: MAX_LABEL_CHARACTERS - 1]}…")
