"""Text encoded anew for every epoch, its words split by chance, in processes of their own and some epochs ahead.

A GPU can be through a small text in less time than one process needs to encode it, so several do, an epoch each.

Each epoch is a folder, complete or absent. Some that are over stay for a while: batches are made ahead of time, so that
a run that is interrupted may have to go on with the epoch before, and other processes may not have opened it yet."""

import multiprocessing
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from headway.data.corpora import Readable
from headway.data.encoding import Side, encode_here
from headway.data.ragged import Rows, open_rows
from headway.data.workers import serve_parent
from headway.device import cores
from headway.text import Tokenizer

MOST = 12  # processes
LARGE = 1 << 27  # bytes of an epoch: then one is encoded ahead, and one kept behind

Portable = tuple[Readable, list[tuple[str, dict[str, Any], Sequence[int], Sequence[int]]]]


class EpochEncoder:
    """`writes`: this process makes the folders; of several that train together one does, and the others wait."""

    def __init__(
        self, folder: Path, corpora: Sequence[tuple[Readable, Sequence[Side]]], dropout: float, writes: bool = True
    ) -> None:
        self.folder, self.dropout, self.writes = folder, dropout, writes
        self.names = [[side.name for side in sides] for _, sides in corpora]
        self.corpora: list[Portable] = [
            (text, [(side.name, side.tokenizer.to_json(), side.lead, side.tail) for side in sides])
            for text, sides in corpora
        ]
        self.processes = max(1, min(MOST, cores() * 3 // 4))  # and so many epochs ahead, unless they are large
        self.pool: ProcessPoolExecutor | None = None
        self.ahead: dict[int, Future[None]] = {}

    def begin(self) -> None:
        """With a run that starts from nothing, before anybody asks. One that goes on knows later where it stands."""
        if self.writes and not self.folder.exists():
            self._begin(0, alone=True)

    def epoch(self, number: int) -> list[Rows]:
        """The rows of all sides of all corpora. Encoding of the next epochs begins."""
        if self.writes:
            self._begin(number, alone=True)
            self.ahead.pop(number).result()
            large = sum(file.stat().st_size for file in self._of(number).rglob("*") if file.is_file()) > LARGE
            for later in range(number + 1, number + 1 + (1 if large else self.processes)):
                self._begin(later, alone=large)
            self._forget_before(number - (1 if large else MOST))
        while not self._of(number).exists():
            time.sleep(0.1)
        places = [self._of(number) / str(index) for index in range(len(self.names))]
        return [open_rows(place, name) for place, names in zip(places, self.names) for name in names]

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, number: int, alone: bool) -> None:
        """`alone`: no other epoch is encoded beside it, so that it may have all cores."""
        if number in self.ahead:
            return
        if self.pool is None:
            self.pool = ProcessPoolExecutor(
                self.processes, multiprocessing.get_context("spawn"), initializer=serve_parent
            )
        self.ahead[number] = self.pool.submit(_encode, self._of(number), self.corpora, self.dropout, alone)

    def _of(self, number: int) -> Path:
        return self.folder / f"epoch-{number:06d}"

    def _forget_before(self, number: int) -> None:
        for folder in self.folder.glob("*epoch-*"):
            if folder.name.lstrip(".") < self._of(max(number, 0)).name:
                shutil.rmtree(folder, ignore_errors=True)


def _encode(folder: Path, corpora: Sequence[Portable], dropout: float, alone: bool = True) -> None:
    if folder.exists():
        return
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if alone else "false"
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    for index, (text, sides) in enumerate(corpora):
        place = partial / str(index)
        place.mkdir(parents=True)
        known = [Side(name, Tokenizer(dict(data)), lead, tail) for name, data, lead, tail in sides]
        encode_here(place, text.read(), known, dropout)
    try:
        os.replace(partial, folder)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if not folder.exists():  # else another run was faster, and is told that it is not the only one
            raise
