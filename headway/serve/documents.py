"""The seam to headway.documents, which translates HTML and files around a function that translates segments."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.serve.models import Model, Shelf
from headway.serve.refused import Gone, Refused
from headway.serve.work import How, translated, using

AT_ONCE = 128  # segments of a document, so that others get their turn
AGAIN = 0.2  # seconds until a document that found the queue full asks again


def package() -> Any:
    """headway.documents, or None where this version has none."""
    try:
        return import_module("headway.documents")
    except ModuleNotFoundError:
        return None


def suffixes() -> list[str]:
    """Of files that can be translated."""
    found = package()
    return [] if found is None else sorted(found.KNOWN)


async def html(shelf: Shelf, model: Model | None, text: str, how: How) -> str:
    found = package()
    if found is None:
        raise Refused(400, "html format is not supported")
    return str(await _run(shelf, model, how, lambda translate: found.translate_html(text, translate)))


async def file(shelf: Shelf, model: Model | None, source: Path, target: Path, how: How) -> Any:
    """Counts of what was translated."""
    found = package()
    return await _run(
        shelf, model, how, lambda translate: found.translate_file(source, target, translate, f"file{source.suffix}")
    )


async def _run(shelf: Shelf, model: Model | None, how: How, act: Callable[[Any], Any]) -> Any:
    """act(translate) in a thread, which ends soon after nobody waits for it any more."""
    gone = threading.Event()
    async with AsyncExitStack() as stack:
        if model is not None:
            await stack.enter_async_context(using(shelf, model))
        try:
            return await asyncio.to_thread(act, Segments(shelf, model, how, gone))
        except HeadwayError as error:
            raise Refused(400, f"Invalid request: {error}") from None
        finally:
            gone.set()


class Segments:
    """What a document asks for its segments. They are batched like any other text."""

    def __init__(self, shelf: Shelf, model: Model | None, how: How, gone: threading.Event) -> None:
        self.shelf, self.model, self.how, self.gone = shelf, model, how, gone
        self.loop = asyncio.get_running_loop()

    def __call__(self, asked: Sequence[Any]) -> list[Any]:
        """In a thread."""
        seam = import_module("headway.documents.seam")
        if self.model is None:
            return [seam.Said(one.text, [[n, n] for n in range(len(one.text.split()))]) for one in asked]
        can = any(one.align for one in asked) and seam.can_align(self.model.loaded)
        said: dict[int, Any] = {}
        for align in (False, True):
            rows = [row for row, one in enumerate(asked) if bool(one.align) is align]
            how = replace(self.how, align=align and can)
            for start in range(0, len(rows), AT_ONCE):
                part = rows[start : start + AT_ONCE]
                for row, made in zip(part, self._translate([asked[row].text for row in part], how)):
                    more = [seam.NO_LINKS] if align and not can else []
                    said[row] = seam.Said(made.text, made.guesses[0].alignment, [*made.warnings, *more])
        return [said[row] for row in range(len(asked))]

    def _translate(self, texts: list[str], how: How) -> Any:
        assert self.model is not None
        while not self.gone.is_set():
            try:
                return asyncio.run_coroutine_threadsafe(
                    translated(self.shelf, self.model, texts, how), self.loop
                ).result()
            except Refused as refused:
                if refused.status != 429:
                    raise
            time.sleep(AGAIN)
        raise Gone
