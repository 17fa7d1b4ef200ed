"""Event loops for tests.

`asyncio.run` fails in a thread that has a running loop, and Playwright leaves one running in every process that has
tested the page. `run_async` takes a thread of its own, so a test passes wherever it is scheduled."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
