"""BatchPool: batches of one engine on several threads, for kernels that release Python's lock. No torch."""

import contextvars
import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from headway.decode.forking import ForkSafeLock, call_after_fork
from headway.decode.types import T


class BatchPool:
    """Threads that are started when they are first needed."""

    def __init__(self, workers: int, prepare_thread: Callable[[], None] | None = None) -> None:
        """prepare_thread: called by each thread when it starts; then even a single batch is left to one of them."""
        self.workers = workers
        self.stopped = threading.Event()
        self._prepare_thread = prepare_thread
        self._lock = ForkSafeLock()  # one caller at a time: it uses all threads
        call_after_fork(self)

    def after_fork(self) -> None:
        """Its threads are those of another process."""
        vars(self).pop("_threads", None)

    def start(self) -> None:
        """All threads, now."""
        assert self._threads

    @functools.cached_property
    def _threads(self) -> ThreadPoolExecutor:
        pool = ThreadPoolExecutor(self.workers, "search", initializer=self._prepare_thread)
        started = threading.Barrier(self.workers + 1)
        for _ in range(self.workers):
            pool.submit(started.wait)
        started.wait()
        return pool

    def stop(self) -> None:
        """After an interrupt: batches that have not begun are not searched."""
        self.stopped.set()

    def run(self, function: Callable[[T], None], batches: Sequence[T]) -> None:
        """function(batch) for all of them, in any order."""
        if self.workers < 2 or (len(batches) < 2 and self._prepare_thread is None):
            for batch in batches:
                function(batch)
            return

        def unless_stopped(context: contextvars.Context, batch: T) -> None:
            if not self.stopped.is_set():
                context.run(function, batch)

        with self._lock:
            pending = []
            try:
                # Each has a context of its own: see decode.stop.
                pending += [
                    self._threads.submit(unless_stopped, contextvars.copy_context(), batch) for batch in batches
                ]
                for future in pending:
                    future.result()
            finally:
                for future in pending:
                    future.cancel()
        if self.stopped.is_set():
            raise KeyboardInterrupt
