"""Streaming responses: events of a thread that computes, sent as fast as the client reads, for as long as it reads."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as TookTooLong
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.serve.errors import ClientGone
from headway.serve.model_pool import ServedModel
from headway.serve.state import ServerState, wait_for_disconnect
from headway.serve.translate import use_model

Event = dict[str, Any]
Emit = Callable[[Event], None]
MAX_PENDING_EVENTS = 16  # that a slow client may be behind, before the thread waits for it
POLL_SECONDS = 0.25  # how often a thread that waits looks whether the client has left


class StreamStopped(Exception):
    """The client has left, reads too slowly, or the time is up: nobody receives events any more."""


class EventPipe:
    """A bounded queue from a thread to the event loop."""

    def __init__(self, timeout: float) -> None:
        """timeout: seconds that the thread waits for a client that does not read."""
        self.loop = asyncio.get_running_loop()
        self.timeout = timeout
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(MAX_PENDING_EVENTS)
        self.closed = threading.Event()
        self.complete = False  # whether the last event was emitted

    def emit(self, event: Event | None) -> None:
        """In the thread; None is the end. Raises StreamStopped as soon as nobody receives events."""
        if self.closed.is_set():
            raise StreamStopped
        self.complete = event is None
        putting = asyncio.run_coroutine_threadsafe(self._events.put(event), self.loop)
        waited = 0.0
        while True:
            try:
                return putting.result(POLL_SECONDS)
            except CancelledError:
                raise StreamStopped from None
            except TookTooLong:
                waited += POLL_SECONDS
            if self.closed.is_set() or waited > self.timeout:
                putting.cancel()
                raise StreamStopped

    async def next(self) -> Event | None:
        return await self._events.get()

    def close(self) -> None:
        """In the event loop: pending events are dropped, and `next` returns None."""
        self.closed.set()
        while not self._events.empty():
            self._events.get_nowait()
        self._events.put_nowait(None)


class EventStreamResponse(Response):
    """The response of events that `work` emits in a thread. It keeps the model loaded meanwhile, and ends the stream
    that the caller has begun (ServerState.begin_stream).

    encode: an event as bytes. error_event: the last event after an exception. trailer: bytes after the last event."""

    def __init__(
        self,
        request: Request,
        state: ServerState,
        model: ServedModel,
        work: Callable[[Emit], None],
        *,
        encode: Callable[[Event], bytes],
        error_event: Callable[[Exception], Event],
        trailer: bytes = b"",
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self.request = request
        self.state = state
        self.model = model
        self.work = work
        self.encode = encode
        self.error_event = error_event
        self.trailer = trailer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with use_model(self.state.pool, self.model):
                await self._send_all(send)
        finally:
            self.state.end_stream()

    async def _send_all(self, send: Send) -> None:
        limits = self.state.settings.limits
        pipe = EventPipe(limits.transfer_seconds)
        disconnect = asyncio.ensure_future(wait_for_disconnect(self.request))
        disconnect.add_done_callback(lambda _: pipe.close())
        time_limit = pipe.loop.call_later(limits.request_seconds, pipe.close)
        working = asyncio.ensure_future(asyncio.to_thread(self._compute, pipe))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while (event := await pipe.next()) is not None:
                await send({"type": "http.response.body", "body": self.encode(event), "more_body": True})
            if not pipe.complete:  # cut the connection, so that the client sees that the answer is incomplete
                raise ClientGone if disconnect.done() else TimeoutError
            await send({"type": "http.response.body", "body": self.trailer})
        finally:
            time_limit.cancel()
            disconnect.cancel()
            pipe.close()
            await working  # it needs the model until it notices that the pipe is closed

    def _compute(self, pipe: EventPipe) -> None:
        try:
            try:
                self.work(pipe.emit)
            except StreamStopped:
                raise
            except Exception as error:
                pipe.emit(self.error_event(error))
            pipe.emit(None)
        except StreamStopped:
            pipe.loop.call_soon_threadsafe(pipe.close)
