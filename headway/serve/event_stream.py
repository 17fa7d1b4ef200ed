"""Streaming responses: events of a thread that computes, sent as fast as the client reads, for as long as it reads."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.decode.stop import SearchStopped, stop_when
from headway.serve.errors import ClientGone, request_timeout
from headway.serve.served_model import ServedModel
from headway.serve.state import ServerState, wait_for_disconnect
from headway.serve.translate import use_model

Event = dict[str, Any]
Emit = Callable[[Event], None]
MAX_PENDING_BYTES = 256 << 10  # that a slow client may be behind, before the thread waits for it
CHUNK_BYTES = 64 << 10  # that are sent at a time: an event may have megabytes
POLL_SECONDS = 0.25  # how often a thread that waits looks whether the client has left


class StreamStopped(Exception):
    """The client has left, reads too slowly, or the time is up: nobody receives events any more."""


class EventPipe:
    """A queue from a thread to the event loop, bounded in bytes. The thread encodes events, and waits while the queue
    is full: for a client that does not read, the server holds one event at most."""

    def __init__(self, timeout: float, encode: Callable[[Event], bytes], turns: threading.Semaphore) -> None:
        """timeout: seconds that the thread waits for a client that does not read. turns: held by threads that compute,
        but not while they wait."""
        self.loop = asyncio.get_running_loop()
        self.timeout = timeout
        self.encode = encode
        self.turns = turns
        self._chunks: deque[bytes | memoryview | None] = deque()
        self._pending_bytes = 0
        self._taken = threading.Condition()
        self._arrived = asyncio.Event()
        self.closed = threading.Event()
        self.complete = False  # whether the last event was emitted

    def emit(self, event: Event | None) -> None:
        """In the thread; None is the end. Raises StreamStopped as soon as nobody receives events."""
        if self.closed.is_set():
            raise StreamStopped
        data = memoryview(b"" if event is None else self.encode(event))
        if event is not None:
            event.clear()  # this thread may wait for long: the caller need not hold it a second time
        self.turns.release()  # while this thread waits for its client, another computes
        try:
            for start in range(0, len(data), CHUNK_BYTES):
                self._put(data[start : start + CHUNK_BYTES])
            if event is None:
                self.complete = True
                self._put(None)
        finally:
            self.turns.acquire()

    def _put(self, chunk: memoryview | None) -> None:
        waited = 0.0
        with self._taken:
            while self._pending_bytes >= MAX_PENDING_BYTES and not self.closed.is_set():
                if waited > self.timeout:
                    raise StreamStopped
                self._taken.wait(POLL_SECONDS)
                waited += POLL_SECONDS
            if self.closed.is_set():
                raise StreamStopped
            self._chunks.append(chunk)
            self._pending_bytes += len(chunk or b"")
        self.loop.call_soon_threadsafe(self._arrived.set)

    async def next(self) -> bytes | None:
        """In the event loop: what to send next; None after the last."""
        while True:
            with self._taken:
                if self._chunks:
                    chunk = self._chunks.popleft()
                    self._pending_bytes -= len(chunk or b"")
                    self._taken.notify()
                    return None if chunk is None else bytes(chunk)
                self._arrived.clear()
            await self._arrived.wait()

    def close(self) -> None:
        """In the event loop: what is pending is dropped, and `next` returns None."""
        with self._taken:
            self.closed.set()
            self._chunks.clear()
            self._chunks.append(None)
            self._pending_bytes = 0
            self._taken.notify()
        self._arrived.set()


class EventStreamResponse(Response):
    """The response of events that `work` emits in a thread. It keeps the model, if it needs one, loaded meanwhile, and
    ends the stream that the caller has begun (ServerState.begin_stream).

    encode: an event as bytes. error_event: the last event after an exception. trailer: bytes after the last event."""

    def __init__(
        self,
        request: Request,
        state: ServerState,
        model: ServedModel | None,
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
            if self.model is None:
                await self._send_all(send)
            else:
                async with use_model(self.state.pool, self.model):
                    await self._send_all(send)
        finally:
            self.state.end_stream()

    async def _send_all(self, send: Send) -> None:
        limits = self.state.settings.limits
        pipe = EventPipe(limits.transfer_seconds, self.encode, self.state.stream_turns)
        disconnect = asyncio.ensure_future(wait_for_disconnect(self.request))
        disconnect.add_done_callback(lambda _: pipe.close())
        time_is_up = asyncio.Event()

        def end_in_time() -> None:
            time_is_up.set()
            pipe.close()

        time_limit = pipe.loop.call_later(limits.request_seconds, end_in_time)
        working = asyncio.ensure_future(asyncio.to_thread(self._compute, pipe))
        working.add_done_callback(lambda done: pipe.close() if not done.cancelled() and done.exception() else None)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while (chunk := await pipe.next()) is not None:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            end = self.trailer
            failed = working.done() and working.exception() is not None
            if time_is_up.is_set() and not pipe.complete and not failed:
                end = self.encode(self.error_event(request_timeout(limits.request_seconds)))
            elif not pipe.complete:  # cut the connection, so that the client sees that the answer is incomplete
                raise ClientGone if disconnect.done() else TimeoutError
            await send({"type": "http.response.body", "body": end})
        finally:
            time_limit.cancel()
            disconnect.cancel()
            pipe.close()
            await working  # it needs the model until it notices that the pipe is closed

    def _compute(self, pipe: EventPipe) -> None:
        with pipe.turns:
            self._emit_all(pipe)

    def _emit_all(self, pipe: EventPipe) -> None:
        try:
            try:
                with stop_when(pipe.closed.is_set):
                    self.work(pipe.emit)
            except (StreamStopped, SearchStopped):
                raise StreamStopped from None
            except Exception as error:
                pipe.emit(self.error_event(error))
            pipe.emit(None)
        except StreamStopped:
            pipe.loop.call_soon_threadsafe(pipe.close)
