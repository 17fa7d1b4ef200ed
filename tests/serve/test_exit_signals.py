"""The server learns at once that it is to end."""

import os
import signal
import threading
from typing import Any

from headway.serve.exit_signals import watch_exit_signals


def test_both_are_told_and_all_is_as_before() -> None:
    told: list[str] = []

    def handle(number: int, frame: Any) -> None:
        told.append("handler")

    before = signal.signal(signal.SIGTERM, handle)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with watch_exit_signals(lambda: told.append("watcher")):
            os.kill(os.getpid(), signal.SIGTERM)
            assert told == ["watcher", "handler"]
        assert signal.getsignal(signal.SIGTERM) is handle
        assert signal.getsignal(signal.SIGINT) is interrupt
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_that_is_no_function() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    told: list[str] = []
    try:
        with watch_exit_signals(lambda: told.append("watcher")):
            os.kill(os.getpid(), signal.SIGTERM)
        assert told == ["watcher"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_have_no_handlers() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[Any] = []

    def run() -> None:
        with watch_exit_signals(lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
