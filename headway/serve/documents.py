"""HTML and files: headway.documents splits them into segments, which are queued for batches like any other text."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from headway import documents
from headway.documents import segments
from headway.documents.html import parse_html
from headway.errors import HeadwayError
from headway.serve.errors import ApiError, ClientGone
from headway.serve.languages import DetectedLanguage, detect_source, unsupported_language
from headway.serve.model_pool import ModelPool, ServedModel
from headway.serve.translate import RequestOptions, translate_texts, use_model
from headway.translate.translator import Translator

SEGMENTS_PER_SUBMIT = 128  # so that texts of other requests get their turn in between
RETRY_SECONDS = 0.2  # until a document that found the queue full tries again


def file_suffixes() -> list[str]:
    """The suffixes of files that can be translated."""
    return sorted(documents.FORMAT_MODULES)


async def translate_html(
    pool: ModelPool, model: ServedModel | None, text: str, request: RequestOptions
) -> tuple[str, list[str]]:
    """The translation, and warnings."""
    warnings: list[str] = []

    def run(translate: "QueuedSegmentTranslator") -> str:
        translation = documents.translate_html(text, translate)
        warnings.extend(dict.fromkeys(translate.warnings))
        return translation

    return str(await _run_in_thread(pool, model, request, run)), warnings


async def translate_file(
    pool: ModelPool, model: ServedModel | None, source: Path, target: Path, request: RequestOptions
) -> Any:
    """Writes `target`; returns counts of segments (documents.segments.DocumentCounts)."""

    def run(translate: "QueuedSegmentTranslator") -> Any:
        return documents.translate_file(source, target, translate, _public_name(source))

    return await _run_in_thread(pool, model, request, run)


def _public_name(source: Path) -> str:
    """For messages: clients must not learn where a file is stored."""
    return f"file{source.suffix}"


def html_text(text: str) -> str:
    """HTML without its tags, to detect its language by."""
    return " ".join(piece.text for piece in parse_html(text) if piece.kind == "text")


async def detect_file_language(source: Path, known: Sequence[str], target: str) -> DetectedLanguage:
    """The language of a document, by the beginning of its translatable text; one of the known ones."""

    def detect() -> DetectedLanguage:
        text = documents.sample_text(source, _public_name(source))
        return detect_source(text, known, target) if text else DetectedLanguage(known[0], 0)

    try:
        found = await asyncio.to_thread(detect)
    except HeadwayError as error:
        raise ApiError(400, f"Invalid request: {error}") from None
    if found.language not in known:
        raise unsupported_language(found.language, "the file")
    return found


async def _run_in_thread(
    pool: ModelPool, model: ServedModel | None, request: RequestOptions, run: "Callable[[QueuedSegmentTranslator], Any]"
) -> Any:
    """run(translate) in a thread, which ends soon after the request was cancelled."""
    cancelled = threading.Event()
    async with AsyncExitStack() as stack:
        if model is not None:
            await stack.enter_async_context(use_model(pool, model))
        try:
            return await asyncio.to_thread(run, QueuedSegmentTranslator(pool, model, request, cancelled))
        except HeadwayError as error:
            raise ApiError(400, f"Invalid request: {error}") from None
        finally:
            cancelled.set()


class QueuedSegmentTranslator:
    """Translates the segments of a document. They are batched with the texts of other requests."""

    def __init__(
        self, pool: ModelPool, model: ServedModel | None, request: RequestOptions, cancelled: threading.Event
    ) -> None:
        """model: None copies the segments."""
        self.pool = pool
        self.model = model
        self.request = request
        self.cancelled = cancelled
        self.loop = asyncio.get_running_loop()
        self.warnings: list[str] = []

    def __call__(self, requests: Sequence[Any]) -> list[Any]:
        """In a thread. requests: of headway.documents.segments.SegmentRequest."""
        if self.model is None:
            return [
                segments.SegmentResult(one.text, [[n, n] for n in range(len(one.text.split()))]) for one in requests
            ]
        assert isinstance(self.model.loaded, Translator)
        can_align = any(one.align for one in requests) and segments.can_align(self.model.loaded)
        results: dict[int, Any] = {}
        for align in (False, True):
            indices = [n for n, one in enumerate(requests) if bool(one.align) is align]
            request = self.request.with_options(align=align and can_align)
            for start in range(0, len(indices), SEGMENTS_PER_SUBMIT):
                part = indices[start : start + SEGMENTS_PER_SUBMIT]
                for n, made in zip(part, self._translate([requests[n].text for n in part], request)):
                    unaligned = [segments.NO_ALIGNMENT_WARNING] if align and not can_align else []
                    results[n] = segments.SegmentResult(
                        made.text, made.guesses[0].alignment, [*made.warnings, *unaligned]
                    )
                    self.warnings += results[n].warnings
        return [results[n] for n in range(len(requests))]

    def _translate(self, texts: list[str], request: RequestOptions) -> Any:
        """Tries again while the queue is full: a document that has begun is not refused."""
        assert self.model is not None
        while not self.cancelled.is_set():
            try:
                return asyncio.run_coroutine_threadsafe(
                    translate_texts(self.pool, self.model, texts, request), self.loop
                ).result()
            except ApiError as error:
                if error.status != 429:
                    raise
            time.sleep(RETRY_SECONDS)
        raise ClientGone
