"""Small labelled pictures: which side is bright."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIDES = ("bottom", "left", "right", "top")


def draw(side: str, seed: int, size: int = 12) -> np.ndarray:
    """(size, size, 3) of noise, brighter on one side."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 90, (size, size, 3))
    half = slice(0, size // 2) if side in ("left", "top") else slice(size // 2, size)
    if side in ("left", "right"):
        pixels[:, half] += 120
    else:
        pixels[half] += 120
    return pixels.astype(np.uint8)


def make_rows(count: int, first: int = 0) -> list[tuple[Any, str]]:
    return [(draw(SIDES[n % 4], first + n), SIDES[n % 4]) for n in range(count)]


def write_folder(folder: Path, count: int, first: int = 0) -> Path:
    """A folder for each label, with count pictures in all."""
    for n, (pixels, label) in enumerate(make_rows(count, first)):
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / label / f"{n}.png")
    return folder
