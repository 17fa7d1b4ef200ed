"""Groups of lines worked on ahead of their turn: while one waits for the GPU, another is read or written."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def ahead(items: Iterable[T], act: Callable[[T], R], workers: int) -> Iterator[R]:
    """act(item) for each, in order; as many at a time as there are workers. What is done is given out at once, though
    the next item may not be there yet. An error comes up in its turn."""
    if workers < 2:
        yield from map(act, items)
        return
    turns: queue.Queue[Future[R] | BaseException | None] = queue.Queue()
    room, over = threading.Semaphore(workers), threading.Event()
    pool = ThreadPoolExecutor(workers)

    def feed() -> None:
        try:
            for item in items:
                room.acquire()
                if over.is_set():
                    return
                turns.put(pool.submit(act, item))
            turns.put(None)
        except BaseException as error:
            turns.put(error)

    threading.Thread(target=feed, daemon=True).start()
    try:
        while (turn := turns.get()) is not None:
            if isinstance(turn, BaseException):
                raise turn
            yield turn.result()
            room.release()
    finally:
        over.set()
        room.release()
        pool.shutdown(wait=False, cancel_futures=True)  # whoever interrupts does not wait for what he does not want
