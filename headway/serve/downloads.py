"""Translated files that wait to be downloaded, under names that cannot be guessed.

A file goes a while after it was downloaded, when its time is up, or when its space is needed: then the oldest file of
the client with the most goes first. So nobody is refused because of others. The folder has a lock: one that no process
holds was left by a server that was killed, and the next one to start removes it."""

import asyncio
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from headway.serve.errors import ApiError
from headway.serve.settings import Limits

NAME = re.compile(r"[0-9a-f]{32}\.[a-z0-9]{1,8}")
CLIENT_DIGITS = 8  # of a name, which are the same for all files of a client; the rest is random
PARTIAL_PREFIX = "."  # of a file that is being received or written
FOLDER_PREFIX = "headway-files-"
SHARED_PREFIX = "headway-serve-"  # of a folder that several processes share
LOCK_NAME = "lock"
UNLOCKED_SECONDS = 3600.0  # after which a folder without a lock is taken for a leftover


class Downloads:
    def __init__(self, folder: str | None, limits: Limits) -> None:
        """folder: shared by the processes of one server; None: a temporary one, deleted by `close`."""
        if folder is None:
            remove_leftovers()
        self._temporary = tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) if folder is None else None
        self.folder = Path(folder if folder is not None else self._temporary.name)  # type: ignore[union-attr]
        self._lock = hold_folder(self.folder)
        self.limits = limits
        self._timers: dict[Path, asyncio.TimerHandle] = {}  # of files that were downloaded

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._lock.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def new_upload(self, suffix: str) -> Path:
        """Where the file of a client may be written, until it is translated."""
        return self.folder / f"{PARTIAL_PREFIX}{secrets.token_hex(16)}{suffix}"

    def new_path(self, suffix: str, client: str) -> Path:
        """Where a translation may be written. suffix: of a known format, such as ".txt"; never what a client sent."""
        owner = hashlib.sha256(client.encode("utf-8", "replace")).hexdigest()[:CLIENT_DIGITS]
        return self.folder / f"{owner}{secrets.token_hex((32 - CLIENT_DIGITS) // 2)}{suffix}"

    def find(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise ApiError(400, "Invalid filename")
        path = self.folder / name
        status = _read_status(path)
        if status is None or time.time() - status.st_mtime > self.limits.stored_seconds:
            raise ApiError(404, "no such file: it may have expired. Translate the document again.")
        return path

    def delete_later(self, path: Path) -> None:
        """After a download; a short while is left for a client that asks again."""
        if path in self._timers:
            self._timers.pop(path).cancel()
        self._timers[path] = asyncio.get_running_loop().call_later(
            self.limits.downloaded_seconds, self._delete_downloaded, path
        )

    def _delete_downloaded(self, path: Path) -> None:
        self._timers.pop(path, None)
        path.unlink(missing_ok=True)

    def make_room(self) -> None:
        """Delete what has expired, and the oldest files beyond the limits. Called when a file was added."""
        now = time.time()
        files: list[tuple[Path, os.stat_result]] = []
        for path in self.folder.iterdir():
            status = _read_status(path)
            if status is None or path.name == LOCK_NAME:
                continue
            is_partial = path.name.startswith(PARTIAL_PREFIX)
            if now - status.st_mtime > (2 * self.limits.request_seconds if is_partial else self.limits.stored_seconds):
                path.unlink(missing_ok=True)
            elif not is_partial:
                files.append((path, status))
        files.sort(key=lambda file: file[1].st_mtime)
        for path in select_excess(
            [(path, path.name[:CLIENT_DIGITS], status.st_size) for path, status in files], self.limits
        ):
            path.unlink(missing_ok=True)  # another process may have deleted it


class DownloadResponse(FileResponse):
    """A file, and what to do when a client has received it."""

    def __init__(self, path: Path, on_received: Callable[[Path], None], **options: Any) -> None:
        super().__init__(path, **options)
        self.file = path
        self.on_received = on_received

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
        received = False

        async def send_part(message: Message) -> None:
            nonlocal received
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                received = not leaving.done() and not scope["without_body"]
            await send(message)

        try:
            await super().__call__(scope, receive, send_part)
        finally:
            leaving.cancel()
        if received:
            self.on_received(self.file)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)


def select_excess(files: list[tuple[Path, str, int]], limits: Limits) -> list[Path]:
    """The files to delete, so that the rest is within the limits. files: path, client and size, the oldest first.

    Beyond a limit, the oldest file of the client with the most files, or the most bytes, goes first."""
    excess: list[Path] = []
    counts = Counter(client for _, client, _ in files)
    sizes: Counter[str] = Counter()
    for _, client, size in files:
        sizes[client] += size
    while files and (
        counts.total() > limits.stored_files
        or sizes.total() > limits.stored_bytes
        or max(counts.values()) > limits.client_stored_files
    ):
        held = sizes if sizes.total() > limits.stored_bytes else counts
        client = max(held, key=lambda client: held[client])
        oldest = next(file for file in files if file[1] == client)
        files.remove(oldest)
        excess.append(oldest[0])
        counts[client] -= 1
        sizes[client] -= oldest[2]
    return excess


def _read_status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:  # another process has deleted it
        return None


def hold_folder(folder: Path) -> IO[bytes]:
    """Show that a process uses a folder, until the returned file is closed or the process ends. Several may hold it."""
    lock = open(folder / LOCK_NAME, "ab")  # noqa: SIM115
    with suppress(ImportError):  # not on Windows
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def remove_leftovers() -> None:
    """Remove temporary folders of this user that servers left behind when they were killed."""
    for prefix in (FOLDER_PREFIX, SHARED_PREFIX):
        for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            with suppress(OSError):
                if folder.stat().st_uid == os.getuid() and not _is_held(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_held(folder: Path) -> bool:
    """Whether a process holds a folder, or one inside it; a folder that was made just now may not be held yet."""
    try:
        import fcntl
    except ImportError:
        return True
    locks = [*folder.glob(LOCK_NAME), *folder.glob(f"*/{LOCK_NAME}")]
    if not locks:
        return time.time() - folder.stat().st_mtime < UNLOCKED_SECONDS
    for path in locks:
        with open(path, "ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
    return False
