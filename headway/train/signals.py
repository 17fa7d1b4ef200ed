"""Defers Ctrl-C and SIGTERM while a step or a save is under way, so that nothing half-done is saved."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class DeferredSignals:
    """Signal handlers for the time of a run. Outside `defer()`, a signal takes effect at once, as it did before."""

    def __init__(self, synchronised: bool = False) -> None:
        """`synchronised`: other processes must stop at the same step, so a signal only takes effect in `deliver()`."""
        self.previous_handlers: dict[int, Any] = {}
        self.synchronised = synchronised
        self.deferring = False
        self.received: int | None = None

    def __enter__(self) -> "DeferredSignals":
        if threading.current_thread() is threading.main_thread():  # only the main thread may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self.previous_handlers.items():
            signal.signal(number, handler)

    @property
    def pending(self) -> int:
        """The signal received here that all processes must agree to act on; 0: none."""
        return self.received or 0 if self.synchronised else 0

    def deliver(self, number: int) -> None:
        """Act on a signal that one of the processes received; 0: none."""
        if number:
            self.received = None
            self._act(number, None)

    @contextmanager
    def defer(self) -> Iterator[None]:
        """Run a block to its end; a signal that arrives meanwhile takes effect afterwards."""
        self.deferring = True
        try:
            yield
        finally:
            self.deferring = False
        if self.synchronised:
            return
        number = self.received
        self.received = None
        if number is not None:
            self._act(number, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.deferring or self.synchronised:
            self.received = number
        else:
            self._act(number, frame)

    def _act(self, number: int, frame: FrameType | None) -> None:
        handler = self.previous_handlers.get(number, signal.SIG_DFL)
        if callable(handler):
            handler(number, frame)
        elif handler != signal.SIG_IGN:
            sys.exit(128 + number)  # the default action would kill the process with nothing saved
