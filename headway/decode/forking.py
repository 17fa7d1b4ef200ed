"""What has to be made anew in a forked process: locks that a thread may have held, and pools, whose threads are gone.

os.fork() copies the memory of a process, and of its threads the one that called it. Weights stay shared with the
parent. Nothing here imports torch; where it is loaded, it computes with one thread in a forked process, since its own
threads would be waited for without end."""

import os
import sys
import threading
import weakref
from typing import Any, Protocol


class Forkable(Protocol):
    def after_fork(self) -> None:
        """In the child, before anything else runs there."""


_LIVE: "weakref.WeakSet[Any]" = weakref.WeakSet()


def call_after_fork(one: Forkable) -> None:
    """Call one.after_fork() in every process that is forked from this one."""
    _LIVE.add(one)


def _run_after_fork() -> None:
    for one in list(_LIVE):
        one.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_run_after_fork)


class ForkSafeLock:
    """A lock that is open in a forked process, whoever held it in the parent."""

    def __init__(self) -> None:
        self.after_fork()
        call_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def use_one_torch_thread() -> None:
    """If torch is loaded."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
