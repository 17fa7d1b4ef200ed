"""A cache on disk: directories of computed data, each named by a fingerprint of its inputs, complete or absent.

It lives in HEADWAY_CACHE, or in the system's cache directory (~/.cache/headway). All of it may be deleted at any time:
it is rebuilt. Entries unused for a month are deleted.
"""

import hashlib
import os
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
            return value
        except (HeadwayError, OSError, ValueError, TypeError):
            shutil.rmtree(folder, ignore_errors=True)
    build_entry(folder, build)
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
    delete_stale_entries()


def delete_stale_entries() -> None:
    """Delete entries that have not been used for long, and unfinished ones that were left behind."""
    now = time.time()
    with suppress(OSError):
        for folder in cache_folder().iterdir():
            partial = folder.name.endswith(".partial")
            used = folder if partial else folder / READY_FILE
            max_age = MAX_PARTIAL_SECONDS if partial else MAX_UNUSED_SECONDS
            if used.exists() and now - used.stat().st_mtime > max_age:
                shutil.rmtree(folder, ignore_errors=True)
