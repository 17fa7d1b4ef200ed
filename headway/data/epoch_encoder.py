"""EpochEncoder: with BPE dropout, text is encoded again for every epoch, in worker processes and some epochs ahead.

A GPU can train on a small text in less time than one process needs to encode it, so several processes encode an epoch
each.

Each epoch is a folder that is complete or absent. Past epochs are kept for a while: batches are prefetched, so that an
interrupted run may resume in the epoch before, and other processes may not have opened theirs yet."""

import multiprocessing
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from headway.data.corpora import PairSource
from headway.data.encoding import EncodedSide, encode_in_process
from headway.data.ragged import RaggedArray, open_ragged
from headway.data.workers import tie_to_parent
from headway.device import available_cores
from headway.files.atomic import atomic_directory
from headway.text.tokenizer.tokenizer import Tokenizer

MAX_PROCESSES = 12
LARGE_EPOCH_BYTES = 1 << 27  # above it only one epoch is encoded ahead, and one past epoch kept

PicklableCorpus = tuple[PairSource, list[tuple[str, dict[str, Any], Sequence[int], Sequence[int]]]]


class EpochEncoder:
    """`writes`: whether this process makes the folders. With several processes one does, and the others wait."""

    def __init__(
        self,
        folder: Path,
        corpora: Sequence[tuple[PairSource, Sequence[EncodedSide]]],
        dropout: float,
        writes: bool = True,
    ) -> None:
        self.folder = folder
        self.dropout = dropout
        self.writes = writes
        self.names = [[side.name for side in sides] for _, sides in corpora]
        self.corpora: list[PicklableCorpus] = [
            (text, [(side.name, side.tokenizer.to_json(), side.lead, side.tail) for side in sides])
            for text, sides in corpora
        ]
        self.processes = max(1, min(MAX_PROCESSES, available_cores() * 3 // 4))  # also the number of epochs ahead
        self.pool: ProcessPoolExecutor | None = None
        self.pending: dict[int, Future[None]] = {}

    def begin(self) -> None:
        """Start encoding the first epoch of a new run. A resumed run learns its epoch later."""
        if self.writes and not self.folder.exists():
            self._submit(0, alone=True)

    def epoch(self, number: int) -> list[RaggedArray]:
        """The rows of all sides of all corpora. Starts encoding the next epochs."""
        if self.writes:
            self._submit(number, alone=True)
            self.pending.pop(number).result()
            large = (
                sum(file.stat().st_size for file in self._epoch_folder(number).rglob("*") if file.is_file())
                > LARGE_EPOCH_BYTES
            )
            for later in range(number + 1, number + 1 + (1 if large else self.processes)):
                self._submit(later, alone=large)
            self._delete_before(number - (1 if large else MAX_PROCESSES))
        while not self._epoch_folder(number).exists():
            time.sleep(0.1)
        folders = [self._epoch_folder(number) / str(index) for index in range(len(self.names))]
        return [open_ragged(folder, name) for folder, names in zip(folders, self.names) for name in names]

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, number: int, alone: bool) -> None:
        """`alone`: no other epoch is encoded at the same time, so that this one may use all cores."""
        if number in self.pending:
            return
        if self.pool is None:
            self.pool = ProcessPoolExecutor(
                self.processes, multiprocessing.get_context("spawn"), initializer=tie_to_parent
            )
        self.pending[number] = self.pool.submit(
            _encode_epoch, self._epoch_folder(number), self.corpora, self.dropout, alone
        )

    def _epoch_folder(self, number: int) -> Path:
        return self.folder / f"epoch-{number:06d}"

    def _delete_before(self, number: int) -> None:
        for folder in self.folder.glob("*epoch-*"):
            if folder.name.lstrip(".") < self._epoch_folder(max(number, 0)).name:
                shutil.rmtree(folder, ignore_errors=True)


def _encode_epoch(folder: Path, corpora: Sequence[PicklableCorpus], dropout: float, alone: bool = True) -> None:
    if folder.exists():
        return
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if alone else "false"
    with atomic_directory(folder, exist_ok=True) as partial:  # another run may have made it first
        for index, (text, sides) in enumerate(corpora):
            (partial / str(index)).mkdir()
            encoded_sides = [EncodedSide(name, Tokenizer(dict(data)), lead, tail) for name, data, lead, tail in sides]
            encode_in_process(partial / str(index), text.read(), encoded_sides, dropout)
