"""What the page asks beside the stream: the models, their structure, and what they compute for given tokens."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from headway.errors import HeadwayError
from headway.serve import openapi
from headway.serve.errors import ApiError
from headway.serve.model_pool import ServedModel
from headway.serve.schemas import ColumnBody, LayerBody, PositionsBody, ReadBody, SublayerBody, TokensBody
from headway.serve.state import ServerState
from headway.serve.translate import use_model
from headway.text.language_codes import MAX_LISTED, list_directions, usual_direction
from headway.translate.translator import Translator

T = TypeVar("T")
EXTRA_TOKENS = 64  # that an output may have beyond the longest text of the training
MAX_COUNTED_LENGTH = 4096  # tokens for which operations are counted
DEFAULT_COUNTED_LENGTH = 32


def make_router(state: ServerState) -> APIRouter:
    router = APIRouter()
    pool = state.pool

    async def run_with_model(request: Request, model: ServedModel, work: Callable[[], T]) -> T:
        """In a thread. It counts as a stream: it is as much work. A thread cannot be stopped: it counts until it ends,
        also when its client has left."""

        async def run() -> T:
            async with use_model(pool, model):
                return await asyncio.to_thread(work)

        state.begin_stream([])
        running = asyncio.ensure_future(run())
        running.add_done_callback(lambda _: state.end_stream())
        try:
            return await state.finish_in_time(request, asyncio.shield(running))
        except HeadwayError as error:
            raise ApiError(400, f"Invalid request: {model.hide_path(str(error))}") from None

    @router.get("/api/models", **openapi.INSPECT_MODELS)
    async def models(request: Request) -> JSONResponse:
        """All models of this server."""
        state.check_key(request, {})
        return JSONResponse([_model_entry(model) for model in pool.models])

    @router.get("/api/models/{name}", **openapi.INSPECT_MODEL)
    async def model(request: Request, name: str) -> JSONResponse:
        """A model's config, and the parameters and operations of its blocks. Loads it."""
        state.check_key(request, {})
        found = pool.model_named(name)
        lengths = [_parse_length(request.query_params.get(side, "")) for side in ("source", "target")]
        return JSONResponse(await run_with_model(request, found, lambda: describe_served_model(found, *lengths)))

    @router.post("/api/read", **openapi.INSPECT_READ)
    async def read(request: Request) -> JSONResponse:
        """Trace a language model on a text: the events of /api/translate, in a list."""
        body = await state.read_body(request, ReadBody)
        state.check_size(request, [body.q])
        found = pool.model_named(body.model)
        return JSONResponse(await run_with_model(request, found, lambda: trace_text_events(found, body)))

    @router.post("/api/places", **openapi.INSPECT_POSITIONS)
    async def places(request: Request) -> JSONResponse:
        """The likeliest tokens at each target position."""
        body = await state.read_body(request, PositionsBody)
        found = pool.model_named(body.model)
        return JSONResponse(await run_with_model(request, found, lambda: predict_positions(found, body)))

    @router.post("/api/inside", **openapi.INSPECT_SUBLAYER)
    async def inside(request: Request) -> JSONResponse:
        """All tensors of one sub-layer, from its input to its output, and the equations between them."""
        body = await state.read_body(request, SublayerBody)
        found = pool.model_named(body.model)
        return JSONResponse(await run_with_model(request, found, lambda: describe_sublayer_of(found, body)))

    @router.post("/api/column", **openapi.INSPECT_COLUMN)
    async def column(request: Request) -> JSONResponse:
        """The weights that lead to one number of a query, key, value or output: a column of a matrix, and its bias."""
        body = await state.read_body(request, ColumnBody)
        found = pool.model_named(body.model)
        return JSONResponse(await run_with_model(request, found, lambda: describe_column_of(found, body)))

    @router.post("/api/layer", **openapi.INSPECT_LAYER)
    async def layer(request: Request) -> JSONResponse:
        """One token on its way: embedding, residual stream, norms, neurons, experts, output scores, logit lens."""
        body = await state.read_body(request, LayerBody)
        found = pool.model_named(body.model)
        return JSONResponse(await run_with_model(request, found, lambda: describe_layer_of(found, body)))

    @router.post("/api/vectors", **openapi.INSPECT_VECTORS)
    async def vectors(request: Request) -> JSONResponse:
        """Embeddings: nearest tokens, paths through the layers, positional encodings."""
        body = await state.read_body(request, TokensBody)
        found = pool.model_named(body.model)
        return JSONResponse(await run_with_model(request, found, lambda: describe_token_vectors(found, body)))

    return router


def _model_entry(model: ServedModel) -> dict[str, Any]:
    usual = usual_direction(model.sources, model.targets)
    pairs = dict.fromkeys([usual, *list_directions(model.sources[:MAX_LISTED], model.targets[:MAX_LISTED])])
    return {
        "name": model.name,
        "kind": model.summary.objective,
        "pairs": [list(pair) for pair in pairs if all(pair)],
        "sources": model.sources,
        "targets": model.targets,
        "loaded": model.loaded is not None,
    }


def _parse_length(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        return DEFAULT_COUNTED_LENGTH
    return min(max(int(text), 1), MAX_COUNTED_LENGTH)


def describe_served_model(model: ServedModel, source: int, target: int) -> dict[str, Any]:
    from headway.inspect.recorded_answers import describe_model

    config = _model_config(model)
    description = describe_model(config.model, config.search.to_dict(), source, target)
    own = {"longest": model.summary.max_tokens, "label_smoothing": config.train.label_smoothing}
    return {**_model_entry(model), **description, **own}


def trace_text_events(model: ServedModel, body: Any) -> list[dict[str, Any]]:
    from headway.inspect.events import trace_events

    if model.is_translator:
        raise ApiError(400, f"Invalid request: {model.name} is a translation model: use /api/translate")
    loaded = model.language_model
    if body.ablate:
        from headway.inspect.ablation import ablate

        loaded = ablate(loaded, body.ablate)
    if loaded.config.train.objective.kind == "causal":
        settings = body.search_settings()
        if not settings.get("sample"):
            settings.setdefault("beam_size", 1)
        trace = loaded.trace(body.q, length=body.length, **(settings if body.length else {}))
    else:
        trace = loaded.trace(body.q)
    return trace_events(trace, model.name)


def predict_positions(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.events import describe_predictions

    tensors = _trace_tokens(model, body)
    if model.summary.objective == "masked":
        raise ApiError(400, "Invalid request: this is a masked language model, which generates no tokens")
    tokenizer = _target_tokenizer(model)
    written = [*body.written, *[tokenizer.end] * body.finished]
    return describe_predictions(tensors["output.logps"], written, tokenizer.pieces, body.top, body.temperature)


def describe_sublayer_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.sublayers import describe_sublayer

    tensors = _trace_tokens(model, body)
    if not any(name.startswith(f"{body.place}.") for name in tensors):
        raise _no_such_layer(body.place)
    network = _network(model)
    return describe_sublayer(tensors, body.place, network.config, network, body.head)


def describe_column_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.sublayers import describe_column

    network = _network(model)
    side, layer, sub = body.place.split(".")
    stack = getattr(network.config, side)
    if int(layer) >= stack.layers or (sub == "cross" and stack.tiled("cross")[int(layer)] is None):
        raise _no_such_layer(body.place)
    return describe_column(network, body.place, body.matrix, body.head, body.channel)


def _no_such_layer(place: str) -> ApiError:
    return ApiError(400, f"Invalid request: there is no such layer in this model: {place}")


def describe_layer_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.layer_answers import LayerQuestion, describe_layer_parts, expected_tokens

    tensors = _trace_tokens(model, body)
    network = _network(model)
    if body.side not in network.config.sides:
        raise ApiError(400, f"Invalid request: this model has no {body.side}")
    tokenizer = _target_tokenizer(model)
    ids = body.read if body.side == "encoder" else _decoder_input(model, body)
    following = [*body.written, *[tokenizer.end] * body.finished]
    asked = LayerQuestion(
        **{name: getattr(body, name) for name in ("parts", "side", "position", "layer", "neuron", "expert", "top")},
        ids=ids,
        expected=expected_tokens(network, body.side, body.read, following, len(ids)),
    )
    return describe_layer_parts(network, tensors, asked, tokenizer.pieces)


def describe_token_vectors(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.embeddings import describe_vectors

    read = {"encoder": body.read, "decoder": _decoder_input(model, body)}
    tensors = _trace_tokens(model, body)
    tokenizers = {"encoder": _source_tokenizer(model), "decoder": _target_tokenizer(model)}
    sides = {side: ids for side, ids in read.items() if f"{side}.embedded" in tensors}
    return describe_vectors(tensors, sides, _network(model), lambda side, ids: tokenizers[side].pieces(ids))


def _trace_tokens(model: ServedModel, body: Any) -> dict[str, Any]:
    """All tensors of a forward pass over these tokens. A side that the model does not have is ignored."""
    from headway.inspect.ablation import ablate_network
    from headway.inspect.tracer import MAX_TRACED_TOKENS, trace_forward

    network = _network(model)
    config = network.config
    sides = (("encoder", body.read, config.source_vocabulary), ("decoder", body.written, config.vocabulary))
    max_tokens = max(model.summary.max_tokens, MAX_TRACED_TOKENS if model.is_causal else 0) + EXTRA_TOKENS
    for side, ids, vocabulary in sides:
        if max(ids, default=0) >= (vocabulary or config.vocabulary):
            raise ApiError(400, f"Invalid request: token {max(ids)} is not in this model's vocabulary")
        if side in config.sides and len(ids) >= max_tokens:
            raise ApiError(
                400, f"Invalid request: {len(ids)} tokens are too many: this model reads fewer than {max_tokens}"
            )
    if "encoder" in config.sides and not body.read:
        raise ApiError(400, "Invalid request: read is empty: send the token ids of the source")
    positions = model.summary.max_positions
    if positions is not None and max(len(body.read), len(body.written) + 1) > positions:
        raise ApiError(400, f"Invalid request: this model has positions for at most {positions} tokens")
    read = list(body.read) if "encoder" in config.sides else []
    if body.ablate:
        network = ablate_network(network, body.ablate)
    return trace_forward(network, read, _decoder_input(model, body))


def _decoder_input(model: ServedModel, body: Any) -> list[int]:
    """What the decoder reads: the start token, then what it has generated."""
    if "decoder" not in _network(model).config.sides:
        return []
    if isinstance(model.loaded, Translator):
        return [model.loaded.tokenizers.target.start, *body.written]
    return [model.language_model.special_tokens.start, *body.written]


def _model_config(model: ServedModel) -> Any:
    assert model.loaded is not None
    return model.loaded.config


def _network(model: ServedModel) -> Any:
    return model.loaded.steppers[0].model if isinstance(model.loaded, Translator) else model.language_model.model


def _source_tokenizer(model: ServedModel) -> Any:
    return model.loaded.tokenizers.source if isinstance(model.loaded, Translator) else model.language_model.tokenizer


def _target_tokenizer(model: ServedModel) -> Any:
    return model.loaded.tokenizers.target if isinstance(model.loaded, Translator) else model.language_model.tokenizer
