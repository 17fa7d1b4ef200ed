"""Translated files that wait to be fetched: under names that nobody can guess, for a while, and only so many."""

import re
import secrets
import tempfile
import time
from pathlib import Path

from headway.serve.errors import ApiError, slow_down
from headway.serve.settings import Limits

NAME = re.compile(r"[0-9a-f]{32}\.[a-z0-9]{1,8}")


class Files:
    def __init__(self, folder: str | None, limits: Limits) -> None:
        """folder: shared by the processes of one server; None: one of our own, gone when the program ends."""
        self._own = tempfile.TemporaryDirectory(prefix="headway-files-") if folder is None else None
        self.folder = Path(folder if folder is not None else self._own.name)  # type: ignore[union-attr]
        self.limits = limits

    def close(self) -> None:
        if self._own is not None:
            self._own.cleanup()

    def new(self, suffix: str) -> Path:
        """Where a file may be written. The suffix is one of ours: ".txt"."""
        self._clear()
        if sum(1 for _ in self.folder.iterdir()) >= self.limits.files:
            raise slow_down(self.limits.kept / 10)
        return self.folder / f"{secrets.token_hex(16)}{suffix}"

    def find(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise ApiError(400, "Invalid filename")
        path = self.folder / name
        if not path.is_file() or time.time() - path.stat().st_mtime > self.limits.kept:
            raise ApiError(404, "there is no such file: it may have been kept for long enough")
        return path

    def _clear(self) -> None:
        old = time.time() - self.limits.kept
        for path in self.folder.iterdir():
            try:
                if path.stat().st_mtime < old:
                    path.unlink()
            except FileNotFoundError:  # another process was faster
                continue
