"""Event loops for tests.

`asyncio.run` fails in a thread that has a running loop, and Playwright leaves one running in every process that has
tested the page. `run_async` takes a thread of its own, so a test passes wherever it is scheduled."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    return run_in_thread(asyncio.run, coroutine)


def run_in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """In a thread that has no event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()
