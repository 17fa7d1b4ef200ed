"""HTML and files: headway.documents splits them into segments, which are queued for batches like any other text.

Files are read and written by document workers, processes of their own; HTML, as short as any text, by a thread."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway import documents
from headway.documents import segments
from headway.documents.files import MAX_SAMPLE_CHARS
from headway.documents.html import parse_html
from headway.documents.segments import DocumentCounts, SegmentRequest, SegmentResult
from headway.documents.worker import group_segments
from headway.errors import HeadwayError
from headway.serve.document_workers import DocumentWorkers
from headway.serve.errors import ApiError, ClientGone, server_ending
from headway.serve.languages import DetectedLanguage, detect_source, unsupported_language
from headway.serve.memory import MemoryBudget
from headway.serve.model_pool import ModelPool
from headway.serve.served_model import ServedModel
from headway.serve.translate import RequestOptions, translate_texts, use_model
from headway.translate.translator import Translator

MAX_SAMPLE_SEGMENTS = 1000  # by which a language is detected
RETRY_SECONDS = 0.2  # until a document that found the queue full tries again
POLL_SECONDS = 0.2  # how often a thread that waits looks whether the request was cancelled
HTML_BYTES_PER_CHARACTER = 400  # of memory, for tags with nothing between them


def file_suffixes() -> list[str]:
    """The suffixes of files that can be translated."""
    return sorted(documents.available_suffixes())


def result_suffix(suffix: str) -> str:
    """The suffix of the translation of a file with this one."""
    return documents.output_suffix(f"file{suffix}")


async def translate_html(
    pool: ModelPool, memory: MemoryBudget, model: ServedModel | None, text: str, request: RequestOptions
) -> tuple[str, list[str]]:
    """The translation, and warnings."""
    cancelled = threading.Event()
    async with AsyncExitStack() as stack:
        stack.enter_context(memory.reserve(HTML_BYTES_PER_CHARACTER * len(text)))
        if model is not None:
            await stack.enter_async_context(use_model(pool, model))
        translator = QueuedSegmentTranslator(pool, model, request)
        in_thread = translator.for_thread(cancelled)
        try:
            translation = await asyncio.to_thread(documents.translate_html, text, in_thread)
        except HeadwayError as error:
            raise ApiError(400, f"Invalid request: {error}") from None
        finally:
            cancelled.set()
    return translation, list(dict.fromkeys(translator.warnings))


@dataclass(frozen=True)
class UploadedDocument:
    """A client's file, and how it is read and written. The client takes turns with others."""

    workers: DocumentWorkers
    path: Path
    client: str
    language: str = ""  # to which it is translated

    @property
    def name(self) -> str:
        """For messages: clients must not learn where a file is stored."""
        return f"file{self.path.suffix}"

    async def read_segments(self) -> list[SegmentRequest]:
        try:
            return await self.workers.extract(self.path, self.name, self.client)
        except HeadwayError as error:
            raise ApiError(400, f"Invalid request: {error}") from None

    async def write(self, target: Path, results: Sequence[SegmentResult]) -> DocumentCounts:
        try:
            return await self.workers.write(self.path, target, self.name, self.client, results, self.language)
        except HeadwayError as error:
            raise ApiError(400, f"Invalid request: {error}") from None


async def translate_segments(
    pool: ModelPool, model: ServedModel | None, requests: Sequence[SegmentRequest], request: RequestOptions
) -> list[SegmentResult]:
    """Group by group, so that a long document does not fill the queue. model: None copies the segments."""
    results: list[SegmentResult] = []
    async with AsyncExitStack() as stack:
        if model is not None:
            await stack.enter_async_context(use_model(pool, model))
        translator = QueuedSegmentTranslator(pool, model, request)
        for group in _groups_before_end(pool, requests):
            results += await translator.translate(group)
    return results


def _groups_before_end(pool: ModelPool, requests: Sequence[SegmentRequest]) -> Iterator[Sequence[SegmentRequest]]:
    """Groups of segments, each taken when the one before has been translated. Once the server is to end, a document
    that would take longer, at the speed that it has had so far, is refused."""
    started = time.monotonic()
    total = sum(len(one.text) for one in requests)
    done = 0
    for group in group_segments(requests):
        now = time.monotonic()
        if pool.ends_at is not None and now + (now - started) * (total - done) / max(done, 1) > pool.ends_at:
            raise server_ending()
        yield group
        done += sum(len(one.text) for one in group)


def html_text(text: str) -> str:
    """HTML without its tags, to detect its language by."""
    return " ".join(piece.text for piece in parse_html(text) if piece.kind == "text")


async def detect_file_language(
    requests: Sequence[SegmentRequest], known: Sequence[str], target: str
) -> DetectedLanguage:
    """The language of a document, by the beginning of its text; one of the known ones."""
    text = " ".join(request.text for request in requests[:MAX_SAMPLE_SEGMENTS])[:MAX_SAMPLE_CHARS]
    if not text:
        return DetectedLanguage(known[0], 0)
    found = await asyncio.to_thread(detect_source, text, known, target)
    if found.language not in known:
        raise unsupported_language(found.language, "the file")
    return found


class QueuedSegmentTranslator:
    """Translates the segments of a document. They are batched with the texts of other requests."""

    def __init__(self, pool: ModelPool, model: ServedModel | None, request: RequestOptions) -> None:
        """model: None copies the segments."""
        self.pool = pool
        self.model = model
        self.request = request
        self.warnings: list[str] = []

    def for_thread(self, cancelled: threading.Event) -> segments.TranslateSegments:
        """The same for a thread, group by group. It raises ClientGone soon after `cancelled`."""
        loop = asyncio.get_running_loop()

        def translate(requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
            results: list[SegmentResult] = []
            for group in _groups_before_end(self.pool, requests):
                if cancelled.is_set():
                    raise ClientGone
                pending = asyncio.run_coroutine_threadsafe(self.translate(group), loop)
                while True:
                    try:
                        results += pending.result(POLL_SECONDS)
                        break
                    except TimeoutError:
                        if cancelled.is_set():
                            pending.cancel()
                            raise ClientGone from None
            return results

        return translate

    async def translate(self, requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
        """A group of segments: few enough to be queued at once."""
        if self.model is None:
            return [SegmentResult(one.text, [[n, n] for n in range(len(one.text.split()))]) for one in requests]
        assert isinstance(self.model.loaded, Translator)
        can_align = any(one.align for one in requests) and segments.can_align(self.model.loaded)
        results: dict[int, SegmentResult] = {}
        for align in (False, True):
            indices = [n for n, one in enumerate(requests) if bool(one.align) is align]
            if not indices:
                continue
            request = self.request.with_options(align=align and can_align)
            unaligned = [segments.NO_ALIGNMENT_WARNING] if align and not can_align else []
            for n, made in zip(indices, await self._translate_texts([requests[n].text for n in indices], request)):
                results[n] = SegmentResult(made.text, made.guesses[0].alignment, [*made.warnings, *unaligned])
                self.warnings += results[n].warnings
        return [results[n] for n in range(len(requests))]

    async def _translate_texts(self, texts: list[str], request: RequestOptions) -> Any:
        """Tries again while the queue is full: a document that has begun is not refused."""
        assert self.model is not None
        while True:
            try:
                return await translate_texts(self.pool, self.model, texts, request)
            except ApiError as error:
                if error.status != 429:
                    raise
            await asyncio.sleep(RETRY_SECONDS)
