"""What the page asks beside the stream: the models, their structure, and what they compute for given tokens."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from headway.config.objective_kinds import continues_text, shown_kind
from headway.decode.stop import stop_when
from headway.errors import HeadwayError
from headway.serve import openapi
from headway.serve.errors import ApiError
from headway.serve.model_pool import ModelPool
from headway.serve.schemas import (
    AttributionBody,
    ColumnBody,
    InfluenceBody,
    LayerBody,
    PositionsBody,
    ReadBody,
    ScoreBody,
    SublayerBody,
    TokensBody,
)
from headway.serve.served_model import ServedModel
from headway.serve.state import ServerState
from headway.serve.traced_tokens import (
    check_tokens,
    find_config,
    find_network,
    find_source_tokenizer,
    find_target_tokenizer,
    leave_out_parts,
    list_decoder_input,
    list_output,
    refuse_at_once,
    tokenize_given,
    trace_tokens,
)
from headway.serve.translate import use_model
from headway.text.language_codes import MAX_LISTED, list_directions, usual_direction
from headway.translate.translator import Translator

T = TypeVar("T")
MAX_COUNTED_LENGTH = 4096  # tokens for which operations are counted
DEFAULT_COUNTED_LENGTH = 32


def make_router(state: ServerState) -> APIRouter:
    router = APIRouter()
    pool = state.pool

    async def run_with_model(request: Request, model: ServedModel, work: Callable[[], T]) -> T:
        """In a thread. It counts as a stream: it is as much work. A thread ends only where it looks whether it is to
        stop: it counts until it ends, also when its client has left."""
        is_over = threading.Event()

        def compute() -> T:
            with stop_when(is_over.is_set):
                return work()

        async def run() -> T:
            async with use_model(pool, model):
                return await asyncio.to_thread(compute)

        def end(done: "asyncio.Future[T]") -> None:
            state.end_stream()
            done.cancelled() or done.exception()  # nobody may be left to take it

        state.begin_stream([])
        running = asyncio.ensure_future(run())
        running.add_done_callback(end)
        try:
            return await state.finish_in_time(request, asyncio.shield(running))
        except HeadwayError as error:
            raise ApiError(400, f"Invalid request: {model.hide_path(str(error))}") from None
        finally:
            is_over.set()

    @router.get("/api/models", **openapi.INSPECT_MODELS)
    async def models(request: Request) -> JSONResponse:
        """All models of this server."""
        state.check_key(request, {})
        return JSONResponse([_model_entry(pool, model) for model in pool.models])

    @router.get("/api/models/{name}", **openapi.INSPECT_MODEL)
    async def model(request: Request, name: str) -> JSONResponse:
        """A model's config, and the parameters and operations of its blocks. Loads it."""
        state.check_key(request, {})
        found = pool.model_named(name)
        lengths = [_parse_length(request.query_params.get(side, "")) for side in ("source", "target")]
        return JSONResponse(await run_with_model(request, found, lambda: describe_served_model(pool, found, *lengths)))

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

    @router.post("/api/influence", **openapi.INSPECT_INFLUENCE)
    async def influence(request: Request) -> JSONResponse:
        """How much each token is heard at each other in one layer, whatever its mixer computes."""
        body = await state.read_body(request, InfluenceBody)
        found = pool.model_named(body.model)
        return JSONResponse(await run_with_model(request, found, lambda: measure_influence_of(found, body)))

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

    @router.post("/api/attribution", **openapi.INSPECT_ATTRIBUTION)
    async def attribution(request: Request) -> JSONResponse:
        """On which words of the input each token of the output depends."""
        body = await state.read_body(request, AttributionBody)
        found = pool.model_named(body.model)
        return JSONResponse(await run_with_model(request, found, lambda: attribute_tokens(found, body)))

    @router.post("/api/score", **openapi.INSPECT_SCORE)
    async def score(request: Request) -> JSONResponse:
        """How likely a given output is, token by token, and the attention weights of writing it."""
        body = await state.read_body(request, ScoreBody)
        state.check_size(request, [body.q, body.output])
        found = pool.model_named(body.model)
        return JSONResponse(await run_with_model(request, found, lambda: score_output_of(found, body)))

    return router


def _model_entry(pool: ModelPool, model: ServedModel) -> dict[str, Any]:
    usual = usual_direction(model.sources, model.targets)
    pairs = dict.fromkeys([usual, *list_directions(model.sources[:MAX_LISTED], model.targets[:MAX_LISTED])])
    return {
        "name": model.name,
        "kind": shown_kind(model.summary.objective),
        "pairs": [list(pair) for pair in pairs if all(pair)],
        "pivots": pool.list_pivots(model),
        "sources": model.sources,
        "targets": model.targets,
        "loaded": model.loaded is not None,
        "checkpoints": [
            {"name": one.name, "step": one.checkpoint.step, "loss": one.checkpoint.loss}
            for one in model.checkpoints
            if one.checkpoint is not None
        ],
    }


def _parse_length(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        return DEFAULT_COUNTED_LENGTH
    return min(max(int(text), 1), MAX_COUNTED_LENGTH)


def describe_served_model(pool: ModelPool, model: ServedModel, source: int, target: int) -> dict[str, Any]:
    from headway.inspect.recorded_answers import describe_model

    config = find_config(model)
    description = describe_model(config.model, config.search.to_dict(), source, target)
    own = {"longest": model.summary.max_tokens, "label_smoothing": config.train.label_smoothing}
    return {**_model_entry(pool, model), **description, **own}


def trace_text_events(model: ServedModel, body: Any) -> list[dict[str, Any]]:
    from headway.inspect.events import trace_events

    if model.is_translator:
        raise ApiError(400, f"Invalid request: {model.name} is a translation model: use /api/translate")
    loaded = leave_out_parts(model, body)
    settings = body.search_settings()
    if isinstance(loaded, Translator):
        trace = loaded.trace(body.q, prefix=body.prefix, **settings)
    elif continues_text(loaded.config.train.objective.kind):
        if not settings.get("sample"):
            settings.setdefault("beam_size", 1)
        trace = loaded.trace(body.q, length=body.length, prefix=body.prefix, **(settings if body.length else {}))
    else:
        trace = loaded.trace(body.q, hidden=body.hidden)
    return trace_events(trace, model.name)


def predict_positions(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.events import describe_predictions

    tensors = trace_tokens(model, body)
    if "output.logps" not in tensors:
        raise ApiError(400, "Invalid request: this model scores no tokens")
    tokenizer = find_target_tokenizer(model)
    written = body.expected or (body.read if model.is_encoder else list_output(model, body))
    return describe_predictions(tensors["output.logps"], written, tokenizer.pieces, body.top, body.temperature)


def describe_sublayer_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.sublayers import describe_sublayer

    tensors = trace_tokens(model, body)
    if not any(name.startswith(f"{body.place}.") for name in tensors):
        raise _no_such_layer(body.place)
    network = find_network(model)
    return describe_sublayer(tensors, body.place, network.config, network, body.head)


def measure_influence_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.ablation import ablate_network
    from headway.inspect.influence import describe_influence

    read = check_tokens(model, body)
    network = ablate_network(find_network(model), body.ablate) if body.ablate else find_network(model)
    return describe_influence(network, read, list_decoder_input(model, body), body.place, body.second)


def describe_column_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.sublayers import describe_column

    network = find_network(model)
    side, layer, *inner, sub = body.place.split(".")
    stack = getattr(network.config, side)
    has_streams = not inner or stack.streams == 2
    if not has_streams or int(layer) >= stack.layers or (sub == "cross" and stack.tiled("cross")[int(layer)] is None):
        raise _no_such_layer(body.place)
    return describe_column(network, body.place, body.matrix, body.head, body.channel)


def _no_such_layer(place: str) -> ApiError:
    return ApiError(400, f"Invalid request: there is no such layer in this model: {place}")


def describe_layer_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.layer_answers import LayerQuestion, describe_layer_parts, expected_tokens

    tensors = trace_tokens(model, body)
    network = find_network(model)
    if body.side not in network.config.sides:
        raise ApiError(400, f"Invalid request: this model has no {body.side}")
    tokenizer = find_target_tokenizer(model)
    ids = body.read if body.side == "encoder" else list_decoder_input(model, body)
    following = body.expected or list_output(model, body)
    asked = LayerQuestion(
        **{name: getattr(body, name) for name in ("parts", "side", "position", "layer", "neuron", "expert", "top")},
        ids=ids,
        expected=expected_tokens(network, body.side, body.expected or body.read, following, len(ids)),
    )
    return describe_layer_parts(network, tensors, asked, tokenizer.pieces)


def describe_token_vectors(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.embeddings import describe_vectors

    read = {"encoder": body.read, "decoder": list_decoder_input(model, body)}
    tensors = trace_tokens(model, body)
    tokenizers = {"encoder": find_source_tokenizer(model), "decoder": find_target_tokenizer(model)}
    sides = {side: ids for side, ids in read.items() if f"{side}.embedded" in tensors}
    return describe_vectors(tensors, sides, find_network(model), lambda side, ids: tokenizers[side].pieces(ids))


def attribute_tokens(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.attribution import MAX_ATTRIBUTED_TOKENS, attribute_text, attribute_translation

    if max(len(body.read), len(body.written)) > MAX_ATTRIBUTED_TOKENS:
        raise ApiError(
            400, f"Invalid request: an attribution is of at most {MAX_ATTRIBUTED_TOKENS} tokens a side: send fewer"
        ).because("too_many_positions", limit=MAX_ATTRIBUTED_TOKENS)
    read = check_tokens(model, body)
    refuse_at_once(model)
    written = list_output(model, body)
    if isinstance(model.loaded, Translator):
        found = attribute_translation(leave_out_parts(model, body), read, written, body.units)
    else:
        ids = [list_decoder_input(model, body)[0], *written]
        found = attribute_text(leave_out_parts(model, body), ids, body.units)
    return found.to_dict()


def score_output_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.scored_output import count_lead, describe_scored, select_weights

    refuse_at_once(model)
    if body.q:
        body = tokenize_given(model, body)
    tensors = trace_tokens(model, body)
    reader, writer = find_source_tokenizer(model), find_target_tokenizer(model)
    found: dict[str, Any] = {
        "read": {"ids": body.read, "pieces": reader.pieces(body.read)},
        "written": {"ids": body.written, "pieces": writer.pieces(body.written)},
        "finished": body.finished,
        "tensors": select_weights(tensors, body.weights),
    }
    if model.is_encoder:
        return {**found, "tokens": [], "logp": None, "score": None}
    written = list_output(model, body)
    lead, search = 0, None
    if isinstance(model.loaded, Translator):
        lead, search = count_lead(written, writer), model.loaded.config.search
    scored = describe_scored(tensors["output.logps"], written, writer.pieces, lead=lead, search=search)
    return {**found, **scored}
