"""RaggedArray: many rows of token ids in one flat array, in memory or memory-mapped from files that may be larger."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from headway.errors import HeadwayError


class RaggedArray:
    """Rows of different lengths. Row i is flat[ends[i - 1] : ends[i]]."""

    def __init__(self, flat: np.ndarray, ends: np.ndarray) -> None:
        self.flat = flat
        self.ends = ends

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.flat[self.ends[row - 1] if row else 0 : self.ends[row]]

    def take(self, rows: np.ndarray) -> "RaggedArray":
        """Copies of these rows, all at once: one by one takes longer than a GPU takes over the batch."""
        ends = np.asarray(self.ends[rows])
        lengths = ends - np.where(rows, self.ends[rows - 1], 0)
        stops = np.cumsum(lengths)
        indices = np.arange(lengths.sum()) + np.repeat(ends - stops, lengths)
        return RaggedArray(self.flat[indices], stops)

    def wrap_rows(self, lead: Sequence[int], tail: Sequence[int]) -> "RaggedArray":
        """With the ids `lead` before and `tail` behind every row."""
        stops = self.ends + (len(lead) + len(tail)) * np.arange(1, len(self) + 1)
        starts = stops - self.lengths() - len(lead) - len(tail)
        flat = np.empty(len(self.flat) + (len(lead) + len(tail)) * len(self), np.int64)
        is_row = np.ones(len(flat), bool)
        for indices, extra in ((starts, lead), (stops - len(tail), tail)):
            for offset, token in enumerate(extra):
                flat[indices + offset] = token
                is_row[indices + offset] = False
        flat[is_row] = self.flat
        return RaggedArray(flat, stops)

    def lengths(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """The lengths of the rows from `start` to `stop`."""
        ends = np.asarray(self.ends[start:stop])
        return np.diff(ends, prepend=self.ends[start - 1] if start and len(ends) else 0)


def ragged_from_lists(
    lists: Sequence[Sequence[int]], lead: Sequence[int] = (), tail: Sequence[int] = ()
) -> RaggedArray:
    """Lists of ids as rows, with the ids `lead` before and `tail` behind every one."""
    extra = len(lead) + len(tail)
    ends = np.cumsum([len(ids) + extra for ids in lists], dtype=np.int64)
    count = int(ends[-1]) if len(ends) else 0
    if not extra:
        return RaggedArray(np.fromiter((i for ids in lists for i in ids), np.int32, count), ends)
    return RaggedArray(np.fromiter((i for ids in lists for i in (*lead, *ids, *tail)), np.int32, count), ends)


def ragged_from_arrays(rows: Sequence[np.ndarray]) -> RaggedArray:
    """Arrays of ids as rows."""
    return RaggedArray(
        np.concatenate([np.zeros(0, np.int64), *rows]), np.cumsum([len(row) for row in rows], dtype=np.int64)
    )


def concatenate_ragged(parts: Sequence[RaggedArray]) -> RaggedArray:
    """All rows of several arrays, one array behind the other."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.flat) for part in parts[:-1])])
    ends = [part.ends + start for part, start in zip(parts, before)]
    return RaggedArray(np.concatenate([part.flat for part in parts]), np.concatenate(ends))


class RaggedWriter:
    """Appends rows to two files, NAME.ids and NAME.ends: plain little-endian numbers without a header."""

    def __init__(self, folder: Path, name: str, max_id: int) -> None:
        self.dtype = choose_id_dtype(max_id)
        self.ids = (folder / f"{name}.{self.dtype}.ids").open("wb")
        self.ends = (folder / f"{name}.ends").open("wb")
        self.total = 0

    def append(self, rows: RaggedArray) -> None:
        rows.flat.astype(self.dtype).tofile(self.ids)
        (rows.ends + self.total).astype("<i8").tofile(self.ends)
        self.total += len(rows.flat)

    def __enter__(self) -> "RaggedWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ids.close()
        self.ends.close()


def choose_id_dtype(max_id: int) -> str:
    """Two bytes an id if that is enough, else four."""
    return "u2" if max_id < 2**16 else "u4"


def open_ragged(folder: Path, name: str) -> RaggedArray:
    """The rows that a RaggedWriter has written, memory-mapped."""
    found = list(folder.glob(f"{name}.u?.ids"))
    if len(found) != 1 or not (folder / f"{name}.ends").exists():
        raise HeadwayError(f"{folder} does not hold the rows {name}.")
    flat = _map_file(found[0], f"<{found[0].suffixes[-2][1:]}")
    ends = _map_file(folder / f"{name}.ends", "<i8")
    if (int(ends[-1]) if len(ends) else 0) != len(flat):
        raise HeadwayError(f"{found[0]} is truncated or damaged.")
    return RaggedArray(flat, ends)


def _map_file(path: Path, dtype: str) -> np.ndarray:
    if path.stat().st_size % np.dtype(dtype).itemsize:
        raise HeadwayError(f"{path} is truncated or damaged.")
    if not path.stat().st_size:
        return np.zeros(0, dtype)  # an empty file cannot be mapped
    return np.asarray(np.memmap(path, dtype, mode="r"))  # slicing a plain array is faster than slicing a memmap


def iterate_ranges(count: int, size: int = 1 << 20) -> Iterator[tuple[int, int]]:
    """The ranges of `size` from 0 to `count`, for passes whose memory must not grow with the corpus."""
    for start in range(0, count, size):
        yield start, min(start + size, count)
