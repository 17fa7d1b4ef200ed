"""Pictures: attention, masks, positional encodings. PNG or SVG, by the file's name."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import HeadwayError
from headway.inspect.attention import Attended, label
from headway.nn.masks import Mask, dense_mask


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
    size = (1.6 + 0.28 * len(found.keys), 1.2 + 0.28 * len(found.queries))
    figure, axes = _plot().subplots(
        rows, columns, figsize=(size[0] * columns, size[1] * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (title, weights) in zip(axes.flat, panels):
        axis.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal")
        axis.set_title(title, fontsize=9)
        axis.set_xticks(range(len(found.keys)), [_drawn(key) for key in found.keys], rotation=90, fontsize=7)
        axis.set_yticks(range(len(found.queries)), [_drawn(query) for query in found.queries], fontsize=7)
    figure.suptitle(f"{found.kind}, layer {found.layer}: {_drawn(found.text)}", fontsize=10)
    _save(figure, path)


def draw_mask(mask: Mask, length: int, path: str | Path) -> None:
    """Dark where looking is allowed."""
    figure, axis = _plot().subplots(figsize=(4, 4), layout="constrained")
    axis.imshow(dense_mask(mask, length).numpy(), cmap="Blues", vmin=0, vmax=1.3)
    axis.set(title=mask.name, xlabel="key position", ylabel="query position")
    _save(figure, path)


def draw_positions(table: np.ndarray, path: str | Path) -> None:
    """A positional encoding (positions, channels)."""
    figure, axis = _plot().subplots(figsize=(7, 4), layout="constrained")
    axis.imshow(table, cmap="RdBu", aspect="auto", vmin=-1, vmax=1)
    axis.set(xlabel="channel", ylabel="position")
    _save(figure, path)


def _drawn(text: str) -> str:
    return label(text).replace("$", r"\$")  # between two of them would be a formula


def _plot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise HeadwayError("pictures need matplotlib. Type: pip install 'headway[plot]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def _save(figure: Any, path: str | Path) -> None:
    try:
        if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
            raise HeadwayError(f"{path}: a picture's name ends in .png, .svg or .pdf.")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # a script that the font lacks is drawn as boxes
            figure.savefig(path, dpi=150)
    finally:
        _plot().close(figure)  # else it stays in memory
