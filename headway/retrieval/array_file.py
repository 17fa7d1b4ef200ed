"""Arrays of rows in plain files: little-endian numbers without a header, appended to block by block, and mapped into
memory to be read. A run that was interrupted goes on behind the last complete row."""

import os
from pathlib import Path
from types import TracebackType

import numpy as np

from headway.errors import HeadwayError


class ArrayWriter:
    """Appends rows to PATH.partial, which becomes PATH when it is complete."""

    def __init__(self, path: Path, width: int, dtype: str) -> None:
        self.path = path
        self.partial = path.with_name(f"{path.name}.partial")
        self.dtype = np.dtype(dtype)
        self.width = width
        row_bytes = width * self.dtype.itemsize
        self.file = self.partial.open("ab")
        self.rows = self.file.tell() // row_bytes  # found from an earlier run
        self.file.truncate(self.rows * row_bytes)
        self.file.seek(0, os.SEEK_END)

    def append(self, block: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(block, self.dtype).tobytes())
        self.file.flush()
        self.rows += len(block)

    def finish(self) -> None:
        os.fsync(self.file.fileno())
        os.replace(self.partial, self.path)

    def __enter__(self) -> "ArrayWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.file.close()


def write_array(path: Path, rows: np.ndarray, dtype: str) -> None:
    """All at once."""
    path.with_name(f"{path.name}.partial").unlink(missing_ok=True)
    with ArrayWriter(path, int(np.prod(rows.shape[1:], dtype=int)), dtype) as writer:
        writer.append(rows)
        writer.finish()


def map_array(path: Path, width: int, dtype: str, rows: int | None = None) -> np.ndarray:
    """(rows, width), mapped into memory. `rows`: how many there must be."""
    row_bytes = width * np.dtype(dtype).itemsize
    try:
        size = path.stat().st_size
    except OSError as error:
        raise HeadwayError(f"{path} cannot be read: {error.strerror}. Build the index again.") from None
    if size % row_bytes or (rows is not None and size != rows * row_bytes):
        raise HeadwayError(f"{path} is truncated or damaged. Build the index again, with --overwrite.")
    if not size:
        return np.zeros((0, width), dtype)
    return np.asarray(np.memmap(path, dtype, mode="r")).reshape(-1, width)
