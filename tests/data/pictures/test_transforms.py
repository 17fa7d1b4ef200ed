"""Pictures at the size that a model reads, their patches, and random variants of them."""

import numpy as np
import pytest
import torch
from PIL import Image

from headway.data.labelled_files import PictureFile
from headway.data.pictures.augment import augment_picture, change_colours, choose_box
from headway.data.pictures.files import hash_picture
from headway.data.pictures.loading import PictureLoader
from headway.data.pictures.transforms import count_patches, cut_patches, fit_picture
from headway.nn.frontends.patches import Patches
from headway.train.augmentation import PictureAugmentation

RANDOM = np.random.default_rng(0)


def noise(width: int, height: int, channels: int = 3) -> np.ndarray:
    pixels = RANDOM.integers(0, 256, (height, width, channels)).astype(np.uint8)
    return pixels if channels == 3 else pixels[..., 0]


def settings(**changes: object) -> Patches.Config:
    return Patches.Config(**{"patch": 4, "size": 16, **changes})  # type: ignore[arg-type]


def test_patches_are_those_of_a_convolution() -> None:
    pixels = noise(12, 8)
    found = cut_patches(pixels, settings(mean=[0.1, 0.2, 0.3], deviation=[0.5]))
    scaled = (torch.from_numpy(pixels).permute(2, 0, 1) / 255 - torch.tensor([0.1, 0.2, 0.3])[:, None, None]) / 0.5
    expected = torch.nn.functional.unfold(scaled[None], 4, stride=4)[0].T
    assert found.grid == (2, 3) and found.values.dtype == np.float32
    np.testing.assert_allclose(found.values, expected.numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("fit", ["stretch", "crop", "keep"])
@pytest.mark.parametrize(("width", "height"), [(16, 16), (40, 12), (5, 31), (1, 1), (3000, 2), (2, 3000), (17, 16)])
def test_any_size_fits(fit: str, width: int, height: int) -> None:
    own = settings(fit=fit)
    pixels = fit_picture(Image.fromarray(noise(width, height)), own)
    rows, columns = count_patches(width, height, own)
    assert pixels.shape == (4 * rows, 4 * columns, 3) and cut_patches(pixels, own).grid == (rows, columns)
    assert 1 <= rows * columns <= 16
    if fit != "keep":
        assert (rows, columns) == (4, 4)


@pytest.mark.parametrize(
    ("width", "height", "grid"),
    [(16, 16, (4, 4)), (8, 8, (2, 2)), (64, 16, (2, 8)), (12, 20, (5, 3)), (800, 2, (1, 16))],
)
def test_pictures_keep_their_shape(width: int, height: int, grid: tuple[int, int]) -> None:
    assert count_patches(width, height, settings(fit="keep")) == grid


def test_the_middle_is_cut_out() -> None:
    pixels = np.zeros((16, 48, 3), np.uint8)
    pixels[:, 16:32] = 200
    assert (fit_picture(Image.fromarray(pixels), settings(fit="crop")) == 200).all()


def test_channels_are_those_of_the_model() -> None:
    for channels in (1, 3):
        for image in (Image.fromarray(noise(16, 16)), Image.fromarray(noise(16, 16, 1))):
            assert fit_picture(image, settings(channels=channels)).shape == (16, 16, channels)


def test_augmentation_is_random_and_repeatable() -> None:
    image = Image.fromarray(noise(20, 12))
    for channels in (1, 3):
        image = Image.fromarray(noise(20, 12, channels))
        strong = PictureAugmentation.Config(crop=0.3, turn=20)
        first, second, other = (
            np.asarray(augment_picture(image, strong, np.random.default_rng(seed))) for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, second)
        assert first.shape != other.shape or (first != other).any()
    off = PictureAugmentation.Config(crop=1, flip=0, colour=0)
    np.testing.assert_array_equal(augment_picture(image, off, np.random.default_rng(1)), np.asarray(image))
    mirrored = augment_picture(image, PictureAugmentation.Config(crop=1, flip=1, colour=0), np.random.default_rng(1))
    np.testing.assert_array_equal(np.asarray(mirrored), np.asarray(image)[:, ::-1])


def test_boxes_are_within_their_limits() -> None:
    random = np.random.default_rng(0)
    own = PictureAugmentation.Config(crop=0.25, aspect=2)
    shares = []
    for _ in range(300):
        left, top, right, bottom = choose_box((100, 60), own, random)
        assert 0 <= left < right <= 100 and 0 <= top < bottom <= 60
        shares.append((right - left) * (bottom - top) / 6000)
        assert 0.45 <= (right - left) / (bottom - top) / (100 / 60) <= 2.2
    assert 0.23 < min(shares) < 0.35 and max(shares) > 0.85
    assert choose_box((1, 1), own, random) == (0, 0, 1, 1)


def test_colours_stay_in_range() -> None:
    image = Image.fromarray(noise(8, 8))
    for seed in range(20):
        changed = change_colours(image, 0.9, np.random.default_rng(seed))
        assert changed.mode == "RGB" and changed.size == image.size
    grey = change_colours(Image.fromarray(np.full((4, 4), 100, np.uint8)), 0.2, np.random.default_rng(1))
    assert 80 <= np.asarray(grey).min() == np.asarray(grey).max() <= 120


@pytest.mark.parametrize("max_bytes", [0, 1 << 20])
def test_a_loader_gives_the_same_with_and_without_memory(max_bytes: int) -> None:
    pixels = noise(70, 50)
    picture = PictureFile(pixels, hash_picture(pixels), (70, 50), False)
    plain = PictureLoader(settings(), None, max_bytes)
    for _ in range(2):
        found = plain.load(picture, np.random.default_rng(0))
        expected = cut_patches(fit_picture(Image.fromarray(pixels), settings()), settings())
        np.testing.assert_array_equal(found.values, expected.values)
    assert len(plain.kept) == (max_bytes > 0)
    changing = PictureLoader(settings(), PictureAugmentation.Config(crop=0.3), max_bytes)
    first, second = (changing.load(picture, np.random.default_rng(seed)).values for seed in (1, 2))
    assert (first != second).any()
    np.testing.assert_array_equal(changing.load(picture, np.random.default_rng(1)).values, first)
