"""The seam to headway.documents, which translates HTML and files around a function that translates texts."""

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.serve.models import Model, Shelf
from headway.serve.refused import Refused
from headway.serve.work import How, translated
from headway.translation import Translation

Translate = Callable[[Sequence[str]], list[Translation]]


def package() -> Any:
    """headway.documents, or None where this version has none."""
    try:
        return import_module("headway.documents")
    except ModuleNotFoundError:
        return None


def suffixes() -> list[str]:
    """Of files that can be translated."""
    found = package()
    return [] if found is None else sorted(found.SUFFIXES)


async def html(shelf: Shelf, model: Model | None, text: str, how: How) -> str:
    found = package()
    if found is None:
        raise Refused(400, "html format is not supported")
    translate = blocking(shelf, model, how)
    return str(await asyncio.to_thread(_told, found.translate_html, text, translate))


async def file(shelf: Shelf, model: Model | None, source: Path, target: Path, name: str, how: How) -> Any:
    """Counts of what was translated."""
    found = package()
    if found is None:
        raise Refused(403, "Files translation are disabled on this server.")
    translate = blocking(shelf, model, how)
    return await asyncio.to_thread(_told, found.translate_file, source, target, name, translate)


def blocking(shelf: Shelf, model: Model | None, how: How) -> Translate:
    """For a thread: the texts of a document are batched like any other."""
    loop = asyncio.get_running_loop()

    def translate(texts: Sequence[str]) -> list[Translation]:
        from headway.serve.libre import unchanged

        if model is None:
            return [unchanged(text) for text in texts]
        return asyncio.run_coroutine_threadsafe(translated(shelf, model, texts, how), loop).result()

    return translate


def _told(act: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return act(*arguments)
    except HeadwayError as error:
        raise Refused(400, f"Invalid request: {error}") from None
