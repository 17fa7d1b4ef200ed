"""Pictures to learn from, decoded when they are collated.

Augmentation draws from the random numbers of the batch, so that a run that is resumed sees the same variants."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headway.data.labelled_files import PictureFile
from headway.data.pictures.loading import PictureLoader
from headway.nn.frontends.frontend import PatchBatch
from headway.nn.frontends.patches import stack_patches


class PictureExample(NamedTuple):
    """One labelled picture."""

    picture: PictureFile
    target: np.ndarray  # (1,) the label
    loader: PictureLoader


def collate_pictures(examples: Sequence[PictureExample], random: np.random.Generator) -> PatchBatch:
    return stack_patches([example.loader.load(example.picture, random) for example in examples])
