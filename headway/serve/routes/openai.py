"""OpenAI's /v1/completions and /v1/models, for language models."""

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headway.errors import HeadwayError
from headway.serve import openapi
from headway.serve.errors import ApiError
from headway.serve.event_stream import Emit, Event, Stopped, Streamed
from headway.serve.model_pool import Model
from headway.serve.schemas import CompletionBody
from headway.serve.state import Service
from headway.serve.translate import using

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel

MOST_STOPS, LONGEST_STOP = 4, 200
NOT_DONE = ("best_of", "logprobs", "suffix", "logit_bias")


class Written(NamedTuple):
    text: str
    reason: str  # "stop": it ended by itself, or at a stop word; "length": it was cut
    prompt: int  # tokens
    tokens: int


@dataclass(frozen=True)
class Wish:
    """One prompt, continued once."""

    prompt: str
    settings: dict[str, Any]
    stops: list[str]
    echo: bool
    copy: int  # of the same prompt, which is read once


def routes(service: Service) -> APIRouter:
    router = APIRouter()
    started = int(time.time())

    def described(model: Model) -> dict[str, Any]:
        return {"id": model.name, "object": "model", "created": started, "owned_by": "headway"}

    def named(name: str) -> Model:
        model = service.shelf.writer(name)
        if model is None:
            raise ApiError(404, f"The model `{name[:100]}` does not exist", param="model", code="model_not_found")
        return model

    @router.get("/v1/models", **openapi.MODELS)
    async def models(request: Request) -> JSONResponse:
        """The language models."""
        service.admit(request, {})
        return JSONResponse({"object": "list", "data": [described(m) for m in service.shelf.models if m.writes]})

    @router.get("/v1/models/{name}", **openapi.MODEL)
    async def model(request: Request, name: str) -> JSONResponse:
        """One of them."""
        service.admit(request, {})
        return JSONResponse(described(named(name)))

    @router.post("/v1/completions", **openapi.COMPLETIONS)
    async def completions(request: Request) -> Response:
        """Continue a prompt, or several."""
        body = await service.body(request, CompletionBody)
        wishes = wishes_of(body, service.settings.limits.texts)
        service.check_size(request, [wish.prompt for wish in wishes])
        chosen = named(body.model)
        service.begin_stream([wish.prompt for wish in wishes])
        head = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time()), "model": chosen.name}  # fmt: skip
        if body.stream:
            return _stream(service, request, chosen, wishes, head)
        try:
            return JSONResponse(await service.answered(request, whole(chosen, wishes, head)))
        finally:
            service.end_stream()

    async def whole(model: Model, wishes: list[Wish], head: dict[str, Any]) -> dict[str, Any]:
        gone = threading.Event()
        async with using(service.shelf, model):
            try:
                written = await asyncio.to_thread(lambda: [_all(model, wish, gone.is_set) for wish in wishes])
            finally:
                gone.set()
        choices = [choice_of(n, one.text, one.reason) for n, one in enumerate(written)]
        prompts = sum(one.prompt for one, wish in zip(written, wishes) if not wish.copy)
        tokens = sum(one.tokens for one in written)
        usage = {"prompt_tokens": prompts, "completion_tokens": tokens, "total_tokens": prompts + tokens}
        return {**head, "choices": choices, "usage": usage}

    return router


def wishes_of(body: Any, most: int) -> list[Wish]:
    for name in NOT_DONE:
        if getattr(body, name) not in (None, {}):
            raise ApiError(400, f"{name} is not supported by this server", param=name)
    prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
    stops = [] if body.stop is None else [body.stop] if isinstance(body.stop, str) else body.stop
    stops = [stop for stop in stops if stop]
    if len(stops) > MOST_STOPS or any(len(stop) > LONGEST_STOP for stop in stops):
        raise ApiError(400, f"at most {MOST_STOPS} stop texts of {LONGEST_STOP} characters are allowed", param="stop")
    count = body.n or 1
    if len(prompts) * count > most or not prompts:
        raise ApiError(
            400, f"{len(prompts) * count} completions were asked for: 1 to {most} are allowed", param="prompt"
        )
    warmth = 1.0 if body.temperature is None else body.temperature
    settings: dict[str, Any] = {"length": body.max_tokens or 16}
    if warmth < 0.01:
        settings["beam_size"] = 1
    else:
        settings |= {"temperature": warmth, "top_p": body.top_p or 1.0}
    wishes = []
    for prompt in prompts:
        for copy in range(count):
            seeded = {} if body.seed is None or warmth < 0.01 else {"seed": body.seed + copy}
            wishes.append(Wish(prompt, {**settings, **seeded}, stops, bool(body.echo), copy))
    return wishes


class Stops:
    """Text that passes, up to the first stop text. What may be the beginning of one is held back."""

    def __init__(self, stops: list[str]) -> None:
        self.stops, self.held, self.found = stops, "", False
        self.longest = max(map(len, stops), default=1)

    def push(self, text: str) -> str:
        if self.found:
            return ""
        self.held += text
        places = [self.held.find(stop) for stop in self.stops if stop in self.held]
        if places:
            self.found, self.held = True, self.held[: min(places)]
        return self._give(0 if self.found else self.longest - 1)

    def rest(self) -> str:
        return self._give(0)

    def _give(self, keep: int) -> str:
        ready = self.held[: max(len(self.held) - keep, 0)]
        self.held = self.held[len(ready) :]
        return ready


def pieces(model: "LanguageModel", wish: Wish) -> Iterator[str | Written]:
    """The text as it is written, up to a stop text; last of all, what there is to know of it."""
    from headway.decode import stream

    prefix = model.prompt(wish.prompt)
    search = model.search(prefix, **wish.settings)
    text, stops, count = model.after(prefix), Stops(wish.stops), 0
    if wish.echo:
        yield wish.prompt
    ids = stream(model.stepper, None, marks=model.marks, search=search, prefix=prefix)
    reason = "stop"
    while not stops.found:
        try:
            ready = stops.push(text.push(next(ids)))
            count += 1
        except StopIteration as end:
            yield stops.push(text.finish()) + stops.rest()
            reason = "stop" if stops.found or end.value.finished else "length"
            break
        if ready:
            yield ready
    yield Written("", reason, len(prefix), count)


def _all(model: Model, wish: Wish, gone: Callable[[], bool]) -> Written:
    """In a thread."""
    text = ""
    try:
        for piece in pieces(model.writer, wish):
            if gone():
                raise Stopped
            if isinstance(piece, Written):
                return piece._replace(text=text)
            text += piece
    except HeadwayError as error:
        raise ApiError(400, model.hidden(str(error)), param="prompt") from None
    raise AssertionError("what was written ends with a report")


def _stream(service: Service, request: Request, model: Model, wishes: list[Wish], head: dict[str, Any]) -> Response:
    def work(emit: Emit) -> None:
        for number, wish in enumerate(wishes):
            for piece in pieces(model.writer, wish):
                emit(choice_of(number, "", piece.reason) if isinstance(piece, Written) else choice_of(number, piece))

    def shown(event: Event) -> bytes:
        whole = event if "error" in event else {**head, "choices": [event]}
        return b"data: " + json.dumps(whole, ensure_ascii=False).encode() + b"\n\n"

    def failed(error: Exception) -> Event:
        told = model.hidden(str(error)) if isinstance(error, HeadwayError) else "something went wrong on the server"
        return {"error": {"message": told, "type": "server_error", "param": None, "code": None}}

    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    last = b"data: [DONE]\n\n"
    return Streamed(request, service, model, work, shown=shown, failed=failed, last=last, headers=headers)


def choice_of(number: int, text: str, reason: str | None = None) -> dict[str, Any]:
    return {"index": number, "text": text, "finish_reason": reason, "logprobs": None}
