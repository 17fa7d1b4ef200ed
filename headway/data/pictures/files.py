"""Read picture files of strangers: bounded before they are decoded, the right way up, in 8 bits, grey or RGB."""

import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from headway.errors import HeadwayError
from headway.files.text_files import format_path

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")  # others run programs, or say little of their size
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
MAX_PIXELS = 50_000_000  # of a picture: 8,000 x 6,250
MAX_FILE_BYTES = 200_000_000
GREY_MODES = ("1", "L", "I", "I;16", "I;16B", "I;16L", "I;16N")
SIXTEEN_BITS = 65_535


class PictureError(HeadwayError):
    """A file that cannot be read as a picture, and why."""


def import_pillow() -> ModuleType:
    """PIL.Image, with an error that says what to do where it is missing."""
    try:
        from PIL import Image
    except ImportError:
        raise HeadwayError("pictures need Pillow. Install it: pip install headway[pictures]") from None
    return Image


def read_picture(source: "str | os.PathLike[str] | bytes | np.ndarray | Image") -> "Image":
    """A picture as Pillow's image of the mode L (grey) or RGB: a file, its bytes, an array or an image in memory.

    The first frame of several; turned as its EXIF says; transparent parts over white; 16 bits reduced to 8."""
    pillow = import_pillow()
    if isinstance(source, np.ndarray):
        return _from_array(source, pillow)
    if not isinstance(source, str | os.PathLike | bytes):
        return _convert(source, "the picture", pillow)
    name = "the picture" if isinstance(source, bytes) else format_path(source)
    data = source if isinstance(source, bytes) else read_bytes(source)
    if not data:
        raise PictureError(f"{name} is empty: it has no bytes. Copy it again.")
    try:
        with pillow.open(io.BytesIO(data), formats=FORMATS) as image:
            _refuse_large(image.size, name)
            return _convert(image, name, pillow)
    except PictureError:
        raise
    except pillow.UnidentifiedImageError:
        raise PictureError(f"{name} is no picture that can be read: give {', '.join(FORMATS)}.") from None
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning):
        raise PictureError(_describe_large(name)) from None
    except Exception as error:  # whatever a decoder says of damaged bytes
        reason = f"{type(error).__name__}: {error}"[:120].rstrip(".")
        raise PictureError(f"{name} is damaged ({reason}). Copy it again.") from None


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    name = format_path(path)
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise PictureError(f"there is no file {name}.") from None
    except (OSError, ValueError) as error:  # a folder, no right to read, a null byte in its name
        reason = getattr(error, "strerror", None) or error
        raise PictureError(f"{name} cannot be read: {reason}.") from None
    if len(data) > MAX_FILE_BYTES:
        raise PictureError(f"{name} has more than {MAX_FILE_BYTES:,} bytes. Make it smaller.")
    return data


def _refuse_large(size: tuple[int, int], name: str) -> None:
    if size[0] * size[1] > MAX_PIXELS:
        raise PictureError(_describe_large(name, f" {size[0]:,} x {size[1]:,},"))


def _describe_large(name: str, size: str = "") -> str:
    return f"{name} has too many pixels:{size} and at most {MAX_PIXELS:,} are read. Make it smaller."


def _convert(image: "Image", name: str, pillow: ModuleType) -> "Image":
    """The first frame, in 8 bits, grey or RGB, the right way up."""
    from PIL import ImageOps

    image.load()
    if image.mode == "F":
        raise PictureError(f"{name} has pixels that are fractions, of unknown range. Save it with 8 bits.")
    has_alpha = image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info
    turned = ImageOps.exif_transpose(image)
    if image.mode in GREY_MODES and image.mode not in ("1", "L"):
        values = np.asarray(turned).astype(np.int64)
        largest = 255 if image.mode == "I" and values.max(initial=0) <= 255 else SIXTEEN_BITS
        eight = np.clip(np.rint(values * (255 / largest)), 0, 255).astype(np.uint8)
        return pillow.fromarray(eight)  # type: ignore[no-any-return]
    if has_alpha:
        opaque = turned.convert("RGBA")
        white = pillow.new("RGBA", opaque.size, (255, 255, 255, 255))
        turned = pillow.alpha_composite(white, opaque)
    grey = turned.mode in GREY_MODES
    return turned.convert("L" if grey else "RGB")


def _from_array(array: np.ndarray, pillow: ModuleType) -> "Image":
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.dtype != np.uint8 or array.size == 0 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)):
        raise PictureError(
            f"an array of {array.dtype} and shape {array.shape} is no picture: give uint8 values from 0 to 255, of "
            "shape (height, width) or (height, width, 3)."
        )
    _refuse_large((array.shape[1], array.shape[0]), "the picture")
    image: Image = pillow.fromarray(np.ascontiguousarray(array))
    return image


def hash_picture(source: str | os.PathLike[str] | np.ndarray) -> str:
    """The same for the same bytes, wherever they are."""
    data = f"{source.shape}".encode() + source.tobytes() if isinstance(source, np.ndarray) else read_bytes(source)
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def find_pictures(folder: Path) -> Iterator[Path]:
    """The files of a folder and of those in it that are called like pictures, in order; hidden ones are left out."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.suffix.lower() in SUFFIXES and path.is_file():
            yield path
