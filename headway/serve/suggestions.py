"""Suggestions: better translations that readers send, appended to a file of JSON lines for its owner to look at."""

import asyncio
import json
import os
from pathlib import Path

from headway.errors import HeadwayError
from headway.serve.errors import ApiError

MAX_FILE_BYTES = 64 << 20


class SuggestionFile:
    """Appends suggestions to a file; processes of one server may share it. Without a file they are refused."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None:
            self._append(self.path, b"")  # tells now whether it can be written

    @property
    def enabled(self) -> bool:
        return self.path is not None

    def check_enabled(self) -> Path:
        if self.path is None:
            raise ApiError(403, "Suggestions are disabled on this server.")
        return self.path

    async def add(self, **fields: str) -> None:
        line = json.dumps(fields, ensure_ascii=False).encode() + b"\n"
        try:
            await asyncio.to_thread(self._append, self.check_enabled(), line)
        except HeadwayError:
            raise ApiError(503, "Suggestions cannot be stored at the moment. Tell the server's operator.") from None

    def _append(self, path: Path, line: bytes) -> None:
        """One write a line, which the system does not mix with those of other processes."""
        try:
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
            try:
                if os.fstat(handle).st_size + len(line) > MAX_FILE_BYTES:
                    raise HeadwayError(f"--suggestions {path} has reached {MAX_FILE_BYTES >> 20} MiB.")
                os.write(handle, line)
            finally:
                os.close(handle)
        except OSError as error:
            raise HeadwayError(f"--suggestions {path} cannot be written: {error.strerror or error}.") from None
