"""Random changes of pictures in training: crops, mirror images, turns, colours. The same random numbers, the same
picture."""

from typing import TYPE_CHECKING, Protocol

import numpy as np

from headway.data.pictures.files import import_pillow

if TYPE_CHECKING:
    from PIL.Image import Image

LUMA = np.array([0.299, 0.587, 0.114])  # weights of red, green and blue in grey


class AugmentationSettings(Protocol):
    """How much pictures change: headway.train.augmentation:PictureAugmentation.Config."""

    @property
    def crop(self) -> float: ...  # the smallest share of the area that is kept
    @property
    def aspect(self) -> float: ...  # the largest ratio of the sides of what is kept, to those of the picture
    @property
    def flip(self) -> float: ...  # the share of pictures that are mirrored
    @property
    def turn(self) -> float: ...  # degrees, at most, either way
    @property
    def colour(self) -> float: ...  # brightness, contrast and saturation change by this share, at most


def augment_picture(image: "Image", settings: AugmentationSettings, random: np.random.Generator) -> "Image":
    """A random variant, at the size of what was cut out."""
    pillow = import_pillow()
    if settings.turn:
        mean = np.asarray(image).reshape(-1, len(image.getbands())).mean(0).astype(int).tolist()
        angle = float(random.uniform(-settings.turn, settings.turn))
        fill = mean[0] if len(mean) == 1 else tuple(mean)
        image = image.rotate(angle, pillow.Resampling.BILINEAR, fillcolor=fill)
    if settings.crop < 1:
        image = image.crop(choose_box(image.size, settings, random))
    if settings.flip and random.random() < settings.flip:
        image = image.transpose(pillow.Transpose.FLIP_LEFT_RIGHT)
    return change_colours(image, settings.colour, random) if settings.colour else image


def choose_box(
    size: tuple[int, int], settings: AugmentationSettings, random: np.random.Generator
) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of a random part: its area and the ratio of its sides are within the limits, but for
    rounding, and it lies inside."""
    width, height = size
    share = random.uniform(settings.crop, 1.0)
    ratio = np.exp(random.uniform(-1, 1) * np.log(settings.aspect))
    own_width = min(max(round(width * (share * ratio) ** 0.5), 1), width)
    own_height = min(max(round(height * (share / ratio) ** 0.5), 1), height)
    left, top = (int(random.integers(0, whole - own + 1)) for whole, own in ((width, own_width), (height, own_height)))
    return left, top, left + own_width, top + own_height


def change_colours(image: "Image", strength: float, random: np.random.Generator) -> "Image":
    """Brightness, contrast around the mean grey, and saturation, each multiplied by a factor near 1."""
    pillow = import_pillow()
    brightness, contrast, saturation = random.uniform(1 - strength, 1 + strength, 3)
    pixels = np.asarray(image).astype(np.float64) * brightness
    grey = pixels @ LUMA if pixels.ndim == 3 else pixels  # (H, W)
    pixels = grey.mean() + (pixels - grey.mean()) * contrast
    if pixels.ndim == 3:
        grey = (pixels @ LUMA)[..., None]
        pixels = grey + (pixels - grey) * saturation
    changed: Image = pillow.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))
    return changed
