"""API keys: a file with one a line. It is read again when it changes, so that a key can be given or withdrawn."""

import hashlib
from contextlib import suppress
from pathlib import Path

from headway.errors import HeadwayError
from headway.serve.errors import ApiError


class Keys:
    """Whether a request may come in. Without a file all may."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else Path(path)
        self._known: frozenset[bytes] = frozenset()
        self._stamp = (0, 0)
        if self.path is not None:
            self._read(self.path)

    @property
    def required(self) -> bool:
        return self.path is not None

    def check(self, key: str) -> None:
        if self.path is None:
            return
        if not key:
            raise ApiError(400, "Please contact the server operator to get an API key")
        with suppress(HeadwayError):  # while somebody writes it, what was last read holds
            self._read(self.path)
        if _hidden(key) not in self._known:
            raise ApiError(403, "Invalid API key")

    def _read(self, path: Path) -> None:
        try:
            status = path.stat()
            if (stamp := (status.st_mtime_ns, status.st_size)) == self._stamp:
                return
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise HeadwayError(f"--api-keys {path} cannot be read: {why}.") from None
        keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        self._known, self._stamp = frozenset(map(_hidden, keys)), stamp


def _hidden(key: str) -> bytes:
    """Compared as hashes, so that the time this takes says nothing about the keys."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
