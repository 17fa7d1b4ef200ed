"""A cache on disk: directories of computed data, each named by a fingerprint of its inputs, complete or absent.

It lives in HEADWAY_CACHE, or in the system's cache directory (~/.cache/headway). All of it may be deleted at any time:
it is rebuilt. Entries unused for a month are deleted, unless a running process has used them.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from headway.errors import HeadwayError
from headway.files.atomic import atomic_directory

T = TypeVar("T")

MAX_UNUSED_SECONDS = 30 * 86400  # older entries are deleted
MAX_PARTIAL_SECONDS = 86400  # and so are entries that a killed process left unfinished
READY_FILE = "ready"  # its modification time is when the entry was last used
IN_USE_PREFIX = ".in-use."  # of files that list the entries a process uses

_in_use_files: dict[tuple[int, Path], int] = {}  # descriptors, by process id and cache folder


def cache_folder() -> Path:
    chosen = os.environ.get("HEADWAY_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway"


def fingerprint(parts: Iterable[str]) -> str:
    """A hash, equal for equal parts in the same order."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def load_or_build(kind: str, key: str, build: Callable[[Path], None], load: Callable[[Path], T]) -> T:
    """`load(folder)` of the entry for this key. `build(folder)` fills it if it is missing or cannot be loaded."""
    folder = cache_folder() / f"{kind}-{key}"
    if (folder / READY_FILE).exists():
        try:
            value = load(folder)
            os.utime(folder / READY_FILE)
            mark_in_use(folder)
            return value
        except (HeadwayError, OSError, ValueError, TypeError):
            shutil.rmtree(folder, ignore_errors=True)
    build_entry(folder, build)
    mark_in_use(folder)
    delete_stale_entries()
    return load(folder)


def build_entry(folder: Path, build: Callable[[Path], None]) -> None:
    """Build an entry atomically: however the build ends, an entry that exists is complete."""
    try:
        with atomic_directory(folder, exist_ok=True) as partial:  # another process may be faster
            build(partial)
            (partial / READY_FILE).touch()
    except OSError as error:
        raise HeadwayError(
            f"{cache_folder()} cannot be written to: {error.strerror or error}. Tokenised text is kept there: free "
            "some space, or set the environment variable HEADWAY_CACHE to another folder."
        ) from None


def add_entry(kind: str, build: Callable[[Path], str]) -> Path:
    """An entry whose key is known only when it is built: `build(folder)` fills it and returns the key, a fingerprint of
    its contents. If there is such an entry, that one is kept."""
    key = ""

    def build_keyed(folder: Path) -> None:
        nonlocal key
        key = build(folder)

    passing = cache_folder() / f"{kind}-{secrets.token_hex(8)}"
    build_entry(passing, build_keyed)
    folder = cache_folder() / f"{kind}-{key}"
    try:
        os.replace(passing, folder)
    except OSError:  # it exists
        shutil.rmtree(passing, ignore_errors=True)
        os.utime(folder / READY_FILE)
    mark_in_use(folder)
    delete_stale_entries()
    return folder


def delete_stale_entries() -> None:
    """Delete entries that have not been used for long, and unfinished ones that were left behind. Clocks may be wrong:
    what a running process uses or builds stays, however old it seems."""
    now = time.time()
    with suppress(OSError):
        in_use = find_entries_in_use()
        for folder in cache_folder().iterdir():
            partial = folder.name.endswith(".partial")
            used = folder if partial else folder / READY_FILE
            if not used.exists() or folder.name in in_use or (partial and _is_being_built(folder)):
                continue
            age = now - used.stat().st_mtime
            if age < -MAX_PARTIAL_SECONDS:  # used when the clock was ahead: count from now on
                os.utime(used)
            elif age > (MAX_PARTIAL_SECONDS if partial else MAX_UNUSED_SECONDS):
                shutil.rmtree(folder, ignore_errors=True)


def mark_in_use(folder: Path) -> None:
    """Note that this process uses an entry, in a file that is locked as long as the process runs."""
    key = (os.getpid(), folder.parent)
    with suppress(OSError):
        if key not in _in_use_files:
            path = folder.parent / f"{IN_USE_PREFIX}{os.getpid()}"
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            fcntl.flock(handle, fcntl.LOCK_SH)
            _in_use_files[key] = handle
        os.write(_in_use_files[key], f"{folder.name}\n".encode())


def find_entries_in_use() -> set[str]:
    """The names of entries that running processes use; the notes of processes that have ended are deleted."""
    names: set[str] = set()
    for path in cache_folder().glob(f"{IN_USE_PREFIX}*"):
        with path.open(errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            except BlockingIOError:
                names.update(file.read().splitlines())
    return names


def _is_being_built(partial: Path) -> bool:
    """Whether the process that a partial entry is named after is running."""
    owner = partial.name.removesuffix(".partial").rpartition(".")[2]
    try:
        os.kill(int(owner), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True
