"""Lines into ids, in arrays; and anew for every epoch, in a process of its own, where subwords are split by chance."""

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor

import numpy as np

from headway.text import Tokenizer


class Rows:
    """Many short rows of ids in one array."""

    def __init__(self, flat: np.ndarray, ends: np.ndarray) -> None:
        self.flat, self.ends = flat, ends

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.flat[self.ends[row - 1] if row else 0 : self.ends[row]]

    def lengths(self) -> np.ndarray:
        return np.diff(self.ends, prepend=0)


def encode_rows(
    tokenizer: Tokenizer, lines: Sequence[str], dropout: float = 0.0, lead: Sequence[int] = (), tail: Sequence[int] = ()
) -> Rows:
    """The ids of each line, with the same few before and behind every one."""
    rows = tokenizer.encode_batch(lines, dropout=dropout)
    extra = len(lead) + len(tail)
    ends = np.cumsum([len(row) + extra for row in rows], dtype=np.int64)
    flat = np.fromiter((i for row in rows for i in (*lead, *row, *tail)), np.int32, int(ends[-1]) if len(ends) else 0)
    return Rows(flat, ends)


Side = tuple[dict[str, object], Sequence[str], Sequence[int], Sequence[int]]  # tokenizer, lines, lead, tail


class EpochEncoder:
    """Encodes sides of a corpus with dropout, one epoch ahead. Without a process of its own this work would hold
    Python's lock while the GPU waits."""

    def __init__(self, sides: Sequence[Side], dropout: float) -> None:
        self.pool = ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(list(sides), dropout)
        )

    def epochs(self) -> Iterator[list[Rows]]:
        """One list of rows a side, for epoch after epoch."""
        ahead: Future[list[Rows]] = self.pool.submit(_encode)
        while True:
            ready, ahead = ahead.result(), self.pool.submit(_encode)
            yield ready

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


_work: list[tuple[Tokenizer, Sequence[str], float, Sequence[int], Sequence[int]]] = []


def _begin(sides: Sequence[Side], dropout: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training, which then ends this process
    for data, lines, lead, tail in sides:
        _work.append((Tokenizer(dict(data)), lines, dropout, lead, tail))


def _encode() -> list[Rows]:
    return [encode_rows(*side) for side in _work]
