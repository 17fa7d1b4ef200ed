"""Translated files that wait to be downloaded: under names that cannot be guessed, for a limited time and number."""

import re
import secrets
import tempfile
import time
from pathlib import Path

from headway.serve.errors import ApiError, too_many_requests
from headway.serve.settings import Limits

NAME = re.compile(r"[0-9a-f]{32}\.[a-z0-9]{1,8}")


class Downloads:
    def __init__(self, folder: str | None, limits: Limits) -> None:
        """folder: shared by the processes of one server; None: a temporary one, deleted by `close`."""
        self._temporary = tempfile.TemporaryDirectory(prefix="headway-files-") if folder is None else None
        self.folder = Path(folder if folder is not None else self._temporary.name)  # type: ignore[union-attr]
        self.limits = limits

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def new_path(self, suffix: str) -> Path:
        """Where a file may be written. suffix: of a known format, such as ".txt"; never what a client sent."""
        self._delete_expired()
        if sum(1 for _ in self.folder.iterdir()) >= self.limits.stored_files:
            raise too_many_requests(self.limits.stored_seconds / 10)
        return self.folder / f"{secrets.token_hex(16)}{suffix}"

    def find(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise ApiError(400, "Invalid filename")
        path = self.folder / name
        if not path.is_file() or time.time() - path.stat().st_mtime > self.limits.stored_seconds:
            raise ApiError(404, "no such file: it may have expired. Translate the document again.")
        return path

    def _delete_expired(self) -> None:
        expired = time.time() - self.limits.stored_seconds
        for path in self.folder.iterdir():
            try:
                if path.stat().st_mtime < expired:
                    path.unlink()
            except FileNotFoundError:  # another process has deleted it
                continue
