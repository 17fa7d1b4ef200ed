"""Connections: how many there are, and how long each may keep the server waiting.

A protocol for uvicorn, on whichever HTTP parser it uses, and an event loop that accepts a few connections at a time."""

import asyncio
import errno
import importlib
import importlib.util
import os
import resource
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from headway.serve.addresses import network_of
from headway.serve.metrics import Metrics
from headway.serve.security_headers import API_HEADERS
from headway.serve.settings import Limits, Log

BACKLOG = 2048  # connections that wait in the kernel to be accepted
MAX_ACCEPTS = 8  # at a time, before the event loop looks at the connections there are
MAX_HEADER_BYTES = 2**16
MAX_DESCRIPTORS = 2**16  # that are asked for; the system may allow fewer, or endlessly many
RESERVED_DESCRIPTORS = 64  # for models, uploads and downloads
MIN_CONNECTIONS = 8
SWEEP_SECONDS = 1.0
SHUTDOWN_SECONDS = 1.0  # that a client has to send or read the rest, when the server ends
REPORT_SECONDS = 60.0  # between two lines about the same trouble
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
REASONS = {408: "Request Timeout", 429: "Too Many Requests", 431: "Header Fields Too Large", 503: "Service Unavailable"}


def raise_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def count_free_descriptors() -> int:
    """Those that connections may take."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_DESCRIPTORS
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = RESERVED_DESCRIPTORS
    return max(soft - used - RESERVED_DESCRIPTORS, MIN_CONNECTIONS)


class OccasionalLog:
    """Writes the first line about a trouble at once, and then at most one a minute, with how often it happened."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._next = 0.0
        self._count = 0

    def __call__(self, message: str, level: str = "warning") -> None:
        self._count += 1
        now = time.monotonic()
        if now >= self._next:
            times = f" ({self._count} times)" if self._count > 1 else ""
            self.log(message + times, level)
            self._next = now + REPORT_SECONDS
            self._count = 0


class Connections:
    """The open connections of one process. Beyond a limit, those that keep the server waiting make room: first of the
    network with the most connections, first the oldest. Where all are being served, the new one is refused."""

    def __init__(self, limits: Limits, is_exempt: Callable[[str], bool], metrics: Metrics, log: Log) -> None:
        """is_exempt: whether an address may have any number of connections."""
        self.limits = limits
        self.max_connections = min(limits.connections, count_free_descriptors())
        self.is_exempt = is_exempt
        self.metrics = metrics
        self.report_shedding = OccasionalLog(log)
        self.report_descriptors = OccasionalLog(log)
        self.report_fault = OccasionalLog(log)
        self._open: set[GuardedProtocol] = set()
        self._by_network: Counter[str] = Counter()
        self._sweep_timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, connection: object) -> bool:
        return connection in self._open

    def add(self, connection: "GuardedProtocol") -> None:
        self._open.add(connection)
        self._by_network[connection.network] += 1
        self.metrics.connections.inc()
        network = connection.network
        limit = self.limits.address_connections
        if limit and self._by_network[network] > limit and not self.is_exempt(connection.address):
            self._make_room(connection, {one for one in self._open if one.network == network}, 429)
        if len(self._open) > self.max_connections:
            self._make_room(connection, self._open, 503)
        if self._sweep_timer is None:
            self._sweep_timer = connection.loop.call_later(SWEEP_SECONDS, self._sweep, connection.loop)

    def remove(self, connection: "GuardedProtocol") -> None:
        if connection in self._open:
            self._open.remove(connection)
            self.metrics.connections.dec()
            self._by_network[connection.network] -= 1
            if not self._by_network[connection.network]:
                del self._by_network[connection.network]

    def _make_room(self, new: "GuardedProtocol", among: "set[GuardedProtocol]", status: int) -> None:
        waiting = [one for one in among if one is not new and one.is_waiting]
        limit = "--connection-limit" if status == 503 else "--address-connection-limit"
        self.report_shedding(f"too many connections ({limit}): those that wait are closed")
        if waiting:
            victim = min(waiting, key=lambda one: (-self._by_network[one.network], one.in_body, one.waiting_since))
            self.metrics.closed_connections.labels("shed").inc()
            self.remove(victim)
            victim.transport.abort()
        else:
            self.metrics.closed_connections.labels("refused").inc()
            new.refuse(status, "too many connections. Try again in a moment.")

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connections that are too slow."""
        now = loop.time()
        for connection in list(self._open):
            connection.close_if_slow(now)
        self._sweep_timer = loop.call_later(SWEEP_SECONDS, self._sweep, loop) if self._open else None

    def handle_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """For errors outside of requests, which asyncio would print with a traceback each."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
            self.report_descriptors(f"connections cannot be accepted: {error.strerror} ({len(self._open)} are open)")
        else:
            what = type(error).__name__ if error else "error"
            self.report_fault(f"{what}: {context.get('message', 'in the event loop')}", "internal error")


class GuardedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """One connection. uvicorn parses it, and closes it when it is idle; here it is counted and hurried."""

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.table: Connections = config.loaded_app.state.server.connections
        self.timeout_keep_alive = self.table.limits.keep_alive_seconds
        self.address = "-"
        self.network = "-"
        self.waiting_since = 0.0
        self.headers_since: float | None = None  # when a request began whose headers are incomplete
        self.header_bytes = 0
        self.closing_since: float | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.address = self.client[0] if self.client else "-"
        self.network = network_of(self.address)
        self.waiting_since = self.headers_since = self.loop.time()
        self.table.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.table.remove(self)
        super().connection_lost(exc)

    @property
    def is_waiting(self) -> bool:
        """Whether it is the client's turn: to send something, or to read."""
        if self.transport.is_closing() or self.flow.write_paused:
            return True
        return self.cycle is None or self.cycle.response_complete or self.in_body

    @property
    def in_body(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete and self.cycle.more_body

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._end_headers()
        elif self.cycle is None or self.cycle.response_complete:
            self.headers_since = self.headers_since or self.loop.time()
            self.header_bytes += len(data)
            if self.cycle is None and self.header_bytes > MAX_HEADER_BYTES:
                self.refuse(431, f"the headers have more than {MAX_HEADER_BYTES} bytes")

    def on_response_complete(self) -> None:
        self._end_headers()
        super().on_response_complete()

    def _end_headers(self) -> None:
        self.headers_since = None
        self.header_bytes = 0
        self.waiting_since = self.loop.time()

    def close_if_slow(self, now: float) -> None:
        limits = self.table.limits
        if self.transport.is_closing():  # there may be bytes that the client does not read
            self.closing_since = self.closing_since or now
            if now - self.closing_since > limits.transfer_seconds:
                self.table.metrics.closed_connections.labels("unread").inc()
                self.transport.abort()
        elif self.headers_since is not None and now - self.headers_since > limits.header_seconds:
            self.table.metrics.closed_connections.labels("slow").inc()
            if self.header_bytes and self.cycle is None:
                self.refuse(408, "the request did not arrive in time")
            else:
                self.transport.close()

    def shutdown(self) -> None:
        """The server is about to end: requests that are complete may finish, but nobody waits for the others."""
        super().shutdown()
        self.loop.call_later(SHUTDOWN_SECONDS, self._abort_if_waiting)

    def _abort_if_waiting(self) -> None:
        if self in self.table and self.is_waiting:
            self.transport.abort()

    def refuse(self, status: int, message: str) -> None:
        if self.transport.is_closing():
            return
        body = f'{{"error": "{message}"}}'.encode()
        retry = [("Retry-After", "1")] if status in (429, 503) else []
        headers = [*API_HEADERS, *retry, ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        lines = [f"HTTP/1.1 {status} {REASONS[status]}", *(f"{name}: {value}" for name, value in headers)]
        self.transport.write("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP."""
        self.transport.write(MALFORMED)
        self.transport.close()


def _format_malformed() -> bytes:
    body = b'{"error": "Invalid HTTP request received."}'
    headers = [*API_HEADERS, ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    lines = ["HTTP/1.1 400 Bad Request", *(f"{name}: {value}" for name, value in headers), "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


MALFORMED = _format_malformed()


class AcceptingLoop(asyncio.SelectorEventLoop):
    """asyncio accepts as many connections at once as the backlog is long, before it looks at any of them."""

    async def create_server(self, *arguments: Any, **more: Any) -> Any:
        server = await super().create_server(*arguments, **{**more, "backlog": MAX_ACCEPTS})
        if more.get("sock") is not None:
            more["sock"].listen(BACKLOG)
        return server


def make_event_loop() -> asyncio.AbstractEventLoop:
    if importlib.util.find_spec("uvloop"):  # it accepts one at a time
        new_event_loop: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
        return new_event_loop()
    return AcceptingLoop()
