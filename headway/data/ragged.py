"""Many short rows of ids in one array: in memory, or mapped from files that can be larger than it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from headway.errors import HeadwayError


class Rows:
    """Row i is flat[ends[i - 1] : ends[i]]."""

    def __init__(self, flat: np.ndarray, ends: np.ndarray) -> None:
        self.flat, self.ends = flat, ends

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.flat[self.ends[row - 1] if row else 0 : self.ends[row]]

    def take(self, rows: np.ndarray) -> "Rows":
        """Copies of these rows, all at once: one by one they take longer than a GPU does over a batch of them."""
        ends = np.asarray(self.ends[rows])
        lengths = ends - np.where(rows, self.ends[rows - 1], 0)
        stops = np.cumsum(lengths)
        places = np.arange(lengths.sum()) + np.repeat(ends - stops, lengths)
        return Rows(self.flat[places], stops)

    def framed(self, lead: Sequence[int], tail: Sequence[int]) -> "Rows":
        """With the same few before and behind every row."""
        stops = self.ends + (len(lead) + len(tail)) * np.arange(1, len(self) + 1)
        starts = stops - self.lengths() - len(lead) - len(tail)
        flat = np.empty(len(self.flat) + (len(lead) + len(tail)) * len(self), np.int64)
        own = np.ones(len(flat), bool)
        for places, extra in ((starts, lead), (stops - len(tail), tail)):
            for offset, token in enumerate(extra):
                flat[places + offset] = token
                own[places + offset] = False
        flat[own] = self.flat
        return Rows(flat, stops)

    def lengths(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Of the rows from `start` to `stop`."""
        ends = np.asarray(self.ends[start:stop])
        return np.diff(ends, prepend=self.ends[start - 1] if start and len(ends) else 0)


def rows_of(lists: Sequence[Sequence[int]], lead: Sequence[int] = (), tail: Sequence[int] = ()) -> Rows:
    """Lists of ids as rows, with the same few before and behind every one."""
    extra = len(lead) + len(tail)
    ends = np.cumsum([len(ids) + extra for ids in lists], dtype=np.int64)
    count = int(ends[-1]) if len(ends) else 0
    if not extra:
        return Rows(np.fromiter((i for ids in lists for i in ids), np.int32, count), ends)
    return Rows(np.fromiter((i for ids in lists for i in (*lead, *ids, *tail)), np.int32, count), ends)


def together(rows: Sequence[np.ndarray]) -> Rows:
    """Arrays of ids as rows."""
    return Rows(np.concatenate([np.zeros(0, np.int64), *rows]), np.cumsum([len(row) for row in rows], dtype=np.int64))


def joined(parts: Sequence[Rows]) -> Rows:
    """One behind the other."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.flat) for part in parts[:-1])])
    ends = [part.ends + start for part, start in zip(parts, before)]
    return Rows(np.concatenate([part.flat for part in parts]), np.concatenate(ends))


class RowsWriter:
    """Rows onto the end of two files, NAME.ids and NAME.ends: plain numbers, little-endian, no header."""

    def __init__(self, folder: Path, name: str, largest: int) -> None:
        self.dtype = dtype_for(largest)
        self.ids = (folder / f"{name}.{self.dtype}.ids").open("wb")
        self.ends = (folder / f"{name}.ends").open("wb")
        self.total = 0

    def append(self, rows: Rows) -> None:
        rows.flat.astype(self.dtype).tofile(self.ids)
        (rows.ends + self.total).astype("<i8").tofile(self.ends)
        self.total += len(rows.flat)

    def __enter__(self) -> "RowsWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ids.close()
        self.ends.close()


def dtype_for(largest: int) -> str:
    """Two bytes an id where they are enough."""
    return "u2" if largest < 2**16 else "u4"


def open_rows(folder: Path, name: str) -> Rows:
    """Rows that were written; nothing is read before it is asked for."""
    found = list(folder.glob(f"{name}.u?.ids"))
    if len(found) != 1 or not (folder / f"{name}.ends").exists():
        raise HeadwayError(f"{folder} does not hold the rows {name}.")
    flat, ends = _mapped(found[0], f"<{found[0].suffixes[-2][1:]}"), _mapped(folder / f"{name}.ends", "<i8")
    if (int(ends[-1]) if len(ends) else 0) != len(flat):
        raise HeadwayError(f"{found[0]} is cut off or damaged.")
    return Rows(flat, ends)


def _mapped(path: Path, dtype: str) -> np.ndarray:
    if path.stat().st_size % np.dtype(dtype).itemsize:
        raise HeadwayError(f"{path} is cut off or damaged.")
    if not path.stat().st_size:
        return np.zeros(0, dtype)  # an empty file cannot be mapped
    return np.asarray(np.memmap(path, dtype, mode="r"))  # a plain array, of which rows are cut off faster


def stretches(count: int, size: int = 1 << 20) -> Iterator[tuple[int, int]]:
    """0 to `count` in pieces, for passes whose memory must not grow with a corpus."""
    for start in range(0, count, size):
        yield start, min(start + size, count)
