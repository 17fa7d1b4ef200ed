"""Document workers: a bounded number of processes, each of which reads one document (headway.documents.worker).

A job waits for a free place while its file is on disk. Places go to clients in turn: to whoever has the fewest."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.documents.limits import DocumentLimits
from headway.documents.segments import DocumentCounts, SegmentRequest, SegmentResult
from headway.documents.worker import WorkerJob
from headway.errors import HeadwayError
from headway.serve.errors import ApiError, too_many_requests
from headway.serve.memory import MemoryBudget, read_resident
from headway.serve.settings import Limits

MAX_WORKERS = 2  # at a time
MAX_WAITING = 64  # jobs of all clients
MAX_WORKER_BYTES = 512 << 20
MIN_WORKER_BYTES = 96 << 20
WORKER_SHARE = 5  # a worker may take one part in so many of the budget
MAX_UNPACKED_RATIO = 8  # unpacked bytes for each byte that a file may have: pictures hardly shrink
MAX_PART_BYTES = 16 << 20
MAX_PAGES = 1000
MAX_PDF_SECONDS = 10.0
MIN_ELEMENTS = 100_000
ELEMENTS_PER_CHARACTER = 2
SECONDS_PER_JOB = 1.0  # a guess, for Retry-After


def document_limits(limits: Limits) -> DocumentLimits:
    """What an uploaded document may take, in proportion to the sizes that this server allows."""
    characters = limits.file_characters or limits.characters
    return DocumentLimits(
        file_bytes=limits.file_bytes,
        part_bytes=max(MAX_PART_BYTES, 4 * characters),
        unpacked_bytes=max(MAX_UNPACKED_RATIO * limits.file_bytes, 4 * characters),
        elements=max(MIN_ELEMENTS, ELEMENTS_PER_CHARACTER * characters),
        characters=characters,
        pages=MAX_PAGES,
        seconds=MAX_PDF_SECONDS,
    )


@dataclass(eq=False)
class WaitingJob:
    client: str
    turn: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class DocumentWorkers:
    def __init__(self, limits: Limits, memory: MemoryBudget) -> None:
        self.limits = document_limits(limits)
        self.memory = memory
        self.worker_bytes = min(max(memory.limit // WORKER_SHARE, MIN_WORKER_BYTES), MAX_WORKER_BYTES)
        self._running: Counter[str] = Counter()  # by client
        self._waiting: list[WaitingJob] = []

    async def extract(self, source: Path, name: str, client: str) -> list[SegmentRequest]:
        """The segments of a document. name: for messages, and for its type. client: takes turns with others."""
        job = WorkerJob(source=str(source), name=name, limits=self.limits, memory=self.worker_bytes)
        return [SegmentRequest(*segment) for segment in (await self._run(job, client))["segments"]]

    async def write(
        self, source: Path, target: Path, name: str, client: str, results: Sequence[SegmentResult], language: str = ""
    ) -> DocumentCounts:
        """Write the translated document. results: of all its segments. language: of the translation."""
        job = WorkerJob(
            source=str(source),
            name=name,
            limits=self.limits,
            memory=self.worker_bytes,
            target=str(target),
            results=results,
            language=language,
        )
        return DocumentCounts(**(await self._run(job, client))["counts"])

    async def _run(self, job: WorkerJob, client: str) -> dict[str, Any]:
        async with self._place(client):
            self.memory.check(heavy=True)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "headway.documents.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the server, which ends its workers
            )
            try:
                with self.memory.count_worker(process.pid):
                    output, _ = await process.communicate(job.to_json())
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await asyncio.shield(process.wait())
        answer: dict[str, Any] = json.loads(output) if output else {}
        if "failure" in answer:
            raise ApiError(503, f"the translated file cannot be stored: {answer['failure']}", {"Retry-After": "60"})
        if "error" in answer or not answer:
            too_much = f"{job.name} cannot be read: it takes too much memory or time. Split it into smaller files."
            raise HeadwayError(answer.get("error", too_much))
        return answer

    @asynccontextmanager
    async def _place(self, client: str) -> AsyncIterator[None]:
        if not self._has_place() or self._waiting:
            await self._wait_for_place(client)
        else:
            self._running[client] += 1
        try:
            yield
        finally:
            self._running[client] -= 1
            self._running += Counter()  # forget clients that have none
            self._give_places()

    def _has_place(self) -> bool:
        """Whether one more worker may begin: one always may, several if each could take all that it is allowed."""
        count = self._running.total()
        if not count:
            return True
        own = read_resident(os.getpid())
        return count < MAX_WORKERS and own + (count + 1) * self.worker_bytes <= self.memory.limit

    async def _wait_for_place(self, client: str) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._make_room(client)
        one = WaitingJob(client)
        self._waiting.append(one)
        try:
            await one.turn  # the place is this client's from then on
        except asyncio.CancelledError:
            if one in self._waiting:
                self._waiting.remove(one)
            elif one.turn.done() and not one.turn.cancelled() and not one.turn.exception():
                self._running[client] -= 1
                self._give_places()
            raise

    def _make_room(self, client: str) -> None:
        """Refuse the last document of the client that has the most waiting; this one, if that is its client."""
        waiting = Counter(one.client for one in self._waiting)
        greediest, count = waiting.most_common(1)[0]
        error = too_many_requests(SECONDS_PER_JOB * len(self._waiting) / MAX_WORKERS)
        if count <= waiting[client] + 1:
            raise error
        last = next(one for one in reversed(self._waiting) if one.client == greediest)
        self._waiting.remove(last)
        last.turn.set_exception(error)

    def _give_places(self) -> None:
        while self._waiting and self._has_place():
            one = min(self._waiting, key=lambda one: self._running[one.client])  # the first of those with the fewest
            self._waiting.remove(one)
            if not one.turn.done():
                self._running[one.client] += 1
                one.turn.set_result(None)
