"""Progress of a translation: a live line on a terminal, a log line now and then elsewhere.

It counts sentences as they are searched for, so that one line of a megabyte shows progress, too."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headway.cli.terminal import LiveLine, log

if TYPE_CHECKING:
    from headway.translate.translator import Translator

QUIET_SECONDS = 2.0  # what takes less shows nothing
REDRAW_SECONDS = 0.2
LOG_SECONDS = 60.0  # where no live line can be drawn


class SearchProgress:
    """Counts what translators search for; retries count again."""

    def __init__(self) -> None:
        self.sentences = 0
        self._live = LiveLine()
        self._started = time.monotonic()
        self._updated = self._started
        self._lock = threading.Lock()

    def watch(self, translator: "Translator") -> None:
        translator.on_sentences = self.add

    def add(self, sentences: int) -> None:
        """In any thread."""
        now = time.monotonic()
        with self._lock:
            self.sentences += sentences
            wait = REDRAW_SECONDS if self._live.enabled else LOG_SECONDS
            if now - self._started < QUIET_SECONDS or now - self._updated < wait:
                return
            self._updated = now
            text = f"{self.sentences:,} sentences, {self.sentences / (now - self._started):.0f} a second"
            if self._live.enabled:
                self._live.draw(text)
            else:
                log(text)

    def clear(self) -> None:
        """Before anything else is written."""
        with self._lock:
            self._live.clear()


@contextmanager
def show_progress(*translators: "Translator") -> Iterator[SearchProgress]:
    """While these, and those that are watched later, translate."""
    progress = SearchProgress()
    for translator in translators:
        progress.watch(translator)
    try:
        yield progress
    finally:
        progress.clear()
