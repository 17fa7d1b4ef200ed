"""ASGI middleware around every request: limits of size and time, one log line, metrics, errors without a traceback."""

import asyncio
import time
import traceback
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.serve.errors import ApiError, ClientGone, body_too_large, file_too_large
from headway.serve.metrics import Metrics
from headway.serve.settings import Limits, Log

CLIENT_CLOSED_REQUEST = 499  # nginx's status for a client that left before the answer; only ever logged and counted
UPLOAD_PATH = "/translate_file"
OPENAI_PREFIX = "/v1/"


class RequestGuard:
    """ASGI middleware. Handlers add fields for a request's log line to scope["log_fields"]."""

    def __init__(self, app: ASGIApp, *, limits: Limits, metrics: Metrics, log: Log, log_text: bool) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.log = log
        self.log_text = log_text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        if method == "HEAD":  # answered as GET; uvicorn leaves the body out
            scope = {**scope, "method": "GET"}
        request = GuardedRequest(self.limits, scope, receive, send)
        scope["log_fields"] = request.log_fields
        self.metrics.running.inc()
        try:
            await self.app(scope, request.receive, request.send)
        except ClientGone:
            request.status = CLIENT_CLOSED_REQUEST
        except Exception as error:
            await self._send_error(request, error)
        finally:
            self.metrics.running.dec()
            self._log_request(request, method)

    async def _send_error(self, request: "GuardedRequest", error: Exception) -> None:
        if request.status is not None:  # the response has begun: cut the connection, lest half pass for the whole
            if not isinstance(error, TimeoutError):
                self._to_api_error(error)
            request.status = CLIENT_CLOSED_REQUEST if isinstance(error, TimeoutError) else 500
            raise ResponseAborted from None
        api_error = self._to_api_error(error)
        try:
            await error_response(api_error, request.scope["path"])(request.scope, request.receive, request.send)
        except (TimeoutError, OSError):
            request.status = CLIENT_CLOSED_REQUEST

    def _to_api_error(self, error: Exception) -> ApiError:
        """What is not meant for clients is logged, without its message, which may quote a text."""
        if isinstance(error, ApiError):
            return error
        if isinstance(error, HTTPException):
            return ApiError(error.status_code, str(error.detail), error.headers)
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "?"
        what = f"{type(error).__name__}: {error}" if self.log_text else type(error).__name__
        self.log(f"{what} at {where}", "internal error")
        return ApiError(500, "Cannot translate text: something went wrong on the server")

    def _log_request(self, request: "GuardedRequest", method: str) -> None:
        scope = request.scope
        seconds = time.perf_counter() - request.started
        status = request.status or CLIENT_CLOSED_REQUEST
        route = getattr(scope.get("route"), "path", "-")
        self.metrics.count_request(method, route, status, seconds)
        client = scope["client"][0] if scope.get("client") else "-"
        fields: dict[str, Any] = {"status": status, "ms": round(1000 * seconds, 1), "client": client}
        fields.update((name, value) for name, value in request.log_fields.items() if name != "text" or self.log_text)
        self.log(f"{method} {route}", "info", **fields)


class ResponseAborted(Exception):
    """A response that cannot be finished: the server closes the connection."""


class GuardedRequest:
    """One request: the size of its body and the time that each transfer takes are limited."""

    def __init__(self, limits: Limits, scope: Scope, receive: Receive, send: Send) -> None:
        self.limits = limits
        self.scope = scope
        self._receive = receive
        self._send = send
        self.started = time.perf_counter()
        self.log_fields: dict[str, Any] = {}
        self.status: int | None = None  # of the response, once it has begun
        is_upload = scope["path"] == UPLOAD_PATH
        # a form has more in it than its file
        self.max_bytes = limits.file_bytes + limits.body_bytes if is_upload else limits.body_bytes
        self.size_error = file_too_large(limits.file_bytes) if is_upload else body_too_large(limits.body_bytes)
        self.received_bytes = 0
        self.received_all = False
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        self.too_large = declared.isdigit() and int(declared[:20]) > self.max_bytes

    async def receive(self) -> Message:
        if self.received_all:
            return await self._receive()
        if self.too_large:
            raise self.size_error
        try:
            async with asyncio.timeout(max(self.started + self.limits.transfer_seconds - time.perf_counter(), 0.01)):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(408, "the request did not arrive in time") from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        self.received_bytes += len(message.get("body", b""))
        if self.received_bytes > self.max_bytes:
            raise self.size_error
        self.received_all = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        async with asyncio.timeout(self.limits.transfer_seconds):  # a client that does not read is given up
            await self._send(message)


def error_response(error: ApiError, path: str) -> JSONResponse:
    """In the form of the API to which the path belongs."""
    if path.startswith(OPENAI_PREFIX):
        kind = "invalid_request_error" if error.status < 500 and error.status != 429 else "server_error"
        kind = "rate_limit_error" if error.status == 429 else kind
        fields = {"message": error.message, "type": kind, "param": None, "code": None, **error.extra}
        return JSONResponse({"error": fields}, error.status, error.headers)
    return JSONResponse({"error": error.message}, error.status, error.headers)
