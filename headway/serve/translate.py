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
from headway.serve.served_route import ServedLeg, ServedRoute
from headway.translate.confidence import check_min_confidence
from headway.translate.options import TranslateOptions
from headway.translate.pivot import SHARED_SETTINGS, PivotLine, join_legs, leg_options, read_line
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
    min_leg_confidence: float = 0.0  # of a leg: what both together must have

    def with_options(self, **changes: Any) -> "RequestOptions":
        """The same with other TranslateOptions."""
        return replace(self, options=replace(self.options, **changes))

    def for_legs(self, route: ServedRoute) -> "list[RequestOptions]":
        """What is asked of each leg of two."""
        shared = tuple((name, value) for name, value in self.search_changes if name in SHARED_SETTINGS)
        minimum = self.options.min_confidence
        return [
            replace(
                self,
                options=leg_options(self.options, leg.source, leg.target, leg is route.legs[-1], None),
                search_changes=self.search_changes if leg is route.legs[-1] else shared,
                needs_scores=self.needs_scores or minimum > 0,
                min_leg_confidence=minimum,
            )
            for leg in route.legs
        ]

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
    pool: ModelPool, route: ServedRoute, texts: Sequence[str], request: RequestOptions
) -> list[Translation]:
    """Batched with the texts of other requests. When this is cancelled, the search ends at its next step."""
    if not route.pivot:
        return await translate_leg(pool, route.legs[0], texts, request.with_options(source=route.legs[0].source))
    lines = await read_pivot_lines(texts, request.options)
    made: list[list[Translation]] = []
    given: Sequence[str] = [line.text for line in lines]
    for leg, own in zip(route.legs, request.for_legs(route)):
        made.append(await translate_leg(pool, leg, given, own))
        given = [one.text for one in made[-1]]
    joined = (join_legs(line, first, second, route.choice) for line, first, second in zip(lines, *made))
    return [one.keep_source_below(request.options.min_confidence) for one in joined]


async def read_pivot_lines(texts: Sequence[str], options: TranslateOptions) -> list[PivotLine]:
    """Texts as the first of two legs reads them."""
    return await asyncio.to_thread(lambda: [read_line(text, options) for text in texts])


async def translate_leg(
    pool: ModelPool, leg: ServedLeg, texts: Sequence[str], request: RequestOptions
) -> list[Translation]:
    """By one model."""
    async with use_model(pool, leg.model):
        with _api_errors(leg.model):
            if request.min_leg_confidence:
                assert isinstance(leg.model.loaded, Translator)
                check_min_confidence(request.min_leg_confidence, leg.model.loaded, leg.target)
            return await asyncio.wrap_future(submit_texts(leg.model, texts, request))


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
