"""From a picture to the patches that a model reads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from headway.data.pictures.files import import_pillow

if TYPE_CHECKING:
    from PIL.Image import Image


MAX_ASPECT = 16  # of a picture that is resized before its middle is cut out: the rest of longer ones is cut off first


class PictureSettings(Protocol):
    """What a model says of the pictures that it reads: headway.nn.frontends.patches:Patches.Config."""

    @property
    def patch(self) -> int: ...  # pixels on a side
    @property
    def size(self) -> int: ...  # pixels on a side of a picture
    @property
    def channels(self) -> int: ...
    @property
    def fit(self) -> str: ...
    @property
    def resample(self) -> str: ...
    @property
    def mean(self) -> Sequence[float]: ...
    @property
    def deviation(self) -> Sequence[float]: ...


class PatchArray(NamedTuple):
    """One picture as patches."""

    values: np.ndarray  # (S, C·P·P) float32
    grid: tuple[int, int]  # rows and columns


def fit_picture(image: "Image", settings: PictureSettings) -> np.ndarray:
    """At the size that the model reads: (H, W, C) uint8."""
    image = image.convert("L" if settings.channels == 1 else "RGB")
    width, height = image.size
    if settings.fit == "crop":
        image = _cut_middle(image, *(min(side, MAX_ASPECT * min(width, height)) for side in image.size))
        width, height = (settings.size * side // min(image.size) for side in image.size)
        image = _resize(image, width, height, settings)
        image = _cut_middle(image, settings.size, settings.size)
    else:
        image = _resize(image, *_choose_size(width, height, settings), settings)
    pixels = np.asarray(image)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def count_patches(width: int, height: int, settings: PictureSettings) -> tuple[int, int]:
    """Rows and columns of patches of a picture of this size."""
    if settings.fit != "keep":
        return settings.size // settings.patch, settings.size // settings.patch
    columns, rows = (side // settings.patch for side in _choose_size(width, height, settings))
    return rows, columns


def _cut_middle(image: "Image", width: int, height: int) -> "Image":
    left, top = (image.size[0] - width) // 2, (image.size[1] - height) // 2
    return image.crop((left, top, left + width, top + height))


def _choose_size(width: int, height: int, settings: PictureSettings) -> tuple[int, int]:
    """Of the resized picture. To keep its shape, its sides are rounded to whole patches, and it is made smaller until
    it has no more of them than a square picture."""
    if settings.fit != "keep":
        return settings.size, settings.size
    patch, most = settings.patch, (settings.size // settings.patch) ** 2
    scale = min(1.0, (most * patch * patch / (width * height)) ** 0.5)
    columns, rows = (max(round(side * scale / patch), 1) for side in (width, height))
    while columns * rows > most:  # rounding may have added some
        if columns >= rows:
            columns = min(columns - 1, max(most // rows, 1))
        else:
            rows = min(rows - 1, max(most // columns, 1))
    return columns * patch, rows * patch


def _resize(image: "Image", width: int, height: int, settings: PictureSettings) -> "Image":
    pillow = import_pillow()
    if image.size == (width, height):
        return image
    filters = {"bilinear": pillow.Resampling.BILINEAR, "bicubic": pillow.Resampling.BICUBIC}
    return image.resize((width, height), filters[settings.resample])


def cut_patches(pixels: np.ndarray, settings: PictureSettings) -> PatchArray:
    """(H, W, C) uint8 -> normalised patches. Within a patch: channels, rows, columns, as the weights of a
    convolution."""
    patch = settings.patch
    rows, columns = pixels.shape[0] // patch, pixels.shape[1] // patch
    mean, deviation = (np.asarray(values, np.float64) for values in (settings.mean, settings.deviation))
    scaled = (pixels / 255.0 - mean) / deviation  # (H, W, C)
    grid = scaled.reshape(rows, patch, columns, patch, -1).transpose(0, 2, 4, 1, 3)
    return PatchArray(grid.reshape(rows * columns, -1).astype(np.float32), (rows, columns))
