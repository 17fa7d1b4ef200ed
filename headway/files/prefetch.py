"""Prefetch items in a background thread."""

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Iterable[T], depth: int = 8) -> Generator[T, None, None]:
    """The same items, up to `depth` of them made ahead of time by a thread. Its exceptions are raised here."""
    ready: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(kind: str, value: T | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                return ready.put((kind, value), timeout=0.1)
            except queue.Full:
                continue

    def produce() -> None:
        try:
            for item in items:
                put("item", item)
                if stopped.is_set():
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "item":
                yield value  # type: ignore[misc]
            elif kind == "error":
                raise value  # type: ignore[misc]
            else:
                return
    finally:
        stopped.set()
        thread.join(2.0)  # a thread still inside PyTorch when Python exits crashes the process
