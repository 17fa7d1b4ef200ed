"""API keys: a file with one key per line. It is read again when it changes, so that keys can be added and revoked."""

import hashlib
from contextlib import suppress
from pathlib import Path

from headway.errors import HeadwayError
from headway.serve.errors import ApiError


class ApiKeys:
    """Checks the key of a request. Without a file every request is allowed."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else Path(path)
        self._hashes: frozenset[bytes] = frozenset()
        self._file_version = (0, 0)  # time of change and size, when it was last read
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
        with suppress(HeadwayError):  # while the file cannot be read, the keys that were last read stay valid
            self._read(self.path)
        if _hash_key(key) not in self._hashes:
            raise ApiError(403, "Invalid API key")

    def _read(self, path: Path) -> None:
        try:
            status = path.stat()
            if (version := (status.st_mtime_ns, status.st_size)) == self._file_version:
                return
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise HeadwayError(f"--api-keys {path} cannot be read: {reason}.") from None
        keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        self._hashes = frozenset(map(_hash_key, keys))
        self._file_version = version


def _hash_key(key: str) -> bytes:
    """Keys are compared as hashes, so that the time a comparison takes reveals nothing about them."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
