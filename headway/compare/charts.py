"""Charts of a study as SVG: lines over steps, seconds or lengths, and points of quality against cost.

Written as text, so that a report needs nothing but itself. Every mark has its numbers as a tooltip; colours come from
the page's style, so that they follow its light or dark theme, with fixed ones for files of their own."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 46  # margins
COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#65a30d", "#475569", "#b45309")
MIN_TICKS, MAX_TICKS = 2, 7

Point = tuple[float, float]


class Scale(NamedTuple):
    """From numbers to places on an axis."""

    low: float
    high: float
    start: float  # of the axis, in pixels
    end: float
    logarithmic: bool

    def place(self, value: float) -> float:
        low, high, value = (math.log(x) for x in (self.low, self.high, value)) if self.logarithmic else (
            self.low, self.high, value
        )  # fmt: skip
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


def line_chart(
    series: Mapping[str, Sequence[Point]], *, xlabel: str, ylabel: str, log_x: bool = False, log_y: bool = False
) -> str:
    """One line for each name."""
    usable = {name: clean_points(points, log_x, log_y) for name, points in series.items()}
    usable = {name: points for name, points in usable.items() if points}
    if not usable:
        return ""
    x, y = make_scales([point for points in usable.values() for point in points], log_x, log_y)
    marks = []
    for number, (name, points) in enumerate(usable.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x.place(a):.1f},{y.place(b):.1f}" for a, b in points)
        marks.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        marks += [mark_point(x, y, point, colour, f"{name}: {format_number(point[0])}, {format_number(point[1])}")
                  for point in points]  # fmt: skip
    return frame(x, y, xlabel, ylabel, marks, list(usable))


def scatter_chart(
    points: Mapping[str, Point], front: Sequence[str], *, xlabel: str, ylabel: str, log_x: bool = False
) -> str:
    """One point for each name, and a line through those of the Pareto front."""
    usable = {name: point for name, point in points.items() if clean_points([point], log_x, False)}
    if not usable:
        return ""
    x, y = make_scales(list(usable.values()), log_x, False)
    through = " ".join(f"{x.place(usable[n][0]):.1f},{y.place(usable[n][1]):.1f}" for n in front if n in usable)
    marks = [f'<polyline points="{through}" class="front" fill="none" stroke="#94a3b8" stroke-dasharray="5 4"/>']
    for number, (name, point) in enumerate(usable.items()):
        text = f"{name}: {format_number(point[0])}, {format_number(point[1])}"
        marks.append(mark_point(x, y, point, COLOURS[number % len(COLOURS)], text, radius=6))
    return frame(x, y, xlabel, ylabel, marks, list(usable))


def clean_points(points: Sequence[Point], log_x: bool, log_y: bool) -> list[Point]:
    """Without what cannot be drawn."""
    return [
        (a, b)
        for a, b in points
        if math.isfinite(a) and math.isfinite(b) and (a > 0 or not log_x) and (b > 0 or not log_y)
    ]


def make_scales(points: Sequence[Point], log_x: bool, log_y: bool) -> tuple[Scale, Scale]:
    xs, ys = [a for a, _ in points], [b for _, b in points]
    return (
        Scale(*padded_range(xs, log_x), LEFT, WIDTH - RIGHT, log_x),
        Scale(*padded_range(ys, log_y), HEIGHT - BOTTOM, TOP, log_y),
    )


def padded_range(values: Sequence[float], logarithmic: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    if logarithmic:
        return low / 1.15, high * 1.15
    margin = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def mark_point(x: Scale, y: Scale, point: Point, colour: str, text: str, radius: float = 3) -> str:
    place = f'cx="{x.place(point[0]):.1f}" cy="{y.place(point[1]):.1f}"'
    return f'<circle {place} r="{radius}" fill="{colour}"><title>{escape(text)}</title></circle>'


def frame(x: Scale, y: Scale, xlabel: str, ylabel: str, marks: Sequence[str], names: Sequence[str]) -> str:
    """Axes with ticks, the marks, and a legend below."""
    parts = []
    for tick in ticks(x):
        at = f"{x.place(tick):.1f}"
        parts.append(f'<line x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" class="grid"/>')
        parts.append(f'<text x="{at}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{format_number(tick)}</text>')
    for tick in ticks(y):
        at = f"{y.place(tick):.1f}"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at}" dy="4" text-anchor="end">{format_number(tick)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(xlabel)}</text>'
    )
    turned = f'transform="rotate(-90 14 {middle})"'
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" {turned}>{escape(ylabel)}</text>')
    parts += marks
    rows = legend(names)
    height = HEIGHT + 18 * len(rows)
    for index, row in enumerate(rows):
        parts += [
            f'<rect x="{at}" y="{HEIGHT + 18 * index - 2}" width="10" height="10" fill="{COLOURS[n % len(COLOURS)]}"/>'
            f'<text x="{at + 15}" y="{HEIGHT + 18 * index + 8}">{escape(names[n])}</text>'
            for n, at in row
        ]
    style = "<style>text{font:12px sans-serif;fill:currentColor}.grid{stroke:currentColor;stroke-opacity:.15}</style>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(ylabel)} by {escape(xlabel)}">{style}{"".join(parts)}</svg>'
    )


def legend(names: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Rows of (index, place), as many in a row as fit."""
    rows: list[list[tuple[int, int]]] = [[]]
    at = LEFT
    for index, name in enumerate(names):
        width = 34 + 7 * len(name)
        if rows[-1] and at + width > WIDTH:
            rows.append([])
            at = LEFT
        rows[-1].append((index, at))
        at += width
    return rows


def ticks(scale: Scale) -> list[float]:
    """Round numbers within the range, not too many."""
    if scale.logarithmic:
        powers = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
        for factors in ((1, 2, 5), (1,)):
            found = [f * 10.0**p for p in powers for f in factors if scale.low <= f * 10.0**p <= scale.high]
            if MIN_TICKS <= len(found) <= MAX_TICKS:
                return found
        if len(found) > MAX_TICKS:
            return found[:: -(-len(found) // MAX_TICKS)]
    rough = (scale.high - scale.low) / MAX_TICKS
    step = 10.0 ** math.floor(math.log10(rough))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= rough)
    first = math.ceil(scale.low / step)
    return [round(number * step, 12) for number in range(first, math.floor(scale.high / step) + 1)]


def format_number(value: float) -> str:
    """1234567 -> 1.23M, 0.01234 -> 0.0123"""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
