"""Where a model of pictures looks: attention over patches, drawn over the picture or as characters."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headway.errors import HeadwayError
from headway.inspect.plots import import_pyplot, save_figure

if TYPE_CHECKING:
    from headway.translate.picture_model import PatchAttention

SHADES = " ░▒▓█"  # from nothing to the largest weight
PANEL_INCHES = 2.6


def draw_patches(attention: "PatchAttention", path: str | Path, head: int = 0) -> None:
    """The picture, and over it how much is attended to each patch. head: counted from 1; 0 draws the mean and all
    heads."""
    count = len(attention.weights)
    if not 0 <= head <= count:
        raise HeadwayError(f"there is no head {head}: this layer has 1 to {count}.")
    panels = [(f"head {head}", attention.weights[head - 1])] if head else [("mean of all", attention.weights.mean(0))]
    if not head and count > 1:
        panels += [(f"head {number}", weights) for number, weights in enumerate(attention.weights, 1)]
    columns = min(len(panels) + 1, 4)
    rows = -(-(len(panels) + 1) // columns)
    figure, axes = import_pyplot().subplots(
        rows, columns, figsize=(PANEL_INCHES * columns, PANEL_INCHES * rows + 0.4), squeeze=False, layout="constrained"
    )
    pixels = attention.pixels if attention.pixels.shape[2] == 3 else np.repeat(attention.pixels, 3, axis=2)
    height, width = pixels.shape[:2]
    for axis in axes.flat:
        axis.set_axis_off()
    axes.flat[0].imshow(pixels, interpolation="nearest")
    axes.flat[0].set_title("picture", fontsize=9)
    for axis, (title, weights) in zip(list(axes.flat)[1:], panels):
        axis.imshow(pixels.mean(2), cmap="gray", vmin=0, vmax=255, interpolation="nearest", alpha=0.6)
        axis.imshow(
            weights, cmap="inferno", vmin=0, alpha=0.65, extent=(-0.5, width - 0.5, height - 0.5, -0.5),
            interpolation="nearest",
        )  # fmt: skip
        axis.set_title(f"{title}, up to {weights.max():.2f}", fontsize=9)
    figure.suptitle(f"attention over patches, layer {attention.layer}", fontsize=10)
    save_figure(figure, path)


def render_patches(weights: np.ndarray) -> str:
    """Two characters a patch, the darker the more it is attended to."""
    levels = np.rint(weights / max(float(weights.max()), 1e-12) * (len(SHADES) - 1)).astype(int)
    return "\n".join("".join(2 * SHADES[level] for level in row).rstrip() or " " for row in levels)
