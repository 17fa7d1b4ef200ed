"""Datasets of labelled pictures: LabelledData ─► PictureDataset ─► EpochShard ─► collate_pictures() ─► PatchBatch."""

import numpy as np

from headway.config.config import Config
from headway.data.labelled_files import LabelledData
from headway.data.pictures.loading import PictureLoader
from headway.data.pictures.transforms import count_patches
from headway.errors import ConfigError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.picture_examples import PictureExample
from headway.train.task_dataset import TaskDataset


class PictureDataset(TaskDataset):
    """Labelled pictures. A label that the model does not know has no loss."""

    def __init__(self, data: LabelledData, config: Config, augmented: bool) -> None:
        settings = config.model.encoder.frontend
        if settings is None or settings.reads != "pictures":
            raise ConfigError(
                "the data holds pictures, and this model reads "
                f"{'text' if settings is None else settings.reads}. Choose --preset vit_tiny, or set "
                'model.encoder.frontend = "patches(16)".',
                "model.encoder",
            )
        augmentation = config.train.augmentation
        is_changed = augmented and augmentation is not None and augmentation.kind != "none"
        self.loader = PictureLoader(settings, augmentation if is_changed else None)
        self.data = data
        index = {label: number for number, label in enumerate(config.labels or ())}
        self.examples = [
            PictureExample(e.picture, np.array([index.get(e.labels[0], IGNORE_INDEX)], np.int64), self.loader)
            for e in data.examples
            if e.picture is not None
        ]
        grids = [count_patches(width, height, settings) for width, height in (e.picture.size for e in self.examples)]
        patches = [rows * columns for rows, columns in grids]
        self.lengths = np.zeros((len(patches), 2), np.int64)
        self.lengths[:, 0] = np.array(patches, np.int64) + settings.class_token
        self.empty_count = data.empty_count
        self.cut_count = self.too_long_count = 0
        self.limit = config.train.max_tokens


def make_task_datasets(
    data: LabelledData, valid: LabelledData, tokenizer: Tokenizer, config: Config
) -> tuple[TaskDataset, TaskDataset]:
    """For training and for validation: of pictures, or of text."""
    if data.pictures:
        return PictureDataset(data, config, augmented=True), PictureDataset(valid, config, augmented=False)
    return TaskDataset(data, tokenizer, config), TaskDataset(valid, tokenizer, config)
