"""Learn at once that the server is to end, while it still waits for running requests."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

EXIT_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def watch_exit_signals(notify: Callable[[], object]) -> Iterator[None]:
    """Call `notify`, and then the handlers that are installed, when SIGTERM or SIGINT arrives. Only the main thread can
    have such handlers: elsewhere nothing is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in EXIT_SIGNALS}

    def handle(number: int, frame: Any) -> None:
        notify()
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in EXIT_SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
