"""An answer that grows: events from a thread that computes, sent no faster than they are read, for as long as somebody
reads them."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as TookTooLong
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headway.serve.errors import Gone
from headway.serve.model_pool import Model
from headway.serve.state import Service, left
from headway.serve.translate import using

Event = dict[str, Any]
Emit = Callable[[Event], None]
AHEAD = 16  # events that a slow reader may be behind, before the thread waits for it


class Stopped(Exception):
    """Nobody listens any more."""


class Pipe:
    def __init__(self, patience: float) -> None:
        """patience: seconds that the thread waits for a client that does not read."""
        self.loop, self.patience = asyncio.get_running_loop(), patience
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(AHEAD)
        self.closed = threading.Event()
        self.whole = False  # whether everything was said

    def emit(self, event: Event | None) -> None:
        """In the thread; None ends it. Raises Stopped as soon as nobody listens."""
        if self.closed.is_set():
            raise Stopped
        self.whole = event is None
        putting = asyncio.run_coroutine_threadsafe(self._events.put(event), self.loop)
        waited = 0.0
        while True:
            try:
                return putting.result(0.25)
            except CancelledError:
                raise Stopped from None
            except TookTooLong:
                waited += 0.25
            if self.closed.is_set() or waited > self.patience:
                putting.cancel()
                raise Stopped

    async def next(self) -> Event | None:
        return await self._events.get()

    def close(self) -> None:
        """In the event loop: nothing more is taken, and whoever waits for the next event gets None."""
        self.closed.set()
        while not self._events.empty():
            self._events.get_nowait()
        self._events.put_nowait(None)


class Streamed(Response):
    """The answer to a request that `work` makes in a thread; it has the model meanwhile, and one of the places for
    streams, which the caller has taken. shown: an event as bytes; failed: an error as the last event."""

    def __init__(
        self,
        request: Request,
        service: Service,
        model: Model,
        work: Callable[[Emit], None],
        *,
        shown: Callable[[Event], bytes],
        failed: Callable[[Exception], Event],
        last: bytes = b"",
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self.request, self.service, self.model, self.work = request, service, model, work
        self.shown, self.failed, self.last = shown, failed, last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with using(self.service.shelf, self.model):
                await self._send_all(send)
        finally:
            self.service.end_stream()

    async def _send_all(self, send: Send) -> None:
        limits = self.service.settings.limits
        pipe = Pipe(limits.sending)
        watching = asyncio.ensure_future(left(self.request))
        watching.add_done_callback(lambda _: pipe.close())
        late = pipe.loop.call_later(limits.seconds, pipe.close)
        working = asyncio.ensure_future(asyncio.to_thread(self._compute, pipe))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while (event := await pipe.next()) is not None:
                await send({"type": "http.response.body", "body": self.shown(event), "more_body": True})
            if not pipe.whole:
                raise Gone if watching.done() else TimeoutError  # the client sees that the answer is not whole
            await send({"type": "http.response.body", "body": self.last})
        finally:
            late.cancel()
            watching.cancel()
            pipe.close()
            await working  # until it has seen that nobody listens, it needs the model

    def _compute(self, pipe: Pipe) -> None:
        try:
            try:
                self.work(pipe.emit)
            except Stopped:
                raise
            except Exception as error:
                pipe.emit(self.failed(error))
            pipe.emit(None)
        except Stopped:
            pipe.loop.call_soon_threadsafe(pipe.close)
