"""HTML and files: headway.documents splits them into segments, which are queued for batches like any other text.

Files are read and written by document workers, processes of their own; HTML, as short as any text, by a thread."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

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
from headway.serve.served_route import ServedLeg, ServedRoute
from headway.serve.translate import RequestOptions, read_pivot_lines, translate_leg, use_model
from headway.translate.pivot import join_legs
from headway.translate.results import Translation
from headway.translate.translator import Translator

T = TypeVar("T")

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
    pool: ModelPool, memory: MemoryBudget, route: ServedRoute | None, text: str, request: RequestOptions
) -> tuple[str, list[str]]:
    """The translation, and warnings."""
    cancelled = threading.Event()
    with memory.reserve(HTML_BYTES_PER_CHARACTER * len(text)):
        translator = QueuedSegmentTranslator(pool, route, request)
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
    pool: ModelPool, route: ServedRoute | None, requests: Sequence[SegmentRequest], request: RequestOptions
) -> list[SegmentResult]:
    """route: None copies the segments."""
    return await QueuedSegmentTranslator(pool, route, request).translate(requests)


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

    def __init__(self, pool: ModelPool, route: ServedRoute | None, request: RequestOptions) -> None:
        """route: None copies the segments."""
        self.pool = pool
        self.route = route
        self.request = request
        self.warnings: list[str] = []

    def for_thread(self, cancelled: threading.Event) -> segments.TranslateSegments:
        """The same for a thread. It raises ClientGone soon after `cancelled`."""
        loop = asyncio.get_running_loop()

        def translate(requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
            pending = asyncio.run_coroutine_threadsafe(self.translate(requests), loop)
            while True:
                try:
                    return pending.result(POLL_SECONDS)
                except TimeoutError:
                    if cancelled.is_set():
                        pending.cancel()
                        raise ClientGone from None

        return translate

    async def translate(self, requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
        """All segments, by one model after the other where there are two: so one at a time needs to be loaded."""
        if self.route is None:
            return [SegmentResult(one.text, [[n, n] for n in range(len(one.text.split()))]) for one in requests]
        if self.route.pivot:
            results = await self._translate_through(self.route, requests)
        else:
            (leg,) = self.route.legs
            own = self.request.with_options(source=leg.source)
            results = await self._translate_leg(leg, requests, own, to_result)
        results = [
            _warn_of_guess(one) if request.align and one.links is None else one
            for one, request in zip(results, requests)
        ]
        self.warnings += [warning for result in results for warning in result.warnings]
        return results

    async def _translate_through(self, route: ServedRoute, requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
        options = self.request.options
        lines = await read_pivot_lines([one.text for one in requests], options)
        given = [SegmentRequest(line.text, one.align) for line, one in zip(lines, requests)]
        made: list[list[Translation]] = []
        for leg, own in zip(route.legs, self.request.for_legs(route)):
            made.append(await self._translate_leg(leg, given, own, lambda one: one))
            given = [SegmentRequest(text.text, one.align) for text, one in zip(made[-1], requests)]
        joined = (join_legs(line, first, second, route.choice) for line, first, second in zip(lines, *made))
        return [to_result(one.keep_source_below(options.min_confidence)) for one in joined]

    async def _translate_leg(
        self,
        leg: ServedLeg,
        requests: Sequence[SegmentRequest],
        request: RequestOptions,
        convert: Callable[[Translation], T],
    ) -> list[T]:
        """Group by group, so that a long document does not fill the queue; each is converted at once, because what a
        search has found takes memory."""
        results: list[T] = []
        async with use_model(self.pool, leg.model):
            assert isinstance(leg.model.loaded, Translator)
            can_align = any(one.align for one in requests) and segments.can_align(leg.model.loaded)
            for group in _groups_before_end(self.pool, requests):
                translations = await self._translate_group(leg, group, request, can_align)
                results += [convert(translations[n]) for n in range(len(group))]
        return results

    async def _translate_group(
        self, leg: ServedLeg, group: Sequence[SegmentRequest], request: RequestOptions, can_align: bool
    ) -> dict[int, Translation]:
        """Few enough segments to be queued at once."""
        results: dict[int, Translation] = {}
        for align in (False, True):
            indices = [n for n, one in enumerate(group) if bool(one.align) is align]
            if not indices:
                continue
            own = request.with_options(align=align and can_align)
            made = await self._translate_texts(leg, [group[n].text for n in indices], own)
            results |= dict(zip(indices, made))
        return results

    async def _translate_texts(self, leg: ServedLeg, texts: list[str], request: RequestOptions) -> list[Translation]:
        """Tries again while the queue is full: a document that has begun is not refused."""
        while True:
            try:
                return await translate_leg(self.pool, leg, texts, request)
            except ApiError as error:
                if error.status != 429:
                    raise
            await asyncio.sleep(RETRY_SECONDS)


def to_result(made: Translation) -> SegmentResult:
    return SegmentResult(made.text, made.guesses[0].alignment, made.warnings)


def _warn_of_guess(result: SegmentResult) -> SegmentResult:
    return result._replace(warnings=[*result.warnings, segments.NO_ALIGNMENT_WARNING])
