"""Ctrl-C and SIGTERM, held back while a step or a save is under way: what is saved is never half of something."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class Signals:
    """Installed for the time of a run. Outside `held`, a signal does what it did before."""

    def __init__(self, together: bool = False) -> None:
        """`together`: other processes must stop at the same step, so nothing happens before all have heard of it."""
        self.before: dict[int, Any] = {}
        self.together = together
        self.holding = False
        self.waiting: int | None = None

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._arrives)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    @property
    def heard(self) -> int:
        """The signal that waits to be acted on by all; 0: none."""
        return self.waiting or 0 if self.together else 0

    def act_on(self, number: int) -> None:
        """What one of the processes heard is for all."""
        if number:
            self.waiting = None
            self._act(number, None)

    @contextmanager
    def held(self) -> Iterator[None]:
        """What happens in here happens to its end; a signal that came meanwhile takes effect then."""
        self.holding = True
        try:
            yield
        finally:
            self.holding = False
        if self.together:
            return
        number, self.waiting = self.waiting, None
        if number is not None:
            self._act(number, None)

    def _arrives(self, number: int, frame: FrameType | None) -> None:
        if self.holding or self.together:
            self.waiting = number
        else:
            self._act(number, frame)

    def _act(self, number: int, frame: FrameType | None) -> None:
        handler = self.before.get(number, signal.SIG_DFL)
        if callable(handler):
            handler(number, frame)
        elif handler != signal.SIG_IGN:
            sys.exit(128 + number)  # by default the process would end at once, with nothing saved
