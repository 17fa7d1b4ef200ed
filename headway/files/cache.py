"""What was worked out once and is wanted again: folders named by a fingerprint, complete or absent.

They lie in HEADWAY_CACHE, or where the system keeps such things (~/.cache/headway). All of it may be deleted at any
time: it is made again. What nobody has used for a month is deleted."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from headway.errors import HeadwayError

T = TypeVar("T")

UNUSED = 30 * 86400  # seconds after which an entry goes
ABANDONED = 86400  # seconds after which a half-made one does
READY = "ready"  # the file whose time tells when an entry was used last


def cache_folder() -> Path:
    chosen = os.environ.get("HEADWAY_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway"


def fingerprint(parts: Iterable[str]) -> str:
    """The same for the same parts in the same order."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def cached(kind: str, key: str, build: Callable[[Path], None], load: Callable[[Path], T]) -> T:
    """What `load` makes of the folder for this key, which `build` fills if it is not there. A folder that cannot be
    loaded is built again."""
    folder = cache_folder() / f"{kind}-{key}"
    if (folder / READY).exists():
        try:
            found = load(folder)
            os.utime(folder / READY)
            return found
        except (HeadwayError, OSError, ValueError, TypeError):
            shutil.rmtree(folder, ignore_errors=True)
    fill(folder, build)
    return load(folder)


def fill(folder: Path, build: Callable[[Path], None]) -> None:
    """Built under another name and renamed when it is whole: however a build ends, what is found later is complete."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        build(partial)
        (partial / READY).touch()
        with suppress(OSError):  # another process was faster: its folder is as good
            partial.rename(folder)
    except OSError as error:
        raise HeadwayError(
            f"{cache_folder()} cannot be written to: {error.strerror or error}. Tokenised text is kept there: make "
            "room, or name another folder in the environment variable HEADWAY_CACHE."
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sweep()


def sweep() -> None:
    """Delete what has not been used for long, and what was left behind half made."""
    now = time.time()
    with suppress(OSError):
        for folder in cache_folder().iterdir():
            made = folder.name.endswith(".partial")
            used = folder if made else folder / READY
            if used.exists() and now - used.stat().st_mtime > (ABANDONED if made else UNUSED):
                shutil.rmtree(folder, ignore_errors=True)
