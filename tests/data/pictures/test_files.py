"""Picture files of every kind, and of the worst: each is read rightly, or refused with a reason."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headway.data.pictures import files
from headway.data.pictures.files import PictureError, find_pictures, hash_picture, import_pillow, read_picture
from headway.errors import HeadwayError

RAMP = np.add.outer(np.arange(4), 10 * np.arange(6)).astype(np.uint8)  # (4, 6)
COLOURS = np.stack([RAMP, RAMP[::-1], RAMP[:, ::-1]], -1)


def encode(image: Image.Image, kind: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP", "GIF"])
def test_formats_without_loss(kind: str, tmp_path: Path) -> None:
    settings = {"lossless": True} if kind == "WEBP" else {}
    path = tmp_path / "any name"
    path.write_bytes(encode(Image.fromarray(COLOURS), kind, **settings))
    found = read_picture(path)
    assert found.mode == "RGB"
    np.testing.assert_array_equal(np.asarray(found), COLOURS)


def test_jpeg_is_near() -> None:
    smooth = np.full((16, 16, 3), (10, 200, 90), np.uint8)
    assert np.abs(np.asarray(read_picture(encode(Image.fromarray(smooth), "JPEG"))).astype(int) - smooth).max() < 4


def test_modes_become_grey_or_rgb() -> None:
    grey, colour = Image.fromarray(RAMP), Image.fromarray(COLOURS)
    assert read_picture(encode(grey, "PNG")).mode == "L"
    bits = np.asarray(read_picture(encode(Image.fromarray(RAMP > 30), "PNG")))
    np.testing.assert_array_equal(bits, np.where(RAMP > 30, 255, 0))
    palette = read_picture(encode(colour.convert("P", palette=Image.Palette.ADAPTIVE), "PNG"))
    np.testing.assert_allclose(np.asarray(palette).astype(int), COLOURS, atol=8)
    cmyk = read_picture(encode(colour.convert("CMYK"), "TIFF"))
    np.testing.assert_allclose(np.asarray(cmyk).astype(int), COLOURS, atol=2)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_become_eight(kind: str) -> None:
    wide = (RAMP.astype(np.uint16) * 257)[::-1]
    found = np.asarray(read_picture(encode(Image.fromarray(np.ascontiguousarray(wide)), kind)))
    np.testing.assert_array_equal(found, RAMP[::-1])
    dark = Image.fromarray(np.full((2, 2), 200, np.uint16))  # of 65,535, and not of 255
    assert np.asarray(read_picture(encode(dark, kind))).max() == 1


def test_transparent_parts_are_white() -> None:
    alpha = np.zeros((4, 6), np.uint8)
    alpha[:, 3:] = 255
    found = np.asarray(read_picture(encode(Image.fromarray(np.dstack([COLOURS, alpha])), "PNG")))
    assert (found[:, :3] == 255).all()
    np.testing.assert_array_equal(found[:, 3:], COLOURS[:, 3:])
    palette = Image.fromarray(RAMP).convert("P")
    palette.info["transparency"] = int(RAMP[0, 0])
    clear = np.asarray(read_picture(encode(palette, "PNG", transparency=0)))
    assert clear[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_right_way_up(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    found = np.asarray(read_picture(encode(Image.fromarray(COLOURS), "PNG", exif=exif)))
    turned = {
        1: COLOURS, 2: COLOURS[:, ::-1], 3: COLOURS[::-1, ::-1], 4: COLOURS[::-1], 5: COLOURS.transpose(1, 0, 2),
        6: np.rot90(COLOURS, -1), 7: np.rot90(COLOURS, 2).transpose(1, 0, 2), 8: np.rot90(COLOURS),
    }  # fmt: skip
    np.testing.assert_array_equal(found, turned[orientation])


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_the_first_frame_of_several(kind: str) -> None:
    frames = [Image.fromarray(np.full((4, 6, 3), value, np.uint8)) for value in (10, 200)]
    data = encode(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)
    assert np.abs(np.asarray(read_picture(data)).astype(int) - 10).max() <= 1


def test_arrays_and_images_in_memory() -> None:
    for array in (RAMP, RAMP[..., None], COLOURS, COLOURS[:, ::2]):
        np.testing.assert_array_equal(np.asarray(read_picture(array)).reshape(array.shape), array)
    assert read_picture(Image.fromarray(COLOURS)).size == (6, 4)
    for wrong in (RAMP.astype(float), np.zeros((2, 2, 4), np.uint8), np.zeros((0, 3), np.uint8), np.zeros(3, np.uint8)):
        with pytest.raises(PictureError, match="is no picture: give uint8 values from 0 to 255"):
            read_picture(wrong)


def make_bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes that says it has so many pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: it has no bytes"),
        (b"no picture at all", "is no picture that can be read: give PNG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no picture that can be read"),
        (encode(Image.fromarray(COLOURS), "PNG")[:60], "is damaged"),
        (encode(Image.fromarray(np.zeros((99, 99), np.uint8)), "JPEG")[:400], "is damaged"),
        (encode(Image.fromarray(COLOURS), "PNG")[:20] + bytes(200), "is damaged|is no picture"),
        (make_bomb(8000, 6251), r"too many pixels: 8,000 x 6,251, and at most 50,000,000"),
        (make_bomb(12_000, 9_000), "too many pixels"),  # of which Pillow itself warns,
        (make_bomb(60_000, 60_000), "too many pixels"),  # and which it refuses
        (make_bomb(100, 100), "is damaged"),
        (encode(Image.fromarray(np.zeros((2, 2), np.float32)), "TIFF"), "pixels that are fractions"),
    ],
)
def test_what_is_no_picture_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    path.write_bytes(content)
    with pytest.raises(PictureError, match=message):
        read_picture(str(path))


def test_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PictureError, match="there is no file .*nothing.png"):
        read_picture(tmp_path / "nothing.png")
    for wrong in (tmp_path, tmp_path / "a\0b"):
        with pytest.raises(PictureError, match="cannot be read"):
            read_picture(wrong)
    (tmp_path / "large.png").write_bytes(bytes(300))
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 200)
    with pytest.raises(PictureError, match="has more than 200 bytes"):
        read_picture(tmp_path / "large.png")


def test_without_pillow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    original = builtins.__import__

    def refuse(name: str, *given: Any, **more: Any) -> Any:
        if name == "PIL" or name.startswith("PIL."):
            raise ImportError(name)
        return original(name, *given, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(HeadwayError, match=r"pictures need Pillow. Install it: pip install headway\[pictures\]"):
        import_pillow()


def test_the_same_bytes_have_the_same_digest(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"same")
    assert hash_picture(tmp_path / "a.png") == hash_picture(str(tmp_path / "b.png"))
    assert hash_picture(RAMP) != hash_picture(RAMP.T) and hash_picture(RAMP) == hash_picture(RAMP.copy())


def test_pictures_of_a_folder(tmp_path: Path) -> None:
    for name in ("b/2.PNG", "b/1.jpeg", "a.txt", ".hidden/3.png", "b/.4.png", "5.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert [str(path.relative_to(tmp_path)) for path in find_pictures(tmp_path)] == ["5.webp", "b/1.jpeg", "b/2.PNG"]
