"""Pictures as a model reads them, decoded when they are needed; small ones are kept in memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.data.labelled_files import PictureFile
from headway.data.pictures.augment import AugmentationSettings, augment_picture
from headway.data.pictures.files import import_pillow, read_picture
from headway.data.pictures.transforms import PatchArray, PictureSettings, cut_patches, fit_picture

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_CACHED_BYTES = 1 << 29  # of pixels, over all pictures of a loader
SPARE = 1.5  # a picture that will be cut is kept larger than the model reads, by this factor


class PictureLoader:
    """load(picture, random) -> its patches. With augmentation each call gives another variant, by the random numbers;
    without, always the same."""

    def __init__(
        self,
        settings: PictureSettings,
        augmentation: AugmentationSettings | None = None,
        max_bytes: int = MAX_CACHED_BYTES,
    ) -> None:
        self.settings = settings
        self.augmentation = augmentation
        self.left = max_bytes
        self.kept: dict[str, Any] = {}  # by digest: pixels at the size that is read; to be augmented, a smaller image

    def load(self, picture: PictureFile, random: np.random.Generator) -> PatchArray:
        prepared = self.kept.get(picture.digest)
        if prepared is None:
            prepared = self._prepare(read_picture(picture.source))
            size = prepared.nbytes
            if size <= self.left:
                self.left -= size
                self.kept[picture.digest] = prepared
        if self.augmentation is None:
            return cut_patches(prepared, self.settings)
        image = augment_picture(import_pillow().fromarray(prepared), self.augmentation, random)
        return cut_patches(fit_picture(image, self.settings), self.settings)

    def load_all(self, pictures: Sequence[PictureFile], random: np.random.Generator) -> list[PatchArray]:
        return [self.load(picture, random) for picture in pictures]

    def _prepare(self, image: "Image") -> np.ndarray:
        if self.augmentation is None:
            return fit_picture(image, self.settings)
        image = image.convert("L" if self.settings.channels == 1 else "RGB")
        largest = round(self.settings.size * SPARE)
        scale = largest / min(image.size)
        if scale < 1:
            image = image.resize((max(round(image.width * scale), 1), max(round(image.height * scale), 1)))
        return np.asarray(image)
