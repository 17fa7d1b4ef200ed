"""Stop searches from outside: a deadline, a client that has left, a server that is to end.

    with stop_when(nobody_waits):
        engine.search(rows, search)     # raises SearchStopped within a step of nobody_waits() becoming true

Searches in Python call `check_stop` at every step; those in C and CTranslate2 between their calls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_should_stop: ContextVar[Callable[[], bool] | None] = ContextVar("should_stop", default=None)


class SearchStopped(Exception):
    """Nobody waits for the result any more."""


@contextmanager
def stop_when(should_stop: Callable[[], bool]) -> Iterator[None]:
    """Searches within this block, and in threads that were given its context, end when this is true."""
    token = _should_stop.set(should_stop)
    try:
        yield
    finally:
        _should_stop.reset(token)


def check_stop() -> None:
    """Raise SearchStopped if the search that calls this is to end."""
    should_stop = _should_stop.get()
    if should_stop is not None and should_stop():
        raise SearchStopped
