"""Streams to slow readers: what waits is bounded in bytes, and threads that wait let others compute."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from event_loops import run_async

from headway.serve import event_stream
from headway.serve.event_stream import CHUNK_BYTES, MAX_PENDING_BYTES, EventPipe, StreamStopped


def with_pipe(
    act: Callable[[EventPipe], Awaitable[None]], emit: Callable[[EventPipe], None], timeout: float = 10.0
) -> list[Exception]:
    """Runs `emit` in a thread and `act` in the event loop; returns what the thread raised."""
    raised: list[Exception] = []

    async def run() -> None:
        pipe = EventPipe(timeout, lambda event: event["data"], threading.Semaphore(1))

        def work() -> None:
            with pipe.turns:
                try:
                    emit(pipe)
                except StreamStopped as stopped:
                    raised.append(stopped)

        working = asyncio.ensure_future(asyncio.to_thread(work))
        await act(pipe)
        await working
        assert pipe.turns.acquire(blocking=False)  # given back, whatever happened

    run_async(run())
    return raised


def test_everything_arrives_in_order_and_in_small_parts() -> None:
    sent = [bytes([n]) * size for n, size in enumerate((1, CHUNK_BYTES, 5 * CHUNK_BYTES + 1, 0, 3))]
    received: list[bytes] = []

    def emit(pipe: EventPipe) -> None:
        for data in sent:
            pipe.emit({"data": data})
        pipe.emit(None)

    async def read(pipe: EventPipe) -> None:
        while (chunk := await pipe.next()) is not None:
            assert len(chunk) <= CHUNK_BYTES
            received.append(chunk)
        assert pipe.complete

    assert not with_pipe(read, emit)
    assert b"".join(received) == b"".join(sent)


def test_the_thread_waits_for_a_client_that_does_not_read() -> None:
    emitted: list[int] = []

    def emit(pipe: EventPipe) -> None:
        for n in range(1000):
            pipe.emit({"data": bytes(100_000)})
            emitted.append(n)

    async def wait(pipe: EventPipe) -> None:
        while pipe._pending_bytes < MAX_PENDING_BYTES:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert pipe._pending_bytes <= MAX_PENDING_BYTES + CHUNK_BYTES
        assert len(emitted) < 5
        assert pipe.turns.acquire(blocking=False)  # another thread may compute
        pipe.turns.release()
        assert not pipe.closed.is_set()
        pipe.close()
        assert await pipe.next() is None

    assert len(with_pipe(wait, emit)) == 1
    assert len(emitted) < 5


def test_who_never_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.01)

    def emit(pipe: EventPipe) -> None:
        pipe.emit({"data": bytes(2 * MAX_PENDING_BYTES)})

    async def wait(pipe: EventPipe) -> None:
        await asyncio.sleep(0)

    began = time.monotonic()
    raised: Any = with_pipe(wait, emit, timeout=0.1)
    assert len(raised) == 1
    assert time.monotonic() - began < 8


def test_nothing_is_computed_for_a_closed_pipe() -> None:
    ready = threading.Event()

    def emit(pipe: EventPipe) -> None:
        assert ready.wait(10)
        pipe.emit({"data": b"x"})

    async def close(pipe: EventPipe) -> None:
        pipe.close()
        ready.set()

    assert len(with_pipe(close, emit)) == 1
