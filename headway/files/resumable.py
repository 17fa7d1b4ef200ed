"""A resumable output file: written over hours in groups, continued after an interruption where it stopped."""

import bz2
import fcntl
import gzip
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically

Counts = dict[str, int]
StartMode = Literal["new", "resume", "overwrite"]


class ResumableFile:
    """FILE.partial grows, FILE.progress records how far it is valid, and FILE exists only when it is complete.

    A group counts once it is recorded in FILE.progress: on resuming, what a killed process wrote after that is cut off
    and written again. In a compressed file (.gz, .bz2, .xz, .zst) each group is compressed by itself, so that the file
    can be cut there.
    """

    def __init__(self, path: Path, mode: StartMode, options: dict[str, Any], counts: Counts) -> None:
        """`options` must be the same to resume. `counts`: the initial ones; self.counts has those found."""
        self.path = path
        self.counts = dict(counts)
        self.options = json.loads(json.dumps(options))  # as they will be read back
        self.partial = path.with_name(f"{path.name}.partial")
        self.progress = path.with_name(f"{path.name}.progress")
        if mode == "new":
            self._refuse_existing()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = self.partial.open("ab")
        try:
            self._lock()
            self.file.truncate(self._read_progress(counts) if mode == "resume" else 0)
            self.file.seek(0, os.SEEK_END)
            if mode != "resume":
                self.progress.unlink(missing_ok=True)
        except BaseException:
            self.file.close()
            raise

    def _refuse_existing(self) -> None:
        if self.partial.exists():
            raise HeadwayError(
                f"{self.partial} is left over from an interrupted run. Continue it with --resume, or start over with "
                "--overwrite."
            )
        if self.path.exists():
            raise HeadwayError(f"{self.path} already exists. Choose another --out, or overwrite it with --overwrite.")

    def _lock(self) -> None:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeadwayError(
                f"another run is writing to {self.path}. Wait until it ends, stop it, or choose another --out."
            ) from None

    def _read_progress(self, counts: Counts) -> int:
        """The number of valid bytes in FILE.partial; sets self.counts. Without FILE.progress no group was completed."""
        if not self.progress.exists():
            return 0
        try:
            table = json.loads(self.progress.read_bytes())
            options, size, saved_counts = table["options"], table["bytes"], table["counts"]
            numbers = [size, *(saved_counts[name] for name in counts)]
            valid = isinstance(options, dict) and all(isinstance(number, int) and number >= 0 for number in numbers)
        except (ValueError, RecursionError, KeyError, TypeError):
            valid = False
        if not valid or size > self.partial.stat().st_size:
            raise HeadwayError(f"{self.progress} does not match {self.partial}. Start over with --overwrite.")
        for name, value in self.options.items():
            if options.get(name) != value:
                raise HeadwayError(
                    f"{self.partial} was started with {name} {options.get(name)!r}, not {value!r}. Give the same "
                    "value, or start over with --overwrite."
                )
        self.counts = {name: saved_counts[name] for name in counts}
        return int(size)

    def add(self, text: str, counts: Counts) -> None:
        """Append a group and record the counts that include it."""
        self.file.write(make_compressor(self.path)(text.encode("utf-8")))
        self.file.flush()
        os.fsync(self.file.fileno())  # or FILE.progress might reach the disk before the bytes that it describes
        self.counts = dict(counts)
        table = {"options": self.options, "bytes": self.file.tell(), "counts": counts}
        write_text_atomically(self.progress, json.dumps(table) + "\n")

    def finish(self) -> None:
        """Give the complete file its name."""
        os.replace(self.partial, self.path)
        self.progress.unlink(missing_ok=True)

    def __enter__(self) -> "ResumableFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def make_compressor(path: Path) -> Callable[[bytes], bytes]:
    """What compresses a group, by the file's suffix. An empty group adds no bytes."""
    if path.suffix == ".gz":
        return lambda data: gzip.compress(data, mtime=0) if data else b""
    if path.suffix == ".bz2":
        return lambda data: bz2.compress(data) if data else b""
    if path.suffix == ".xz":
        return lambda data: lzma.compress(data) if data else b""
    if path.suffix == ".zst":
        import zstandard

        return lambda data: zstandard.ZstdCompressor().compress(data) if data else b""
    return lambda data: data
