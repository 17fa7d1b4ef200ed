"""From texts to translations: load the model, cut long texts into pieces, queue them for a batch, in time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headway.errors import HeadwayError
from headway.serve.errors import ApiError, ClientGone, request_timeout
from headway.serve.model_pool import ModelPool, ServedModel
from headway.text.segment.wrapped_lines import unwrap_text
from headway.translate.options import TranslateOptions
from headway.translate.results import Guess, Translation
from headway.translate.translator import Translator

T = TypeVar("T")
MAX_PIECE_CHARACTERS = 1000  # a longer text of several lines is queued in pieces, so that others wait less


@dataclass(frozen=True)
class RequestOptions:
    """What a request asks for, before its model is known: TranslateOptions and changed search settings."""

    options: TranslateOptions
    search_changes: tuple[tuple[str, Any], ...] = ()
    needs_scores: bool = False  # of whole texts

    def with_options(self, **changes: Any) -> "RequestOptions":
        """The same with other TranslateOptions."""
        return replace(self, options=replace(self.options, **changes))

    def for_model(self, translator: Translator) -> TranslateOptions:
        """The options for this model: the batching key of the queue."""
        return replace(self.options, search=translator.search(**dict(self.search_changes)))

    @property
    def divisible(self) -> bool:
        """Whether a text may be translated in pieces: the result is the same."""
        options = self.options
        return not (
            self.needs_scores
            or options.align
            or options.glossary
            or options.protect
            or options.min_confidence
            or "n_best" in dict(self.search_changes)
        )


@asynccontextmanager
async def use_model(pool: ModelPool, model: ServedModel) -> AsyncIterator[ServedModel]:
    """Load the model if needed, and keep it loaded inside the block."""
    if not pool.try_acquire(model):
        loading = asyncio.ensure_future(asyncio.to_thread(pool.acquire, model))
        try:
            await asyncio.shield(loading)
        except asyncio.CancelledError:  # the thread goes on loading: release the model when it is done
            loading.add_done_callback(lambda done: None if done.exception() else pool.release(model))
            raise
    try:
        yield model
    finally:
        pool.release(model)


async def translate_texts(
    pool: ModelPool, model: ServedModel, texts: Sequence[str], request: RequestOptions
) -> list[Translation]:
    """Batched with the texts of other requests. When this is cancelled, what has not begun is not translated."""
    async with use_model(pool, model):
        assert model.queue is not None and isinstance(model.loaded, Translator)
        pieces = [split_text(text) if request.divisible else [text] for text in texts]
        try:
            options = request.for_model(model.loaded)
            pending = model.queue.submit([piece for parts in pieces for piece in parts], options)
            results = await asyncio.wrap_future(pending)
        except HeadwayError as error:
            raise ApiError(400, f"Invalid request: {model.hide_path(str(error))}") from None
        translations = iter(results)
        return [join_translations([next(translations) for _ in parts]) for parts in pieces]


def split_text(text: str) -> list[str]:
    """Pieces of whole paragraphs, several short ones in one, so that no sentence is cut."""
    if len(text) <= MAX_PIECE_CHARACTERS:
        return [text]
    layout = unwrap_text(text)
    paragraphs = ["\n".join(one.lines) for one in layout.paragraphs] if layout else text.split("\n")
    pieces = [""]
    for paragraph in paragraphs:
        if len(pieces[-1]) + len(paragraph) > MAX_PIECE_CHARACTERS and pieces[-1]:
            pieces.append("")
        pieces[-1] += paragraph + "\n"
    pieces[-1] = pieces[-1][:-1]
    return [piece for piece in pieces if piece]


def join_translations(parts: Sequence[Translation]) -> Translation:
    """The translation of a text from those of its pieces."""
    if len(parts) == 1:
        return parts[0]
    best = [part.guesses[0] for part in parts]
    guess = Guess(
        "".join(one.text for one in best),
        sum(one.score for one in best),
        sum(one.logp for one in best),
        [token for one in best for token in one.tokens],
        [logp for one in best for logp in one.token_logps],
    )
    return Translation("".join(part.source for part in parts), [guess], [w for part in parts for w in part.warnings])


async def run_in_time(work: Awaitable[T], disconnect: Awaitable[Any], seconds: float) -> T:
    """The result of `work`; it is cancelled after so many seconds, or when `disconnect` is done."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(disconnect)
    try:
        await asyncio.wait({working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if leaving.done():
            leaving.result()
            raise ClientGone
        raise request_timeout(seconds)
    finally:
        working.cancel()
        leaving.cancel()
