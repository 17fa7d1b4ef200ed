"""ASGI middleware around every request: limits of size and time, one log line, metrics, errors without a traceback."""

import asyncio
import time
import traceback
from collections import deque
from typing import IO, Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.serve.addresses import RequestOrigin
from headway.serve.admission import Admission, find_key
from headway.serve.errors import ApiError, ClientGone, body_too_large, file_too_large, internal_error, server_full
from headway.serve.memory import MemoryBudget
from headway.serve.metrics import Metrics
from headway.serve.openai_errors import format_openai_error
from headway.serve.settings import Limits, Log, ServerSettings

SMALL_BODY_BYTES = 2**16  # that are received however many others are being received
MAX_LOGGED_PATH = 100  # characters
CLIENT_CLOSED_REQUEST = 499  # nginx's status for a client that left before the answer; only ever logged and counted
UPLOAD_PATH = "/translate_file"
OPENAI_PREFIX = "/v1/"
PAGE_PREFIXES = ("/api/", "/frontend/")
HEALTH_PATH = "/health"  # asked again and again, by monitors and by every page that is open


class RequestGuard:
    """ASGI middleware. Handlers add fields for a request's log line to scope["log_fields"]."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ServerSettings,
        origin: RequestOrigin,
        admission: Admission,
        memory: MemoryBudget,
        metrics: Metrics,
        log: Log,
    ) -> None:
        self.app = app
        self.limits = settings.limits
        self.admission = admission
        self.memory = memory
        self.metrics = metrics
        self.log = log
        self.log_text = settings.log_text
        self.origin = origin
        self.bodies = IncomingBodies(settings.limits.held_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        scope = self.origin.proxies.resolve(scope, self.origin.url_prefix)
        scope["without_body"] = method == "HEAD"
        if method == "HEAD":  # answered as GET; uvicorn leaves the body out
            scope["method"] = "GET"
        request = GuardedRequest(self.limits, self.bodies, scope, receive, send)
        scope["log_fields"] = request.log_fields
        uploads: list[IO[bytes]] = []
        scope["uploads"] = uploads  # files of forms, which are closed after the response
        self.metrics.running.inc()
        try:
            self.origin.hosts.check(scope)
            if method == "POST":
                self.memory.check()
            await self.admission.admit(scope, request)
            # relative links of a page need the slash at the end
            app = self.app if scope["route_path"] else RedirectResponse(scope["root_path"] + "/", 308)
            await app(scope, request.receive, request.send)
        except ClientGone:
            request.status = CLIENT_CLOSED_REQUEST
        except Exception as error:
            await self._send_error(request, error)
        finally:
            request.release_body()
            for file in uploads:
                file.close()
            self.metrics.running.dec()
            self.admission.finish(scope, request.status or CLIENT_CLOSED_REQUEST)
            self._log_request(request, method)

    async def _send_error(self, request: "GuardedRequest", error: Exception) -> None:
        if request.status is not None:  # the response has begun: cut the connection, lest half pass for the whole
            if not isinstance(error, TimeoutError):
                self._to_api_error(request, error)
            request.status = CLIENT_CLOSED_REQUEST if isinstance(error, TimeoutError) else 500
            raise ResponseAborted from None
        api_error = self._to_api_error(request, error)
        try:
            response = error_response(api_error, request.scope["route_path"])
            if api_error.status == 408:
                response.headers["Connection"] = "close"
            await response(request.scope, request.receive, request.send)
        except (TimeoutError, OSError):
            request.status = CLIENT_CLOSED_REQUEST

    def _to_api_error(self, request: "GuardedRequest", error: Exception) -> ApiError:
        """What is not meant for clients is logged, without its message, which may quote a text."""
        if isinstance(error, ApiError):
            return error
        if isinstance(error, HTTPException):
            return ApiError(error.status_code, str(error.detail), error.headers)
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "?"
        what = f"{type(error).__name__}: {error}" if self.log_text else type(error).__name__
        if key := find_key(request.scope):
            what = what.replace(key, "***")
        self.log(f"{what} at {where}", "internal error")
        return internal_error("Cannot translate text: something went wrong on the server")

    def _log_request(self, request: "GuardedRequest", method: str) -> None:
        scope = request.scope
        seconds = time.perf_counter() - request.started
        status = request.status or CLIENT_CLOSED_REQUEST
        route = getattr(scope.get("route"), "path", "-")
        self.metrics.count_request(method, route, status, seconds)
        client = scope["client"][0] if scope.get("client") else "-"
        # the path of a known route as it is documented, since a download's name is a secret
        path = route if route != "-" else quote(scope["route_path"], safe="/")[:MAX_LOGGED_PATH]
        fields: dict[str, Any] = {"status": status, "ms": round(1000 * seconds, 1), "client": client}
        fields.update((name, value) for name, value in request.log_fields.items() if name != "text" or self.log_text)
        level = "detail" if route == HEALTH_PATH and status == 200 else "info"
        self.log(f"{quote(method)[:20]} {path}", level, **fields)


class ResponseAborted(Exception):
    """A response that cannot be finished: the server closes the connection."""


class IncomingBodies:
    """The bytes of all bodies that have not arrived entirely."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0


class GuardedRequest:
    """One request: the size of its body and the time that each transfer takes are limited."""

    def __init__(self, limits: Limits, bodies: IncomingBodies, scope: Scope, receive: Receive, send: Send) -> None:
        self.limits = limits
        self.bodies = bodies
        self.scope = scope
        self._receive = receive
        self._send = send
        self._peeked: deque[Message] = deque()
        self.started = time.perf_counter()
        self.log_fields: dict[str, Any] = {}
        self.status: int | None = None  # of the response, once it has begun
        is_upload = scope["route_path"] == UPLOAD_PATH
        # a form has more in it than its file
        self.max_bytes = limits.file_bytes + limits.body_bytes if is_upload else limits.body_bytes
        self.size_error = file_too_large(limits.file_bytes) if is_upload else body_too_large(limits.body_bytes)
        self.received_bytes = 0
        self.held_bytes = 0  # counted in `bodies`
        self.received_all = False
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        self.too_large = declared.isdigit() and int(declared[:20]) > self.max_bytes

    async def receive(self) -> Message:
        if self._peeked:
            return self._peeked.popleft()
        if self.received_all:
            return await self._receive()
        return await self._receive_part()

    async def peek(self, count: int) -> bytes:
        """The first bytes of the body, which `receive` returns nevertheless."""
        while not self.received_all and self.received_bytes < count:
            self._peeked.append(await self._receive_part())
        return b"".join(message.get("body", b"") for message in self._peeked)

    async def _receive_part(self) -> Message:
        if self.too_large:
            raise self.size_error
        allowed = self.limits.transfer_seconds + self.received_bytes / self.limits.body_rate
        try:
            async with asyncio.timeout(max(self.started + allowed - time.perf_counter(), 0.01)):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(408, "the request did not arrive in time") from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        self._hold(len(message.get("body", b"")))
        self.received_all = not message.get("more_body", False)
        if self.received_all:
            self.release_body()
        return message

    def _hold(self, count: int) -> None:
        self.received_bytes += count
        if self.received_bytes > self.max_bytes:
            raise self.size_error
        if self.received_bytes > SMALL_BODY_BYTES:
            if self.bodies.bytes + count > self.bodies.max_bytes:
                raise server_full("too many large requests are arriving")
            self.bodies.bytes += count
            self.held_bytes += count

    def release_body(self) -> None:
        self.bodies.bytes -= self.held_bytes
        self.held_bytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        async with asyncio.timeout(self.limits.transfer_seconds):  # a client that does not read is given up
            await self._send(message)


def error_response(error: ApiError, path: str) -> JSONResponse:
    """In the form of the API to which the path belongs."""
    if path.startswith(OPENAI_PREFIX):
        return format_openai_error(error)
    content = error.to_dict() if path.startswith(PAGE_PREFIXES) else {"error": error.message}
    return JSONResponse(content, error.status, error.headers)
