"""A file that is written over hours, group by group, and goes on where it was stopped."""

import fcntl
import gzip
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from headway.config.config import write_atomically
from headway.errors import HeadwayError

Counts = dict[str, int]
Begin = Literal["new", "resume", "overwrite"]


class GrowingFile:
    """FILE.partial grows, FILE.progress says how far it came, and FILE is there only when it is complete.

    A group counts once FILE.progress knows of it: what a killed process wrote after that is cut off, and done again.
    Each group of a packed file (.gz, .xz, .zst) is packed by itself, so that it can be cut there.
    """

    def __init__(self, path: Path, begin: Begin, options: dict[str, Any], counts: Counts) -> None:
        """`options`: what must be the same to go on. `counts`: those of a beginning; see self.counts for those found."""
        self.path, self.counts = path, dict(counts)
        self.options = json.loads(json.dumps(options))  # as they are read back
        self.partial = path.with_name(f"{path.name}.partial")
        self.progress = path.with_name(f"{path.name}.progress")
        self._refuse(begin)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = self.partial.open("ab")
        try:
            self._lock()
            self.file.truncate(self._known(counts) if begin == "resume" else 0)
            self.file.seek(0, os.SEEK_END)
            if begin != "resume":
                self.progress.unlink(missing_ok=True)
        except BaseException:
            self.file.close()
            raise

    def _refuse(self, begin: Begin) -> None:
        if begin == "new" and self.partial.exists():
            raise HeadwayError(
                f"{self.partial} is what a stopped run has left. Go on with --resume, or start anew with --overwrite."
            )
        if begin == "new" and self.path.exists():
            raise HeadwayError(f"{self.path} exists already. Choose another --out, or write over it with --overwrite.")

    def _lock(self) -> None:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeadwayError(
                f"another run is writing to {self.path}. Wait for its end, stop it, or choose another --out."
            ) from None

    def _known(self, counts: Counts) -> int:
        """How many bytes are sound, and into self.counts what they hold. Without FILE.progress, no group was."""
        if not self.progress.exists():
            return 0
        try:
            table = json.loads(self.progress.read_bytes())
            options, size, found = table["options"], table["bytes"], table["counts"]
            numbers = [size, *(found[name] for name in counts)]
            sound = isinstance(options, dict) and all(isinstance(number, int) and number >= 0 for number in numbers)
        except (ValueError, RecursionError, KeyError, TypeError):
            sound = False
        if not sound or size > self.partial.stat().st_size:
            raise HeadwayError(f"{self.progress} does not fit {self.partial}. Start anew with --overwrite.")
        for name, value in self.options.items():
            if options.get(name) != value:
                raise HeadwayError(
                    f"{self.partial} was begun with {name} {options.get(name)!r}, and this is {value!r}. Give the same, "
                    "or start anew with --overwrite."
                )
        self.counts = {name: found[name] for name in counts}
        return int(size)

    def add(self, text: str, counts: Counts) -> None:
        """One group more, and what the counts are with it."""
        self.file.write(packer(self.path)(text.encode("utf-8")))
        self.file.flush()
        os.fsync(self.file.fileno())  # or FILE.progress might reach the disk before what it speaks of
        self.counts = dict(counts)
        table = {"options": self.options, "bytes": self.file.tell(), "counts": counts}
        write_atomically(self.progress, json.dumps(table) + "\n")

    def finish(self) -> None:
        os.replace(self.partial, self.path)
        self.progress.unlink(missing_ok=True)

    def __enter__(self) -> "GrowingFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def packer(path: Path) -> Callable[[bytes], bytes]:
    """What packs a group, by the file's name. Nothing becomes nothing: an empty group adds no bytes."""
    if path.suffix == ".gz":
        return lambda data: gzip.compress(data, mtime=0) if data else b""
    if path.suffix == ".xz":
        return lambda data: lzma.compress(data) if data else b""
    if path.suffix == ".zst":
        import zstandard

        return lambda data: zstandard.ZstdCompressor().compress(data) if data else b""
    return lambda data: data
