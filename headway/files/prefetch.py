"""Making things ahead of time, while whoever wants them is busy."""

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Iterable[T], depth: int = 8) -> Generator[T, None, None]:
    """The same items, made ahead of time by a thread. What goes wrong there is raised here."""
    waiting: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(depth)
    stopped = threading.Event()

    def offer(kind: str, value: T | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                return waiting.put((kind, value), timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                offer("item", item)
                if stopped.is_set():
                    return
            offer("end", None)
        except BaseException as error:
            offer("error", error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            kind, value = waiting.get()
            if kind == "item":
                yield value  # type: ignore[misc]
            elif kind == "error":
                raise value  # type: ignore[misc]
            else:
                return
    finally:
        stopped.set()
        thread.join(2.0)  # a thread that is still inside of PyTorch when Python ends takes the program down with it
