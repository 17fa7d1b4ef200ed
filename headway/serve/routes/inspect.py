"""What the page asks beside the stream: of which models, how they are made, and what they computed for given tokens."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from headway.errors import HeadwayError
from headway.serve import openapi
from headway.serve.errors import ApiError
from headway.serve.model_pool import Model
from headway.serve.schemas import PlaceBody, PlacesBody, ReadBody, TokensBody
from headway.serve.state import Service
from headway.serve.translate import using
from headway.translate.translator import Translator

T = TypeVar("T")


def routes(service: Service) -> APIRouter:
    router, shelf = APIRouter(), service.shelf

    async def working(request: Request, model: Model, work: Callable[[], T]) -> T:
        """In a thread, with one of the places for streams: it is no less work."""

        async def loaded() -> T:
            async with using(shelf, model):
                return await asyncio.to_thread(work)

        service.begin_stream([])
        try:
            return await service.answered(request, loaded())
        except HeadwayError as error:
            raise ApiError(400, f"Invalid request: {model.hidden(str(error))}") from None
        finally:
            service.end_stream()

    @router.get("/api/models", **openapi.INSIDE_MODELS)
    async def models(request: Request) -> JSONResponse:
        """The models of this server, of every kind."""
        service.admit(request, {})
        return JSONResponse([_named(model) for model in shelf.models])

    @router.get("/api/models/{name}", **openapi.INSIDE_MODEL)
    async def model(request: Request, name: str) -> JSONResponse:
        """How a model is made: its config, and the parameters and operations of its blocks. Loads it."""
        service.admit(request, {})
        found = shelf.named(name)
        lengths = [_length(request.query_params.get(side, "")) for side in ("source", "target")]
        return JSONResponse(await working(request, found, lambda: made_of(found, *lengths)))

    @router.post("/api/read", **openapi.INSIDE_READ)
    async def read(request: Request) -> JSONResponse:
        """What a language model does with a text, as the events of /api/translate, in a list."""
        body = await service.body(request, ReadBody)
        service.check_size(request, [body.q])
        found = shelf.named(body.model)
        return JSONResponse(await working(request, found, lambda: read_by(found, body)))

    @router.post("/api/places", **openapi.INSIDE_PLACES)
    async def places(request: Request) -> JSONResponse:
        """For each place of the target what was likely there."""
        body = await service.body(request, PlacesBody)
        found = shelf.named(body.model)
        return JSONResponse(await working(request, found, lambda: places_in(found, body)))

    @router.post("/api/inside", **openapi.INSIDE_PLACE)
    async def inside(request: Request) -> JSONResponse:
        """Queries, keys, values, scores and weights of one sub-layer, with what came in and what went out."""
        body = await service.body(request, PlaceBody)
        found = shelf.named(body.model)
        return JSONResponse(await working(request, found, lambda: place_in(found, body)))

    @router.post("/api/vectors", **openapi.INSIDE_VECTORS)
    async def vectors(request: Request) -> JSONResponse:
        """Where the tokens lie: neighbours, their way through the layers, what positions do."""
        body = await service.body(request, TokensBody)
        found = shelf.named(body.model)
        return JSONResponse(await working(request, found, lambda: vectors_in(found, body)))

    return router


def _named(model: Model) -> dict[str, Any]:
    pairs = [list(pair) for pair in model.pairs]
    return {"name": model.name, "kind": model.outline.objective, "pairs": pairs, "loaded": model.loaded is not None}


def _length(text: str) -> int:
    return min(max(int(text), 1), 4096) if text.isascii() and text.isdigit() and len(text) < 9 else 32


def made_of(model: Model, source: int, target: int) -> dict[str, Any]:
    from headway.inspect.html_page import described

    config = _config(model)
    made = described(config.model, config.search.to_dict(), source, target)
    return {**_named(model), **made, "longest": model.outline.longest}


def read_by(model: Model, body: Any) -> list[dict[str, Any]]:
    from headway.inspect.events import events_of

    if model.translates:
        raise ApiError(400, f"Invalid request: {model.name} is a translator: ask /api/translate")
    loaded = model.writer
    if loaded.config.train.objective.kind == "causal":
        settings = body.changes()
        if not settings.get("sample"):
            settings.setdefault("beam_size", 1)
        trace = loaded.trace(body.q, length=body.length, **(settings if body.length else {}))
    else:
        trace = loaded.trace(body.q)
    return events_of(trace, model.name)


def places_in(model: Model, body: Any) -> dict[str, Any]:
    from headway.inspect.events import places_of

    tensors, written = _opened(model, body), [*body.written, *[_writer(model).end] * body.finished]
    if model.outline.objective != "masked":
        return places_of(tensors["output.logps"], written, _writer(model).pieces, body.top, body.temperature)
    raise ApiError(400, "Invalid request: this model writes nothing")


def place_in(model: Model, body: Any) -> dict[str, Any]:
    from headway.inspect.events import place_of

    tensors = _opened(model, body)
    if not any(name.startswith(f"{body.place}.") for name in tensors):
        raise ApiError(400, f"Invalid request: there is no such layer in this model: {body.place}")
    return place_of(tensors, body.place)


def vectors_in(model: Model, body: Any) -> dict[str, Any]:
    from headway.inspect.embeddings import vectors_of

    read = {"encoder": body.read, "decoder": _target(model, body)}
    tensors, tokenizers = _opened(model, body), {"encoder": _reader(model), "decoder": _writer(model)}
    sides = {side: ids for side, ids in read.items() if f"{side}.embedded" in tensors}
    return vectors_of(tensors, sides, _network(model), lambda side, ids: tokenizers[side].pieces(ids))


def _opened(model: Model, body: Any) -> dict[str, Any]:
    """Everything that is computed for these tokens. A side that the model has not is not read."""
    from headway.inspect.tracer import MOST, read_openly

    network = _network(model)
    config = network.config
    sides = (("encoder", body.read, config.source_vocabulary), ("decoder", body.written, config.vocabulary))
    for side, ids, size in sides:
        if max(ids, default=0) >= (size or config.vocabulary):
            raise ApiError(400, f"Invalid request: token {max(ids)} is not in this model's vocabulary")
        if side in config.sides and len(ids) >= max(model.outline.longest, MOST if model.writes else 0) + 64:
            raise ApiError(400, f"Invalid request: {len(ids)} tokens are more than this model reads")
    if "encoder" in config.sides and not body.read:
        raise ApiError(400, "Invalid request: read is empty: there is nothing to look at")
    ends = model.outline.positions
    if ends is not None and max(len(body.read), len(body.written) + 1) > ends:
        raise ApiError(400, f"Invalid request: this model has positions for {ends} tokens")
    read = list(body.read) if "encoder" in config.sides else []
    return read_openly(network, read, _target(model, body))


def _target(model: Model, body: Any) -> list[int]:
    start = _writer(model).start if isinstance(model.loaded, Translator) else model.writer.marks.start
    return [start, *body.written] if "decoder" in _network(model).config.sides else []


def _config(model: Model) -> Any:
    assert model.loaded is not None
    return model.loaded.config


def _network(model: Model) -> Any:
    return model.loaded.steppers[0].model if isinstance(model.loaded, Translator) else model.writer.model


def _reader(model: Model) -> Any:
    return model.loaded.tokenizers.source if isinstance(model.loaded, Translator) else model.writer.tokenizer


def _writer(model: Model) -> Any:
    return model.loaded.tokenizers.target if isinstance(model.loaded, Translator) else model.writer.tokenizer
