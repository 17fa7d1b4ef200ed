"""From texts to translations: load the model, queue them for batches of sentences, in time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headway.decode.stop import SearchStopped
from headway.errors import HeadwayError
from headway.serve.errors import ApiError, ClientGone, request_timeout, server_ending
from headway.serve.model_pool import ModelPool
from headway.serve.queued_texts import JobOptions
from headway.serve.served_model import ServedModel
from headway.translate.options import TranslateOptions
from headway.translate.results import Translation
from headway.translate.translator import Translator

T = TypeVar("T")
USUAL_BEAM_SIZE = 4


@dataclass(frozen=True)
class RequestOptions:
    """What a request asks for, before its model is known: TranslateOptions and changed search settings."""

    options: TranslateOptions
    search_changes: tuple[tuple[str, Any], ...] = ()
    needs_scores: bool = False
    model: str = ""  # its name; "": the first for the languages

    def with_options(self, **changes: Any) -> "RequestOptions":
        """The same with other TranslateOptions."""
        return replace(self, options=replace(self.options, **changes))

    def for_model(self, translator: Translator) -> TranslateOptions:
        """The options for this model."""
        return replace(self.options, search=translator.search(**dict(self.search_changes)))


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
    """Batched with the texts of other requests. When this is cancelled, the search ends at its next step."""
    async with use_model(pool, model):
        with _api_errors(model):
            return await asyncio.wrap_future(submit_texts(model, texts, request))


def submit_texts(model: ServedModel, texts: Sequence[str], request: RequestOptions) -> "Future[list[Translation]]":
    """Queue texts for a model that is loaded."""
    assert model.queue is not None and isinstance(model.loaded, Translator)
    options = request.for_model(model.loaded)
    assert options.search is not None
    width = max(options.search.beam_size, options.search.n_best) / USUAL_BEAM_SIZE
    return model.queue.submit(texts, JobOptions(options, request.needs_scores), width)


@contextmanager
def _api_errors(model: ServedModel) -> Iterator[None]:
    try:
        yield
    except HeadwayError as error:
        raise ApiError(400, f"Invalid request: {model.hide_path(str(error))}") from None
    except SearchStopped:
        raise server_ending() from None


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
