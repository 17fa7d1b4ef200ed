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

    config = _model_config(model)
    description = describe_model(config.model, config.search.to_dict(), source, target)
    own = {"longest": model.summary.max_tokens, "label_smoothing": config.train.label_smoothing}
    return {**_model_entry(pool, model), **description, **own}


def trace_text_events(model: ServedModel, body: Any) -> list[dict[str, Any]]:
    from headway.inspect.events import trace_events

    if model.is_translator:
        raise ApiError(400, f"Invalid request: {model.name} is a translation model: use /api/translate")
    loaded = _without_parts(model, body)
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

    tensors = _trace_tokens(model, body)
    if "output.logps" not in tensors:
        raise ApiError(400, "Invalid request: this model scores no tokens")
    tokenizer = _target_tokenizer(model)
    written = body.expected or (body.read if model.is_encoder else _output_tokens(model, body))
    return describe_predictions(tensors["output.logps"], written, tokenizer.pieces, body.top, body.temperature)


def describe_sublayer_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.sublayers import describe_sublayer

    tensors = _trace_tokens(model, body)
    if not any(name.startswith(f"{body.place}.") for name in tensors):
        raise _no_such_layer(body.place)
    network = _network(model)
    return describe_sublayer(tensors, body.place, network.config, network, body.head)


def measure_influence_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.ablation import ablate_network
    from headway.inspect.influence import describe_influence

    read = _check_tokens(model, body)
    network = ablate_network(_network(model), body.ablate) if body.ablate else _network(model)
    return describe_influence(network, read, _decoder_input(model, body), body.place, body.second)


def describe_column_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.sublayers import describe_column

    network = _network(model)
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

    tensors = _trace_tokens(model, body)
    network = _network(model)
    if body.side not in network.config.sides:
        raise ApiError(400, f"Invalid request: this model has no {body.side}")
    tokenizer = _target_tokenizer(model)
    ids = body.read if body.side == "encoder" else _decoder_input(model, body)
    following = body.expected or _output_tokens(model, body)
    asked = LayerQuestion(
        **{name: getattr(body, name) for name in ("parts", "side", "position", "layer", "neuron", "expert", "top")},
        ids=ids,
        expected=expected_tokens(network, body.side, body.expected or body.read, following, len(ids)),
    )
    return describe_layer_parts(network, tensors, asked, tokenizer.pieces)


def describe_token_vectors(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.embeddings import describe_vectors

    read = {"encoder": body.read, "decoder": _decoder_input(model, body)}
    tensors = _trace_tokens(model, body)
    tokenizers = {"encoder": _source_tokenizer(model), "decoder": _target_tokenizer(model)}
    sides = {side: ids for side, ids in read.items() if f"{side}.embedded" in tensors}
    return describe_vectors(tensors, sides, _network(model), lambda side, ids: tokenizers[side].pieces(ids))


def attribute_tokens(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.attribution import MAX_ATTRIBUTED_TOKENS, attribute_text, attribute_translation

    if max(len(body.read), len(body.written)) > MAX_ATTRIBUTED_TOKENS:
        raise ApiError(
            400, f"Invalid request: an attribution is of at most {MAX_ATTRIBUTED_TOKENS} tokens a side: send fewer"
        ).because("too_many_positions", limit=MAX_ATTRIBUTED_TOKENS)
    read = _check_tokens(model, body)
    _refuse_at_once(model)
    written = _output_tokens(model, body)
    if isinstance(model.loaded, Translator):
        found = attribute_translation(_without_parts(model, body), read, written, body.units)
    else:
        ids = [_decoder_input(model, body)[0], *written]
        found = attribute_text(_without_parts(model, body), ids, body.units)
    return found.to_dict()


def score_output_of(model: ServedModel, body: Any) -> dict[str, Any]:
    from headway.inspect.scored_output import count_lead, describe_scored, select_weights

    _refuse_at_once(model)
    if body.q:
        body = _tokenize_given(model, body)
    tensors = _trace_tokens(model, body)
    reader, writer = _source_tokenizer(model), _target_tokenizer(model)
    found: dict[str, Any] = {
        "read": {"ids": body.read, "pieces": reader.pieces(body.read)},
        "written": {"ids": body.written, "pieces": writer.pieces(body.written)},
        "finished": body.finished,
        "tensors": select_weights(tensors, body.weights),
    }
    if model.is_encoder:
        return {**found, "tokens": [], "logp": None, "score": None}
    written = _output_tokens(model, body)
    lead, search = 0, None
    if isinstance(model.loaded, Translator):
        lead, search = count_lead(written, writer), model.loaded.config.search
    scored = describe_scored(tensors["output.logps"], written, writer.pieces, lead=lead, search=search)
    return {**found, **scored}


def _tokenize_given(model: ServedModel, body: Any) -> Any:
    """The same with the tokens of its texts."""
    loaded: Any = model.loaded
    if isinstance(loaded, Translator):
        direction = loaded.direction_tokens(body.source, body.target)
        read = direction.wrap_source(loaded.tokenizers.source.encode(body.q.strip()))
        written = [*direction.target_lead, *loaded.tokenizers.target.encode(body.output.strip())]
    elif model.is_causal:
        read, written = [], list(loaded.make_prompt(body.q + body.output)[1])
    else:
        from headway.inspect.encoder_input import read_encoder_text

        own = read_encoder_text(loaded, body.q)
        return body.model_copy(update={"read": own.ids, "written": [], "second": own.second})
    return body.model_copy(update={"read": list(read), "written": written})


def _without_parts(model: ServedModel, body: Any) -> Any:
    """The translator or language model, without what is to be switched off."""
    from headway.inspect.ablation import ablate

    loaded: Any = model.loaded
    return ablate(loaded, body.ablate) if body.ablate else loaded


def _trace_tokens(model: ServedModel, body: Any) -> dict[str, Any]:
    """All tensors of a forward pass over these tokens. A side that the model does not have is ignored."""
    from headway.inspect.ablation import ablate_network
    from headway.inspect.tracer import trace_forward

    read = _check_tokens(model, body)
    network = ablate_network(_network(model), body.ablate) if body.ablate else _network(model)
    return trace_forward(network, read, _decoder_input(model, body), body.second)


def _check_tokens(model: ServedModel, body: Any) -> list[int]:
    """What the encoder reads, if there is one. Raises if the model cannot read these tokens."""
    from headway.inspect.tracer import MAX_TRACED_TOKENS

    config = _network(model).config
    sides = (("encoder", body.read, config.source_vocabulary), ("decoder", body.written, config.vocabulary))
    max_tokens = max(model.summary.max_tokens, MAX_TRACED_TOKENS if model.is_causal else 0) + EXTRA_TOKENS
    for side, ids, vocabulary in sides:
        if max(ids, default=0) >= (vocabulary or config.vocabulary):
            raise ApiError(400, f"Invalid request: token {max(ids)} is not in this model's vocabulary")
        if side in config.sides and len(ids) >= max_tokens:
            raise ApiError(
                400, f"Invalid request: {len(ids)} tokens are too many: this model reads fewer than {max_tokens}"
            ).because("too_many_tokens", count=len(ids), limit=max_tokens)
    if "encoder" in config.sides and not body.read:
        raise ApiError(400, "Invalid request: read is empty: send the token ids of the source")
    positions = model.summary.max_positions
    if positions is not None and max(len(body.read), len(body.written) + 1) > positions:
        refused = ApiError(400, f"Invalid request: this model has positions for at most {positions} tokens")
        raise refused.because("too_many_positions", limit=positions)
    return list(body.read) if "encoder" in config.sides else []


def _decoder_input(model: ServedModel, body: Any) -> list[int]:
    """What the decoder reads: the start token, then what it has generated; of mask-predict, all of that at once."""
    if "decoder" not in _network(model).config.sides:
        return []
    if _network(model).length_predictor is not None:
        if not body.written:
            raise ApiError(400, "Invalid request: written is empty: send the token ids that the decoder reads")
        return list(body.written)
    if isinstance(model.loaded, Translator):
        return [model.loaded.tokenizers.target.start, *body.written]
    return [model.language_model.special_tokens.start, *body.written]


def _output_tokens(model: ServedModel, body: Any) -> list[int]:
    """What was generated, with the end token, if there was one."""
    has_end = body.finished and _network(model).length_predictor is None
    return [*body.written, *[_target_tokenizer(model).end] * has_end]


def _refuse_at_once(model: ServedModel) -> None:
    if _network(model).length_predictor is not None:
        raise ApiError(
            400, "Invalid request: this model writes all tokens at once: no token has a probability given those before"
        )


def _model_config(model: ServedModel) -> Any:
    assert model.loaded is not None
    return model.loaded.config


def _network(model: ServedModel) -> Any:
    return model.loaded.steppers[0].model if isinstance(model.loaded, Translator) else model.language_model.model


def _source_tokenizer(model: ServedModel) -> Any:
    return model.loaded.tokenizers.source if isinstance(model.loaded, Translator) else model.language_model.tokenizer


def _target_tokenizer(model: ServedModel) -> Any:
    return model.loaded.tokenizers.target if isinstance(model.loaded, Translator) else model.language_model.tokenizer
