"""The memory of a server: one budget for weights, documents, bodies and buffers, judged by what is resident.

New work that takes much memory reserves what it may need; it is refused while the resident size and the reservations
together exceed the budget. Beyond the high-water mark idle models are unloaded, and above the limit nothing new begins:
clients get 503 and try again."""

import asyncio
import ctypes
import gc
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.serve.errors import ApiError

HIGH_WATER = 0.85  # of the limit: beyond it, memory is given back and heavy work waits
SYSTEM_SHARE = 0.9  # of what the machine or the container has, where no limit is given
RETRY_SECONDS = 5  # what clients are told to wait
WATCH_SECONDS = 5.0  # between two looks at the resident size
WATCHES_PER_COLLECTION = 6  # collecting stops all threads for a moment
TRIM_SHARE = 0.4  # of the limit: beyond it, freed memory is returned now and then
TRIM_SECONDS = 2.0  # between two attempts to give memory back
MAX_ARENAS = 4  # of malloc: each thread would have its own, and keep what it once used
M_ARENA_MAX = -8  # mallopt's number for it
CGROUP_ROOT = Path("/sys/fs/cgroup")


class MemoryBudget:
    def __init__(self, limit: int | None) -> None:
        """limit: bytes; None: what the machine or the container has, nearly."""
        self.limit = limit or int(SYSTEM_SHARE * available_bytes())
        self.reserved_bytes = 0
        self.release_memory: Callable[[], None] = lambda: None  # gives back more than trim_heap does: unloads models
        self._workers: set[int] = set()  # process ids
        self._lock = threading.Lock()
        self._last_trim = 0.0

    def resident_bytes(self) -> int:
        """Of this process and of the document workers."""
        return read_resident(os.getpid()) + sum(map(read_resident, list(self._workers)))

    def check(self, heavy: bool = False) -> None:
        """Refuse new work while memory is short. heavy: work that can wait is refused from the high-water mark on."""
        mark = self.limit * HIGH_WATER
        resident = self.resident_bytes()
        if resident > mark and time.monotonic() - self._last_trim > TRIM_SECONDS:
            self._last_trim = time.monotonic()
            threading.Thread(target=self._give_back, name="memory", daemon=True).start()
        if resident > (mark if heavy else self.limit):
            raise out_of_memory()

    def _give_back(self) -> None:
        self.release_memory()
        trim_heap()

    async def watch(self) -> None:
        """Return freed memory to the system now and then, for as long as the server runs."""
        for count in itertools.count(1):
            await asyncio.sleep(WATCH_SECONDS)
            if self.resident_bytes() > TRIM_SHARE * self.limit:
                await asyncio.to_thread(trim_heap, collect=count % WATCHES_PER_COLLECTION == 0)

    def acquire(self, count: int) -> None:
        """So many bytes may be needed, until `release`; refused if they would not fit."""
        self.check(heavy=True)
        with self._lock:
            if self.resident_bytes() + self.reserved_bytes + count > self.limit:
                raise out_of_memory()
            self.reserved_bytes += count

    def release(self, count: int) -> None:
        with self._lock:
            self.reserved_bytes -= count

    @contextmanager
    def reserve(self, count: int) -> Iterator[None]:
        """Inside the block, so many bytes may be needed."""
        self.acquire(count)
        try:
            yield
        finally:
            self.release(count)

    @contextmanager
    def count_worker(self, process_id: int) -> Iterator[None]:
        """Inside the block, a process belongs to this server."""
        self._workers.add(process_id)
        try:
            yield
        finally:
            self._workers.discard(process_id)


def out_of_memory() -> ApiError:
    return ApiError(
        503, f"the server is short of memory. Try again in {RETRY_SECONDS} s.", {"Retry-After": str(RETRY_SECONDS)}
    ).because("busy", seconds=RETRY_SECONDS)


def read_resident(process_id: int) -> int:
    """The resident size of a process in bytes; 0 where it cannot be known."""
    try:
        pages = Path(f"/proc/{process_id}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int:
    """The memory of this machine, or of the container if that is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in cgroup_limit_files():
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # it is not there, or says "max"
            continue
    return min(limits)


def cgroup_limit_files() -> Iterator[Path]:
    """Where the limit of this process's control group may stand: version 2 or 1, seen from outside or from inside."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for group in (path.strip("/"), ""):
            if not controllers:
                yield CGROUP_ROOT / group / "memory.max"
            elif "memory" in controllers.split(","):
                yield CGROUP_ROOT / "memory" / group / "memory.limit_in_bytes"


def limit_arenas() -> None:
    """Have threads share malloc's arenas, where the C library has such."""
    library: Any = _c_library()
    if library is not None and hasattr(library, "mallopt"):
        library.mallopt(M_ARENA_MAX, MAX_ARENAS)


def trim_heap(collect: bool = True) -> None:
    """Return freed memory to the system, where the C library has malloc_trim. collect: free cycles of objects first,
    which stops all threads for a moment."""
    if collect:
        gc.collect()
    library: Any = _c_library()
    if library is not None and hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def _c_library() -> Any:
    try:
        return ctypes.CDLL(None)
    except OSError:
        return None
