"""The seam to headway.documents, which translates HTML and files around a function that translates segments."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway import documents
from headway.documents import segments as seam
from headway.documents.html import pieces
from headway.errors import HeadwayError
from headway.serve.errors import Gone, ApiError
from headway.serve.languages import Detected, heard, unknown
from headway.serve.model_pool import Model, Shelf
from headway.serve.translate import How, translated, using
from headway.translate.translator import Translator

AT_ONCE = 128  # segments of a document, so that others get their turn
AGAIN = 0.2  # seconds until a document that found the queue full asks again


def suffixes() -> list[str]:
    """Of files that can be translated."""
    return sorted(documents.KNOWN)


async def html(shelf: Shelf, model: Model | None, text: str, how: How) -> tuple[str, list[str]]:
    """With warnings."""
    said: list[str] = []

    def act(translate: "Segments") -> str:
        made = documents.translate_html(text, translate)
        said.extend(dict.fromkeys(translate.warnings))
        return made

    return str(await _run(shelf, model, how, act)), said


async def file(shelf: Shelf, model: Model | None, source: Path, target: Path, how: How) -> Any:
    """Counts of what was translated."""
    return await _run(
        shelf, model, how, lambda translate: documents.translate_file(source, target, translate, _named(source))
    )


def _named(source: Path) -> str:
    """Where it lies is nobody's business."""
    return f"file{source.suffix}"


def said_in(text: str) -> str:
    """HTML without its tags, to tell its language by."""
    return " ".join(piece.text for piece in pieces(text) if piece.kind == "text")


async def language_of(source: Path, among: Sequence[str], target: str) -> Detected:
    """Of a document, by the beginning of what there is to translate in it."""

    def look() -> Detected:
        text = documents.beginning(source, _named(source))
        return heard(text, among, target) if text else Detected(among[0], 0)

    try:
        found = await asyncio.to_thread(look)
    except HeadwayError as error:
        raise ApiError(400, f"Invalid request: {error}") from None
    if found.language not in among:
        raise unknown(found.language, "the file")
    return found


async def _run(shelf: Shelf, model: Model | None, how: How, act: "Callable[[Segments], Any]") -> Any:
    """act(translate) in a thread, which ends soon after nobody waits for it any more."""
    gone = threading.Event()
    async with AsyncExitStack() as stack:
        if model is not None:
            await stack.enter_async_context(using(shelf, model))
        try:
            return await asyncio.to_thread(act, Segments(shelf, model, how, gone))
        except HeadwayError as error:
            raise ApiError(400, f"Invalid request: {error}") from None
        finally:
            gone.set()


class Segments:
    """What a document asks for its segments. They are batched like any other text."""

    def __init__(self, shelf: Shelf, model: Model | None, how: How, gone: threading.Event) -> None:
        self.shelf, self.model, self.how, self.gone = shelf, model, how, gone
        self.loop = asyncio.get_running_loop()
        self.warnings: list[str] = []

    def __call__(self, asked: Sequence[Any]) -> list[Any]:
        """In a thread."""
        if self.model is None:
            return [seam.Said(one.text, [[n, n] for n in range(len(one.text.split()))]) for one in asked]
        assert isinstance(self.model.loaded, Translator)
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
                    self.warnings += said[row].warnings
        return [said[row] for row in range(len(asked))]

    def _translate(self, texts: list[str], how: How) -> Any:
        assert self.model is not None
        while not self.gone.is_set():
            try:
                return asyncio.run_coroutine_threadsafe(
                    translated(self.shelf, self.model, texts, how), self.loop
                ).result()
            except ApiError as refused:
                if refused.status != 429:
                    raise
            time.sleep(AGAIN)
        raise Gone
