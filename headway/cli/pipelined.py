"""Map a function over groups of lines in a pipeline: while one group waits for the GPU, another is read or written."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_pipelined(items: Iterable[T], function: Callable[[T], R], workers: int) -> Iterator[R]:
    """function(item) for each item, in order, with up to `workers` running at once.

    A result is yielded as soon as it is ready, even if the next item has not arrived yet. An error is raised when its
    turn comes."""
    if workers < 2:
        yield from map(function, items)
        return
    futures: queue.Queue[Future[R] | BaseException | None] = queue.Queue()
    free_workers = threading.Semaphore(workers)
    stopped = threading.Event()
    pool = ThreadPoolExecutor(workers)

    def submit_all() -> None:
        try:
            for item in items:
                free_workers.acquire()
                if stopped.is_set():
                    return
                futures.put(pool.submit(function, item))
            futures.put(None)
        except BaseException as error:
            futures.put(error)

    threading.Thread(target=submit_all, daemon=True).start()
    try:
        while (future := futures.get()) is not None:
            if isinstance(future, BaseException):
                raise future
            yield future.result()
            free_workers.release()
    finally:
        stopped.set()
        free_workers.release()
        pool.shutdown(wait=False, cancel_futures=True)  # on Ctrl-C, do not wait for work already running
