"""OpenAI's /v1/completions and /v1/models, for language models."""

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headway.errors import HeadwayError
from headway.serve import openapi
from headway.serve.errors import ApiError
from headway.serve.event_stream import Emit, Event, EventStreamResponse, StreamStopped
from headway.serve.schemas import CompletionBody
from headway.serve.served_model import ServedModel
from headway.serve.state import ServerState
from headway.serve.translate import use_model

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel

MAX_STOPS = 4
MAX_STOP_CHARACTERS = 200
GREEDY_TEMPERATURE = 0.01  # below this the likeliest token is taken
UNSUPPORTED_FIELDS = ("logprobs", "suffix", "logit_bias")


class Completion(NamedTuple):
    text: str
    finish_reason: str  # "stop": at its end or at a stop text; "length": cut at max_tokens
    prompt_tokens: int
    tokens: int


@dataclass(frozen=True)
class CompletionTask:
    """One prompt, to be continued once."""

    prompt: str
    settings: dict[str, Any]
    stops: list[str]
    echo: bool
    copy: int  # which of the n completions of its prompt


def make_router(state: ServerState) -> APIRouter:
    router = APIRouter()
    started = int(time.time())

    def format_model(model: ServedModel) -> dict[str, Any]:
        return {"id": model.name, "object": "model", "created": started, "owned_by": "headway"}

    def find_model(name: str) -> ServedModel:
        model = state.pool.causal_model_named(name)
        if model is None:
            raise ApiError(404, f"The model `{name[:100]}` does not exist", code="model_not_found")
        return model

    @router.get("/v1/models", **openapi.MODELS)
    async def models(request: Request) -> JSONResponse:
        """List the language models and the encoders."""
        state.check_key(request, {})
        return JSONResponse(
            {"object": "list", "data": [format_model(m) for m in state.pool.models if not m.is_translator]}
        )

    @router.get("/v1/models/{name}", **openapi.MODEL)
    async def model(request: Request, name: str) -> JSONResponse:
        """Describe one of them."""
        state.check_key(request, {})
        return JSONResponse(format_model(state.pool.encoder_named(name) or find_model(name)))

    @router.post("/v1/completions", **openapi.COMPLETIONS)
    async def completions(request: Request) -> Response:
        """Continue a prompt, or several."""
        body = await state.read_body(request, CompletionBody)
        tasks = make_tasks(body, state.settings.limits.texts)
        state.check_size(request, [task.prompt for task in tasks], together=True)
        chosen = find_model(body.model)
        state.begin_stream([task.prompt for task in tasks])
        head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": chosen.name,
        }
        if body.stream:
            with_usage = bool(body.stream_options and body.stream_options.include_usage)
            return _stream_completions(state, request, chosen, tasks, head, with_usage)
        try:
            return JSONResponse(await state.finish_in_time(request, complete_all(chosen, tasks, head)))
        finally:
            state.end_stream()

    async def complete_all(model: ServedModel, tasks: list[CompletionTask], head: dict[str, Any]) -> dict[str, Any]:
        cancelled = threading.Event()
        async with use_model(state.pool, model):
            try:
                completions = await asyncio.to_thread(
                    lambda: [_complete_task(model, task, cancelled.is_set) for task in tasks]
                )
            finally:
                cancelled.set()
        choices = [format_choice(n, one.text, one.finish_reason) for n, one in enumerate(completions)]
        return {**head, "choices": choices, "usage": count_usage(completions, tasks)}

    return router


def make_tasks(body: Any, max_tasks: int) -> list[CompletionTask]:
    for name in UNSUPPORTED_FIELDS:
        if getattr(body, name) not in (None, {}, ""):
            raise ApiError(400, f"{name} is not supported by this server", param=name, code="unsupported_parameter")
    check_candidates(body.n or 1, body.best_of)
    if body.stream_options and not body.stream:
        raise ApiError(400, "stream_options is only allowed with stream: true", param="stream_options")
    prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
    stops = [] if body.stop is None else [body.stop] if isinstance(body.stop, str) else body.stop
    stops = [stop for stop in stops if stop]
    if len(stops) > MAX_STOPS or any(len(stop) > MAX_STOP_CHARACTERS for stop in stops):
        raise ApiError(
            400, f"at most {MAX_STOPS} stop texts of {MAX_STOP_CHARACTERS} characters are allowed", param="stop"
        )
    count = body.n or 1
    if len(prompts) * count > max_tasks or not prompts:
        raise ApiError(
            400, f"{len(prompts) * count} completions requested: 1 to {max_tasks} are allowed", param="prompt"
        )
    temperature = 1.0 if body.temperature is None else body.temperature
    top_p = 1.0 if body.top_p is None else body.top_p
    greedy = temperature < GREEDY_TEMPERATURE or not top_p
    settings: dict[str, Any] = {"length": 16 if body.max_tokens is None else body.max_tokens}
    settings |= {"beam_size": 1} if greedy else {"temperature": temperature, "top_p": top_p}
    tasks = []
    for prompt in prompts:
        for copy in range(count):
            seeded = {} if body.seed is None or greedy else {"seed": body.seed + copy}
            tasks.append(CompletionTask(prompt, {**settings, **seeded}, stops, bool(body.echo), copy))
    return tasks


def check_candidates(n: int, best_of: int | None) -> None:
    """best_of candidates, of which the best n are returned: as many as n are those that n alone asks for."""
    if best_of is not None and best_of < n:
        raise ApiError(400, f"best_of ({best_of}) must be at least n ({n})", param="best_of")
    if best_of is not None and best_of > n:
        raise ApiError(
            400,
            f"best_of ({best_of}) above n ({n}) is not supported by this server",
            param="best_of",
            code="unsupported_parameter",
        )


class StopFilter:
    """Passes text on, up to the first stop text. What may be the beginning of one is held back."""

    def __init__(self, stops: list[str]) -> None:
        self.stops = stops
        self.found = False
        self._held = ""
        self._max_length = max(map(len, stops), default=1)

    def push(self, text: str) -> str:
        if self.found:
            return ""
        self._held += text
        offsets = [self._held.find(stop) for stop in self.stops if stop in self._held]
        if offsets:
            self.found = True
            self._held = self._held[: min(offsets)]
        return self._release(0 if self.found else self._max_length - 1)

    def finish(self) -> str:
        """What is still held back, once no more text comes."""
        return self._release(0)

    def _release(self, keep: int) -> str:
        ready = self._held[: max(len(self._held) - keep, 0)]
        self._held = self._held[len(ready) :]
        return ready


def generate_pieces(model: "LanguageModel", task: CompletionTask) -> Iterator[str | Completion]:
    """The text as it is generated, up to a stop text; last a Completion, without the text."""
    from headway.decode import stream

    prompt = model.make_prompt(task.prompt)
    special, prefix = prompt
    if not task.settings["length"]:  # asked for by clients that want the prompt alone, with `echo`
        yield task.prompt if task.echo else ""
        yield Completion("", "length", len(prefix), 0)
        return
    search = model.search(prefix, **task.settings)
    text = model.stream_decoder(prompt)
    stops = StopFilter(task.stops)
    count = 0
    if task.echo:
        yield task.prompt
    ids = stream(model.stepper, None, special_tokens=special, search=search, prefix=prefix)
    reason = "stop"
    while not stops.found:
        try:
            ready = stops.push(text.push(next(ids)))
            count += 1
        except StopIteration as end:
            yield stops.push(text.finish()) + stops.finish()
            reason = "stop" if stops.found or end.value.finished else "length"
            break
        if ready:
            yield ready
    yield Completion("", reason, len(prefix), count)


def _complete_task(model: ServedModel, task: CompletionTask, is_cancelled: Callable[[], bool]) -> Completion:
    """In a thread."""
    text = ""
    try:
        for piece in generate_pieces(model.language_model, task):
            if is_cancelled():
                raise StreamStopped
            if isinstance(piece, Completion):
                return piece._replace(text=text)
            text += piece
    except HeadwayError as error:
        raise ApiError(400, model.hide_path(str(error)), param="prompt") from None
    raise AssertionError("generate_pieces ends with a Completion")


def _stream_completions(
    state: ServerState,
    request: Request,
    model: ServedModel,
    tasks: list[CompletionTask],
    head: dict[str, Any],
    with_usage: bool,
) -> Response:
    def work(emit: Emit) -> None:
        completions = []
        for number, task in enumerate(tasks):
            for piece in generate_pieces(model.language_model, task):
                if isinstance(piece, Completion):
                    completions.append(piece)
                    emit({"choices": [format_choice(number, "", piece.finish_reason)]})
                else:
                    emit({"choices": [format_choice(number, piece)]})
        if with_usage:
            emit({"choices": [], "usage": count_usage(completions, tasks)})

    def encode(event: Event) -> bytes:
        chunk = {"usage": None, **event} if with_usage else event
        data = event if "error" in event else {**head, **chunk}
        return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"

    def error_event(error: Exception) -> Event:
        known = isinstance(error, HeadwayError | ApiError)
        message = model.hide_path(str(error)) if known else "something went wrong on the server"
        return {"error": {"message": message, "type": "server_error", "param": None, "code": None}}

    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    trailer = b"data: [DONE]\n\n"
    return EventStreamResponse(
        request, state, model, work, encode=encode, error_event=error_event, trailer=trailer, headers=headers
    )


def count_usage(completions: Sequence[Completion], tasks: Sequence[CompletionTask]) -> dict[str, int]:
    """Tokens; those of a prompt count once, however many completions it has."""
    prompts = sum(one.prompt_tokens for one, task in zip(completions, tasks) if not task.copy)
    tokens = sum(one.tokens for one in completions)
    return {"prompt_tokens": prompts, "completion_tokens": tokens, "total_tokens": prompts + tokens}


def format_choice(number: int, text: str, finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": number, "text": text, "finish_reason": finish_reason, "logprobs": None}
