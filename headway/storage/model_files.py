"""The files of a model directory as they were when it was opened: what is read later must be of the same model."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headway.errors import HeadwayError

MODEL_FILES = ("config.json", "tokenizer.json", "model.safetensors")


class FileVersion(NamedTuple):
    """Another file has another one, even under the same name."""

    device: int
    inode: int
    size: int
    modified_ns: int


FileVersions = tuple[FileVersion | None, ...]


def list_versions(folder: str | Path) -> FileVersions:
    """Of the files that must belong together; None for one that is missing."""
    return tuple(_read_version(Path(folder) / name) for name in MODEL_FILES)


def _read_version(path: Path) -> FileVersion | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return FileVersion(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def refuse_replaced(folders: Sequence[str | Path], opened: Sequence[FileVersions]) -> None:
    """Raise HeadwayError if the files of a model directory are no longer those that were opened."""
    for folder, versions in zip(folders, opened):
        if list_versions(folder) != versions:
            raise HeadwayError(
                f"{folder} was replaced by another model while it was in use. Load it again, or run the command again."
            )
