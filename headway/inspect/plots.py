"""Pictures: attention, masks, weights, positional encodings, experts, curves. PNG, SVG or PDF, by the file's name."""

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from headway.errors import HeadwayError
from headway.inspect.attention import Attended, label
from headway.inspect.experts import Visits
from headway.inspect.positions import Table
from headway.nn.layers.bitlinear import ternary
from headway.nn.masks.masks import Mask, dense_mask
from headway.workflows.calibration import Reliability


def draw_attention(found: Attended, path: str | Path, head: int = 0) -> None:
    """One head, counted from 1, or the mean and all heads with 0."""
    count = len(found.weights)
    if not 0 <= head <= count:
        raise HeadwayError(f"there is no head {head}: this layer has 1 to {count}.")
    panels = [(f"head {head}", found.weights[head - 1])] if head else [("mean of all heads", found.weights.mean(0))]
    if not head:
        panels += [(f"head {number + 1}", weights) for number, weights in enumerate(found.weights)]
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    # inches a token; a long text is drawn smaller, and where nobody could read its words they are numbered
    cell = 0.28 * min(1.0, 60 / max(len(found.keys), len(found.queries)))
    named = len(panels) * (len(found.keys) + len(found.queries)) <= 1200
    size = (1.6 + cell * len(found.keys), 1.2 + cell * len(found.queries))
    figure, axes = plot().subplots(
        rows, columns, figsize=(size[0] * columns, size[1] * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (title, weights) in zip(axes.flat, panels):
        _hatch(axis)  # exactly 0 is what a mask hides: no colour of the scale
        seen = np.ma.masked_equal(weights, 0.0)
        drawn = axis.imshow(seen, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")
        axis.set_title(title, fontsize=9)
        if not named:
            continue
        axis.set_xticks(range(len(found.keys)), [readable(key) for key in found.keys], rotation=90, fontsize=25 * cell)
        axis.set_yticks(range(len(found.queries)), [readable(query) for query in found.queries], fontsize=25 * cell)
    figure.colorbar(drawn, ax=axes, shrink=0.6 / rows, pad=0.01).ax.tick_params(labelsize=7)
    title = f"{found.kind}, layer {found.layer}: {readable(found.text)}"
    figure.suptitle(textwrap.fill(title, int(12 * size[0] * columns)), fontsize=10)
    save(figure, path)


def draw_mask(mask: Mask, length: int, path: str | Path) -> None:
    """Dark where looking is allowed."""
    figure, axis = plot().subplots(figsize=(4.4, 4.4), layout="constrained")
    allowed = dense_mask(mask, length).numpy()
    if length <= 40:  # lines between the cells
        axis.pcolormesh(allowed, cmap="Blues", vmin=0, vmax=1.3, edgecolors="white", linewidth=0.6)
        axis.set(xlim=(0, length), ylim=(length, 0), aspect="equal")
        marks = range(0, length, 1 + length // 10)
        axis.set_xticks([mark + 0.5 for mark in marks], marks)
        axis.set_yticks([mark + 0.5 for mark in marks], marks)
    else:
        axis.imshow(allowed, cmap="Blues", vmin=0, vmax=1.3, interpolation="nearest")
    axis.set(xlabel="key position", ylabel="query position")
    axis.set_title(textwrap.fill(readable(mask.name), 50), fontsize=10)
    save(figure, path)


def draw_ternary(weight: Tensor, path: str | Path, corner: int = 32) -> None:
    """A linear weight before and after BitNet's rounding: how its values are spread, and a corner of the matrix."""
    rounded, scale = ternary(weight.detach().cpu().float())
    values = (weight.detach().cpu().float() / scale).numpy()
    figure, axes = plot().subplots(1, 3, figsize=(11, 3.7), layout="constrained", width_ratios=[1.3, 1, 1])
    tenths = int(np.ceil(np.abs(values).max() * 10)) + 1
    edges = np.arange(-tenths, tenths + 1) / 10  # bars that end where another whole number is nearer
    for number, colour in ((-1, "#b2182b"), (0, "#bbbbbb"), (1, "#2166ac")):
        chosen = values[rounded.numpy() == number]
        axes[0].hist(chosen, edges, color=colour, label=f"{number}: {chosen.size / values.size:.0%}")
    axes[0].set(xlabel="weight / mean of |weight|", ylabel="weights")
    axes[0].legend(fontsize=8, title="becomes", title_fontsize=8)
    for axis, title, table in ((axes[1], "before", values), (axes[2], "after", rounded.numpy())):
        axis.imshow(table[:corner, :corner], cmap="RdBu", vmin=-2, vmax=2, interpolation="nearest")
        axis.set_title(title, fontsize=10)
        axis.set(xlabel="input", ylabel="output")
    save(figure, path)


def draw_table(table: Table, path: str | Path) -> None:
    """Numbers around 0 (red below, blue above), such as a positional encoding; or whole numbers, as colours in order.
    What is nan is hatched."""
    square = table.rows == "query"
    figure, axis = plot().subplots(figsize=(5.2, 4.4) if square else (7, 4), layout="constrained")
    bound = float(np.nan_to_num(np.abs(table.values)).max()) or 1.0
    shape = "equal" if square else "auto"
    counted = np.issubdtype(table.values.dtype, np.integer)
    colours, low = ("viridis", 0.0) if counted else ("RdBu", -bound)
    if np.isnan(table.values).any():
        _hatch(axis)
    drawn = axis.imshow(table.values, cmap=colours, aspect=shape, vmin=low, vmax=bound, interpolation="nearest")
    axis.set(xlabel=table.columns, ylabel=table.rows)
    axis.set_title(readable(table.title), fontsize=10)
    figure.colorbar(drawn, ax=axis, pad=0.02)
    save(figure, path)


def draw_panels(panels: Mapping[str, np.ndarray], path: str | Path, *, across: str, up: str) -> None:
    """Tables of numbers from 0 to 1 side by side, each under its name: dark where the number is large."""
    figure, axes = plot().subplots(
        1, len(panels), figsize=(2.9 * len(panels), 3.1), squeeze=False, layout="constrained"
    )
    for axis, (title, values) in zip(axes.flat, panels.items()):
        drawn = axis.imshow(values, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")
        axis.set_title(readable(title), fontsize=9)
        axis.set_xlabel(across, fontsize=8)
        axis.tick_params(labelsize=7)
    axes[0, 0].set_ylabel(up, fontsize=8)
    figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.01).ax.tick_params(labelsize=7)
    save(figure, path)


def draw_positions(values: np.ndarray, path: str | Path) -> None:
    """A positional encoding (positions, channels), such as one that was learned."""
    draw_table(Table(values, "", "position", "channel"), path)


def draw_curves(
    curves: Mapping[str, Sequence[float]],
    path: str | Path,
    *,
    title: str,
    across: str,
    up: str,
    log: bool = False,
    first: int = 0,
) -> None:
    """One line for each name, over first, first + 1, first + 2 …"""
    figure, axis = plot().subplots(figsize=(7, 4), layout="constrained")
    for number, (name, values) in enumerate(curves.items()):
        places = range(first, first + len(values))
        axis.plot(places, values, marker="osD^vP*X"[number % 8], markersize=4, label=readable(name))
    if log:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")  # powers need fonts that may be missing
    axis.set(xlabel=across, ylabel=up)
    axis.set_title(readable(title), fontsize=10)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    save(figure, path)


def draw_reliability(found: Reliability, path: str | Path) -> None:
    """The share of good lines over their score, and how many lines have it."""
    figure, (axis, below) = plot().subplots(2, 1, figsize=(4.6, 5.4), layout="constrained", height_ratios=[3, 1])
    known = [one for one in found.bins if one.lines]
    axis.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--", label="keeps its word")
    axis.plot([one.score for one in known], [one.good for one in known], marker="o", label="held-out lines")
    axis.set(xlim=(0, 1), ylim=(0, 1), ylabel="share good", aspect="equal")
    axis.set_title(f"expected calibration error {found.error:.3f}, {found.lines:,} lines", fontsize=10)
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)
    width = 1 / len(found.bins)
    below.bar([(n + 0.5) * width for n in range(len(found.bins))], [one.lines for one in found.bins], 0.9 * width)
    below.set(xlim=(0, 1), xlabel="score", ylabel="lines")
    save(figure, path)


def draw_visits(found: Sequence[Visits], path: str | Path) -> None:
    """A panel for each layer: tokens from left to right, experts from top to bottom."""
    experts, tokens = max(one.shares.shape[1] for one in found), len(found[0].tokens)
    cell = 0.28 * min(1.0, 60 / max(experts * len(found), tokens))  # inches
    size = (1.6 + max(cell * tokens, 0.7), (1.0 + cell * experts) * len(found))
    figure, axes = plot().subplots(len(found), 1, figsize=size, squeeze=False, layout="constrained")
    for axis, one in zip(axes.flat, found):
        image = axis.imshow(one.shares.T, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
        axis.set_xticks(range(tokens), [readable(token) for token in one.tokens], rotation=90, fontsize=25 * cell)
        axis.set_yticks(range(one.shares.shape[1]), range(1, one.shares.shape[1] + 1), fontsize=25 * cell)
        axis.set_ylabel("expert", fontsize=8)
        axis.set_title(one.where, fontsize=9)
    beside = max(0.0, 1.7 - cell * tokens) / 2  # inches that a title juts out over few tokens
    figure.colorbar(image, ax=axes, shrink=0.6, pad=0.01 + beside / size[0]).ax.tick_params(labelsize=7)
    save(figure, path)


def readable(text: str) -> str:
    return label(text).replace("$", r"\$")  # between two of them would be a formula


def _hatch(axis: Any) -> None:
    """All of it, behind what will be drawn."""
    from matplotlib.patches import Rectangle

    whole = Rectangle((0, 0), 1, 1, transform=axis.transAxes, linewidth=0, zorder=0)
    whole.set(facecolor="none", edgecolor="#d3dae3", hatch="////")
    axis.add_patch(whole)


def plot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise HeadwayError("pictures need matplotlib. Type: pip install 'headway[plot]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def save(figure: Any, path: str | Path) -> None:
    try:
        if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
            raise HeadwayError(f"{path}: a picture's name ends in .png, .svg or .pdf.")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # a script that the font lacks is drawn as boxes
            figure.savefig(path, dpi=min(150, 5000 / max(figure.get_size_inches())))
    finally:
        plot().close(figure)  # else it stays in memory
