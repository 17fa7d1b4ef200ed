"""Around every request: how large it may be and how long it may take, one line in the log, one count, no traceback."""

import asyncio
import time
import traceback
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.serve.errors import Gone, ApiError, file_too_large, too_large
from headway.serve.metrics import Metrics
from headway.serve.settings import Limits, Tell

CLIENT_GONE = 499  # as nginx has it: nobody was there to get an answer
UPLOADS = "/translate_file"
OPENAI = "/v1/"


class Guard:
    """ASGI middleware. Handlers add to scope["note"] what the log should say of a request."""

    def __init__(self, app: ASGIApp, *, limits: Limits, metrics: Metrics, tell: Tell, log_text: bool) -> None:
        self.app, self.limits, self.metrics, self.tell, self.log_text = app, limits, metrics, tell, log_text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        if method == "HEAD":  # whoever may get something may ask whether it is there: the body is not sent then
            scope = {**scope, "method": "GET"}
        passing = Passing(self, scope, receive, send)
        scope["note"] = passing.note
        self.metrics.running.inc()
        try:
            await self.app(scope, passing.receive, passing.send)
        except Gone:
            passing.status = CLIENT_GONE
        except Exception as error:
            await self._refuse(passing, error)
        finally:
            self.metrics.running.dec()
            self._log(passing, method)

    async def _refuse(self, passing: "Passing", error: Exception) -> None:
        if (
            passing.status is not None
        ):  # too late to say anything: the connection is cut, or half would pass for the whole
            if not isinstance(error, TimeoutError):
                self._as_refused(error)
            passing.status = CLIENT_GONE if isinstance(error, TimeoutError) else 500
            raise Cut from None
        refused = self._as_refused(error)
        try:
            await answer(refused, passing.scope["path"])(passing.scope, passing.receive, passing.send)
        except (TimeoutError, OSError):
            passing.status = CLIENT_GONE

    def _as_refused(self, error: Exception) -> ApiError:
        if isinstance(error, ApiError):
            return error
        if isinstance(error, HTTPException):
            return ApiError(error.status_code, str(error.detail), error.headers)
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "?"
        what = f"{type(error).__name__}: {error}" if self.log_text else type(error).__name__  # it may quote the text
        self.tell(f"{what} at {where}", "internal error")
        return ApiError(500, "Cannot translate text: something went wrong on the server")

    def _log(self, passing: "Passing", method: str) -> None:
        scope, seconds = passing.scope, time.perf_counter() - passing.started
        status = passing.status or CLIENT_GONE
        route = getattr(scope.get("route"), "path", "-")
        self.metrics.request(method, route, status, seconds)
        client = scope["client"][0] if scope.get("client") else "-"
        fields: dict[str, Any] = {"status": status, "ms": round(1000 * seconds, 1), "client": client}
        fields.update((name, value) for name, value in passing.note.items() if name != "text" or self.log_text)
        self.tell(f"{method} {route}", "info", **fields)


class Cut(Exception):
    """An answer that cannot be finished: the server closes the connection."""


class Passing:
    """One request on its way: what comes in is counted, and what goes out may not wait for ever."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self.guard, self.scope, self._receive, self._send = guard, scope, receive, send
        self.started = time.perf_counter()
        self.note: dict[str, Any] = {}
        self.status: int | None = None
        limits = guard.limits
        uploads = scope["path"] == UPLOADS
        self.most = limits.file + limits.body if uploads else limits.body  # a form has more in it than its file
        self.told = file_too_large(limits.file) if uploads else too_large(limits.body)
        self.bytes, self.whole = 0, False
        said = dict(scope["headers"]).get(b"content-length", b"0")
        self.too_large = said.isdigit() and int(said[:20]) > self.most

    async def receive(self) -> Message:
        if self.whole:
            return await self._receive()
        if self.too_large:
            raise self.told
        try:
            async with asyncio.timeout(max(self.started + self.guard.limits.sending - time.perf_counter(), 0.01)):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(408, "the request did not arrive in time") from None
        if message["type"] == "http.disconnect":
            raise Gone
        self.bytes += len(message.get("body", b""))
        if self.bytes > self.most:
            raise self.told
        self.whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        async with asyncio.timeout(self.guard.limits.sending):  # whoever does not read is not waited for
            await self._send(message)


def answer(refused: ApiError, path: str) -> JSONResponse:
    """In the shape of the API that was asked."""
    if path.startswith(OPENAI):
        kind = "invalid_request_error" if refused.status < 500 and refused.status != 429 else "server_error"
        kind = "rate_limit_error" if refused.status == 429 else kind
        error = {"message": refused.text, "type": kind, "param": None, "code": None, **refused.more}
        return JSONResponse({"error": error}, refused.status, refused.headers)
    return JSONResponse({"error": refused.text}, refused.status, refused.headers)
