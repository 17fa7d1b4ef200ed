"""POST /api/translate: a translation step by step, one JSON object a line. docs/serving.md lists the events."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headway.config.search import Search
from headway.errors import HeadwayError
from headway.serve import openapi
from headway.serve.errors import ApiError, internal_error
from headway.serve.event_stream import Emit, Event, EventStreamResponse
from headway.serve.languages import detect_source, unsupported_language
from headway.serve.model_pool import ModelPool
from headway.serve.schemas import StreamBody
from headway.serve.served_model import ServedModel
from headway.serve.served_route import ServedLeg, ServedRoute
from headway.serve.state import ServerState
from headway.serve.translate import RequestOptions, translate_leg
from headway.text.segment.sentence_spacing import adapt_spacing
from headway.text.spans.protect import make_protector
from headway.translate.options import TranslateOptions
from headway.translate.pivot import SHARED_SETTINGS
from headway.translate.search import make_requests, translate_requests
from headway.translate.source import Sentence, SourceReader
from headway.translate.translator import Translator


def make_router(state: ServerState) -> APIRouter:
    router = APIRouter()
    pool = state.pool

    @router.post("/api/translate", **openapi.STREAM)
    async def stream_translation(request: Request) -> Response:
        """Translate, with one event for each decoding step."""
        body = await state.read_body(request, StreamBody)
        state.check_size(request, [body.q])
        target = pool.resolve_language(body.target)
        if body.source == "auto":
            known = pool.sources_for(target)
            source = (await asyncio.to_thread(detect_source, body.q, known, target)).language
            if source not in known:
                raise unsupported_language(source, "the text")
        else:
            source = pool.resolve_source(body.source)
        route = find_stream_route(pool, source, target, body.model)
        model = route.model
        start: Event = {"event": "start", "model": model.name, "source": source, "target": target}
        first: Event = {}
        if route.pivot:
            first = await state.finish_in_time(request, translate_first_leg(pool, route, body))
            start["pivot"] = route.pivot
            body.q = first["text"]

        def work(emit: Emit) -> None:
            assert isinstance(model.loaded, Translator)
            search = model.loaded.search(**body.search_settings())
            emit({**start, "penalty": [search.penalty, search.alpha]})
            if first:
                emit(first)
            stream_sentences(model, body, search, route.legs[-1].source, target, emit)

        def error_event(error: Exception) -> Event:
            if isinstance(error, ApiError):
                return {"event": "error", **error.to_dict(), "error": model.hide_path(error.message)}
            if isinstance(error, HeadwayError):
                return {"event": "error", "error": model.hide_path(str(error))}
            pool.log(f"{type(error).__name__} in a stream", "internal error")
            return {"event": "error", **internal_error("something went wrong on the server").to_dict()}

        state.begin_stream([body.q])
        headers = {"Content-Type": "application/x-ndjson", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return EventStreamResponse(
            request, state, model, work, encode=encode_line, error_event=error_event, headers=headers
        )

    return router


def find_stream_route(pool: ModelPool, source: str, target: str, name: str) -> ServedRoute:
    """The models of a direction, the last of them the one of this name, if there is one; or a checkpoint alone."""
    model = pool.model_named(name) if name else None
    if model is not None and model.translates(source, target):
        return ServedRoute((ServedLeg(model, source, target),))
    try:
        found = None if model is not None and model.checkpoint is not None else pool.route_for(source, target, name)
    except ApiError:
        found = None
    if found is None:
        by_model = f" by {model.name}" if model else ""
        refused = ApiError(400, f"{target} is not available as a target language from {source}{by_model}")
        raise refused.because("no_direction", source=source, target=target)
    return found


async def translate_first_leg(pool: ModelPool, route: ServedRoute, body: StreamBody) -> Event:
    """The event about the first of two models, whose steps are not shown."""
    leg = route.legs[0]
    options = TranslateOptions(source=leg.source, target=leg.target)
    changes = tuple((name, value) for name, value in body.search_settings().items() if name in SHARED_SETTINGS)
    request = RequestOptions(options, () if body.sample else changes)
    (made,) = await translate_leg(pool, leg, [body.q], request)
    return {
        "event": "pivot",
        "model": leg.model.name,
        "source": leg.source,
        "target": leg.target,
        "text": made.text,
        "warnings": made.warnings,
    }


def encode_line(event: Event) -> bytes:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def stream_sentences(model: ServedModel, body: Any, search: Search, source: str, target: str, emit: Emit) -> None:
    """Emits each sentence of a text, every step of its search, and the whole text at the end."""
    translator = model.loaded
    assert isinstance(translator, Translator)
    repertoire = translator.repertoire
    if body.ablate:
        from headway.inspect.ablation import ablate

        translator = ablate(translator, body.ablate)
    summary = translator.summary
    source_tokenizer = translator.tokenizers.source
    target_tokenizer = translator.tokenizers.target
    direction = translator.direction_tokens(source, target)
    reader = SourceReader(
        source_tokenizer,
        direction,
        summary.max_tokens,
        source,
        True,
        make_protector((), repertoire),
        summary.placeholders,
        simplify=translator.reads_simplified(source),
    )
    lead = list(direction.target_lead)
    prefix = body.prefix
    if not isinstance(prefix, str) and lead and prefix[: len(lead)] == lead:
        prefix = prefix[len(lead) :]  # a client continues an output whose tokens it was shown, with these
    line = reader.read(body.q, 0, prefix)
    network = translator.steppers[0].model
    at_once = network.length_predictor is not None
    if not isinstance(prefix, str):
        target_tokenizer.pieces(prefix)  # raises for an id that the vocabulary does not have
    options = TranslateOptions(source=source, target=target, split_sentences=False, search=search)
    text = previous = ""
    warnings: list[str] = []
    for number, sentence in enumerate(line.sentences):
        place = {"sentence": number, "sentences": len(line.sentences), "text": sentence.text}
        if at_once:
            translated, own_warnings = _emit_iterations(translator, sentence, place, options, body.iteration, emit)
        else:
            translated, own_warnings = _emit_search(translator, sentence, place, options, lead, body, emit)
        text += adapt_spacing(sentence.before, previous, text, translated) + translated
        previous = sentence.text
        warnings += own_warnings
    emit({"event": "end", "text": text + line.tail, "warnings": warnings})


def _emit_search(
    translator: Translator,
    sentence: Sentence,
    place: Event,
    options: TranslateOptions,
    lead: list[int],
    body: Any,
    emit: Emit,
) -> tuple[str, list[str]]:
    """Every step of the search for one sentence; its translation and warnings."""
    from headway.serve.step_events import IncrementalTracer, StepRecorder

    writer = translator.tokenizers.target
    network = translator.steppers[0].model
    tracer = IncrementalTracer(network, sentence.ids, writer.start, weights=body.attention, vectors=body.qkv)
    forced = translator.encode_prefix(sentence.prefix)
    emit(
        {
            "event": "sentence",
            **place,
            "ids": sentence.ids,
            "pieces": translator.tokenizers.source.pieces(sentence.ids),
            "tensors": tracer.encoder,
            **describe_forced(translator, sentence.ids, lead, forced),
        }
    )
    recorder = StepRecorder(tracer, writer, [*lead, *forced], body.top, emit)
    requests = make_requests([sentence.text], prefixes=[sentence.prefix])
    made = translate_requests(translator, requests, options, recorder)[0]
    best = made.guesses[0]
    result = {
        "text": made.text,
        "score": round(best.score, 5),
        "finished": len(best.token_logps) > len(best.tokens) - len(forced),  # the end token has a log-probability
    }
    emit({**recorder.describe([*lead, *best.tokens]), "event": "found", **result})
    return made.text.strip(), made.warnings


def _emit_iterations(
    translator: Translator,
    sentence: Sentence,
    place: Event,
    options: TranslateOptions,
    iteration: int | None,
    emit: Emit,
) -> tuple[str, list[str]]:
    """The same of a translator that writes all tokens at once, which has iterations and no steps."""
    from headway.inspect.events import trace_events
    from headway.inspect.tracer import trace_translation

    trace = trace_translation(translator, sentence.text, options, prefix=sentence.prefix, iteration=iteration)
    for event in trace_events(trace, ""):
        if event["event"] in ("sentence", "found"):
            emit({**event, **(place if event["event"] == "sentence" else {})})
    return trace.output.strip(), trace.warnings


def describe_forced(
    translator: Translator, source: Sequence[int], lead: Sequence[int], forced: Sequence[int]
) -> dict[str, Any]:
    """The log-probability of each token that the output must begin with; 0 for those that only name its language."""
    import torch

    from headway.translate.scoring import score_ids

    if not forced:
        return {}
    tokenizer = translator.tokenizers.target
    target = [*lead, *forced]
    with torch.no_grad():
        logps = score_ids(translator.steppers, [source], [target], start=tokenizer.start, pad=tokenizer.pad)[0]
    counted = [*[0.0] * len(lead), *logps[len(lead) :]]
    return {"forced": len(target), "forced_logps": [round(logp, 5) for logp in counted]}
