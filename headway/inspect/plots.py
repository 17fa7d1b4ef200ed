"""Plots with matplotlib: attention, masks, weights, positional encodings, experts, curves; as PNG, SVG or PDF."""

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from headway.errors import HeadwayError
from headway.inspect.attention import AttentionMap, format_token
from headway.inspect.experts import ExpertRouting
from headway.inspect.positions import NumberTable
from headway.nn.layers.bitlinear import round_to_ternary
from headway.nn.masks.masks import Mask, dense_mask

if TYPE_CHECKING:
    from headway.workflows.calibration import Reliability


def draw_attention(attention: AttentionMap, path: str | Path, head: int = 0) -> None:
    """head: counted from 1; 0 draws the mean and all heads."""
    count = len(attention.weights)
    if not 0 <= head <= count:
        raise HeadwayError(f"there is no head {head}: this layer has 1 to {count}.")
    panels = (
        [(f"head {head}", attention.weights[head - 1])] if head else [("mean of all heads", attention.weights.mean(0))]
    )
    if not head:
        panels += [(f"head {number + 1}", weights) for number, weights in enumerate(attention.weights)]
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    # inches per token: a long text is drawn smaller, and without token labels where they could not be read
    cell = 0.28 * min(1.0, 60 / max(len(attention.keys), len(attention.queries)))
    show_labels = len(panels) * (len(attention.keys) + len(attention.queries)) <= 1200
    size = (1.6 + cell * len(attention.keys), 1.2 + cell * len(attention.queries))
    figure, axes = import_pyplot().subplots(
        rows, columns, figsize=(size[0] * columns, size[1] * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (title, weights) in zip(axes.flat, panels):
        _hatch_background(axis)  # exactly 0 is behind a mask: transparent, so that the hatching shows
        visible = np.ma.masked_equal(weights, 0.0)
        image = axis.imshow(visible, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")
        axis.set_title(title, fontsize=9)
        if not show_labels:
            continue
        axis.set_xticks(
            range(len(attention.keys)), [escape_label(key) for key in attention.keys], rotation=90, fontsize=25 * cell
        )
        axis.set_yticks(
            range(len(attention.queries)), [escape_label(query) for query in attention.queries], fontsize=25 * cell
        )
    figure.colorbar(image, ax=axes, shrink=0.6 / rows, pad=0.01).ax.tick_params(labelsize=7)
    title = f"{attention.kind}, layer {attention.layer}: {escape_label(attention.text)}"
    figure.suptitle(textwrap.fill(title, int(12 * size[0] * columns)), fontsize=10)
    save_figure(figure, path)


def draw_mask(mask: Mask, length: int, path: str | Path) -> None:
    """Dark where attention is allowed."""
    figure, axis = import_pyplot().subplots(figsize=(4.4, 4.4), layout="constrained")
    allowed = dense_mask(mask, length).numpy()
    if length <= 40:  # lines between the cells
        axis.pcolormesh(allowed, cmap="Blues", vmin=0, vmax=1.3, edgecolors="white", linewidth=0.6)
        axis.set(xlim=(0, length), ylim=(length, 0), aspect="equal")
        ticks = range(0, length, 1 + length // 10)
        axis.set_xticks([tick + 0.5 for tick in ticks], ticks)
        axis.set_yticks([tick + 0.5 for tick in ticks], ticks)
    else:
        axis.imshow(allowed, cmap="Blues", vmin=0, vmax=1.3, interpolation="nearest")
    axis.set(xlabel="key position", ylabel="query position")
    axis.set_title(textwrap.fill(escape_label(mask.name), 50), fontsize=10)
    save_figure(figure, path)


def draw_ternary(weight: Tensor, path: str | Path, corner: int = 32) -> None:
    """A linear weight before and after BitNet's rounding: a histogram of its values, and a corner of the matrix."""
    rounded, scale = round_to_ternary(weight.detach().cpu().float())
    values = (weight.detach().cpu().float() / scale).numpy()
    figure, axes = import_pyplot().subplots(1, 3, figsize=(11, 3.7), layout="constrained", width_ratios=[1.3, 1, 1])
    tenths = int(np.ceil(np.abs(values).max() * 10)) + 1
    edges = np.arange(-tenths, tenths + 1) / 10  # so that bars end at ±0.5, where rounding changes
    for number, colour in ((-1, "#b2182b"), (0, "#bbbbbb"), (1, "#2166ac")):
        chosen = values[rounded.numpy() == number]
        axes[0].hist(chosen, edges, color=colour, label=f"{number}: {chosen.size / values.size:.0%}")
    axes[0].set(xlabel="weight / mean of |weight|", ylabel="weights")
    axes[0].legend(fontsize=8, title="becomes", title_fontsize=8)
    for axis, title, table in ((axes[1], "before", values), (axes[2], "after", rounded.numpy())):
        axis.imshow(table[:corner, :corner], cmap="RdBu", vmin=-2, vmax=2, interpolation="nearest")
        axis.set_title(title, fontsize=10)
        axis.set(xlabel="input", ylabel="output")
    save_figure(figure, path)


def draw_table(table: NumberTable, path: str | Path) -> None:
    """Numbers around 0 (red below, blue above), such as a positional encoding; or integers, as colours in order. NaN is
    hatched."""
    square = table.rows == "query"
    figure, axis = import_pyplot().subplots(figsize=(5.2, 4.4) if square else (7, 4), layout="constrained")
    bound = float(np.nan_to_num(np.abs(table.values)).max()) or 1.0
    shape = "equal" if square else "auto"
    is_integer = np.issubdtype(table.values.dtype, np.integer)
    colours, low = ("viridis", 0.0) if is_integer else ("RdBu", -bound)
    if np.isnan(table.values).any():
        _hatch_background(axis)
    image = axis.imshow(table.values, cmap=colours, aspect=shape, vmin=low, vmax=bound, interpolation="nearest")
    axis.set(xlabel=table.columns, ylabel=table.rows)
    axis.set_title(escape_label(table.title), fontsize=10)
    figure.colorbar(image, ax=axis, pad=0.02)
    save_figure(figure, path)


def draw_panels(panels: Mapping[str, np.ndarray], path: str | Path, *, xlabel: str, ylabel: str) -> None:
    """Tables of numbers from 0 to 1 side by side, each with its name as a title: darker for larger numbers."""
    figure, axes = import_pyplot().subplots(
        1, len(panels), figsize=(2.9 * len(panels), 3.1), squeeze=False, layout="constrained"
    )
    for axis, (title, values) in zip(axes.flat, panels.items()):
        image = axis.imshow(values, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")
        axis.set_title(escape_label(title), fontsize=9)
        axis.set_xlabel(xlabel, fontsize=8)
        axis.tick_params(labelsize=7)
    axes[0, 0].set_ylabel(ylabel, fontsize=8)
    figure.colorbar(image, ax=axes, shrink=0.8, pad=0.01).ax.tick_params(labelsize=7)
    save_figure(figure, path)


def draw_positions(values: np.ndarray, path: str | Path) -> None:
    """A positional encoding (positions, channels), such as a learned one."""
    draw_table(NumberTable(values, "", "position", "channel"), path)


def draw_curves(
    curves: Mapping[str, Sequence[float]],
    path: str | Path,
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    log: bool = False,
    first: int = 0,
) -> None:
    """One line for each name, over first, first + 1, first + 2 …"""
    figure, axis = import_pyplot().subplots(figsize=(7, 4), layout="constrained")
    for number, (name, values) in enumerate(curves.items()):
        steps = range(first, first + len(values))
        axis.plot(steps, values, marker="osD^vP*X"[number % 8], markersize=4, label=escape_label(name))
    if log:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")  # exponents need fonts that may be missing
    axis.set(xlabel=xlabel, ylabel=ylabel)
    axis.set_title(escape_label(title), fontsize=10)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    save_figure(figure, path)


def draw_reliability(reliability: "Reliability", path: str | Path) -> None:
    """A reliability diagram: the share of good lines by confidence, and how many lines have it."""
    figure, (axis, below) = import_pyplot().subplots(
        2, 1, figsize=(4.6, 5.4), layout="constrained", height_ratios=[3, 1]
    )
    known = [one for one in reliability.bins if one.lines]
    axis.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--", label="perfectly calibrated")
    axis.plot([one.score for one in known], [one.good for one in known], marker="o", label="held-out lines")
    axis.set(xlim=(0, 1), ylim=(0, 1), ylabel="share good", aspect="equal")
    axis.set_title(f"expected calibration error {reliability.error:.3f}, {reliability.lines:,} lines", fontsize=10)
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)
    width = 1 / len(reliability.bins)
    below.bar(
        [(n + 0.5) * width for n in range(len(reliability.bins))], [one.lines for one in reliability.bins], 0.9 * width
    )
    below.set(xlim=(0, 1), xlabel="score", ylabel="lines")
    save_figure(figure, path)


def draw_expert_routing(layers: Sequence[ExpertRouting], path: str | Path) -> None:
    """A panel for each layer: tokens from left to right, experts from top to bottom."""
    experts, tokens = max(one.shares.shape[1] for one in layers), len(layers[0].tokens)
    cell = 0.28 * min(1.0, 60 / max(experts * len(layers), tokens))  # inches
    size = (1.6 + max(cell * tokens, 0.7), (1.0 + cell * experts) * len(layers))
    figure, axes = import_pyplot().subplots(len(layers), 1, figsize=size, squeeze=False, layout="constrained")
    for axis, one in zip(axes.flat, layers):
        image = axis.imshow(one.shares.T, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
        axis.set_xticks(range(tokens), [escape_label(token) for token in one.tokens], rotation=90, fontsize=25 * cell)
        axis.set_yticks(range(one.shares.shape[1]), range(1, one.shares.shape[1] + 1), fontsize=25 * cell)
        axis.set_ylabel("expert", fontsize=8)
        axis.set_title(one.layer_name, fontsize=9)
    beside = max(0.0, 1.7 - cell * tokens) / 2  # inches by which a title is wider than few tokens
    figure.colorbar(image, ax=axes, shrink=0.6, pad=0.01 + beside / size[0]).ax.tick_params(labelsize=7)
    save_figure(figure, path)


def escape_label(text: str) -> str:
    return format_token(text).replace("$", r"\$")  # matplotlib would read $…$ as a formula


def _hatch_background(axis: Any) -> None:
    """Hatch the whole axis, behind what will be drawn."""
    from matplotlib.patches import Rectangle

    background = Rectangle((0, 0), 1, 1, transform=axis.transAxes, linewidth=0, zorder=0)
    background.set(facecolor="none", edgecolor="#d3dae3", hatch="////")
    axis.add_patch(background)


def import_pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise HeadwayError("plots need matplotlib. Run: pip install 'headway[plot]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def save_figure(figure: Any, path: str | Path) -> None:
    try:
        if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
            raise HeadwayError(f"{path}: the file's name must end in .png, .svg or .pdf.")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # characters that the font lacks are drawn as boxes
            figure.savefig(path, dpi=min(150, 5000 / max(figure.get_size_inches())))
    finally:
        import_pyplot().close(figure)  # otherwise pyplot keeps it in memory
