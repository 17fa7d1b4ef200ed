"""POST /api/translate: a translation as it happens, one JSON object a line. docs/serving.md has the events."""

import asyncio
import json
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headway.config.search import Search
from headway.errors import HeadwayError
from headway.serve import openapi
from headway.serve.errors import ApiError
from headway.serve.event_stream import Emit, Event, Streamed
from headway.serve.languages import heard, unknown
from headway.serve.model_pool import Model
from headway.serve.schemas import StreamBody
from headway.serve.state import Service
from headway.text.spans.protect import protector
from headway.translate.source import Reader as Sentences
from headway.translate.translator import Translator


def routes(service: Service) -> APIRouter:
    router, shelf = APIRouter(), service.shelf

    @router.post("/api/translate", **openapi.STREAM)
    async def stream_translation(request: Request) -> Response:
        """Translate in the open: one event a decoding step."""
        body = await service.body(request, StreamBody)
        service.check_size(request, [body.q])
        target = shelf.language(body.target)
        if body.source == "auto":
            source = (await asyncio.to_thread(heard, body.q, among := shelf.sources_of(target), target)).language
            if source not in among:
                raise unknown(source, "the text")
        else:
            source = shelf.language(body.source)
        model = shelf.named(body.model) if body.model else shelf.between(source, target)
        if model is None or (source, target) not in model.pairs:
            by = f" by {model.name}" if model else ""
            raise ApiError(400, f"{target} is not available as a target language from {source}{by}")
        begin = {"event": "start", "model": model.name, "source": source, "target": target}

        def work(emit: Emit) -> None:
            assert isinstance(model.loaded, Translator)
            search = model.loaded.search(**body.changes())
            emit({**begin, "penalty": [search.penalty, search.alpha]})
            narrate(model, body, search, source, target, emit)

        def failed(error: Exception) -> Event:
            if isinstance(error, HeadwayError):
                return {"event": "error", "error": model.hidden(str(error))}
            shelf.tell(f"{type(error).__name__} in a stream", "internal error")
            return {"event": "error", "error": "something went wrong on the server"}

        service.begin_stream([body.q])
        headers = {"Content-Type": "application/x-ndjson", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return Streamed(request, service, model, work, shown=line_of, failed=failed, headers=headers)

    return router


def line_of(event: Event) -> bytes:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def narrate(model: Model, body: Any, search: Search, source: str, target: str, emit: Emit) -> None:
    """The sentences of a text one after another, each step of their searches, and the text at the end."""
    from headway.serve.step_events import Follower, Reader

    translator = model.loaded
    assert isinstance(translator, Translator)
    outline, reader, writer = translator.outline, translator.tokenizers.source, translator.tokenizers.target
    cut = Sentences(
        reader, translator.tag(target), outline.longest, source, True, protector((), translator.strange), outline.placeholders
    )  # fmt: skip
    line = cut.read(body.q, 0, body.prefix)
    network = translator.steppers[0].model
    if not isinstance(body.prefix, str):
        writer.pieces(body.prefix)  # says what is no token of this model
    text, warnings = "", []
    for number, sentence in enumerate(line.sentences):
        opened = Reader(network, sentence.ids, writer.start, weights=body.attention, vectors=body.qkv)
        emit(
            {
                "event": "sentence",
                "sentence": number,
                "sentences": len(line.sentences),
                "text": sentence.text,
                "ids": sentence.ids,
                "pieces": reader.pieces(sentence.ids),
                "tensors": opened.encoder,
            }
        )
        forced = translator.forced(sentence.prefix)
        follower = Follower(opened, writer, forced, body.top, emit)
        made = translator.translate(
            [sentence.text], search, to=target, source=source, split=False, prefixes=[sentence.prefix], record=follower
        )[0]
        best = made.guesses[0]
        told = {"text": made.text, "score": round(best.score, 5)}
        told["finished"] = len(best.token_logps) > len(best.tokens) - len(forced)  # its end was found, too
        emit({**follower.look(best.tokens), "event": "found", **told})
        text += sentence.before + made.text.strip()
        warnings += made.warnings
    emit({"event": "end", "text": text + line.tail, "warnings": warnings})
