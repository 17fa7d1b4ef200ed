"""The server's state that all routes share: the models, API keys, limits, metrics, downloads and open streams."""

import asyncio
import threading
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from headway.device import available_cores
from headway.serve.admission import Admission
from headway.serve.api_keys import ApiKeys
from headway.serve.connections import Connections
from headway.serve.document_workers import DocumentWorkers
from headway.serve.downloads import Downloads
from headway.serve.errors import text_limit_exceeded, too_many_requests
from headway.serve.memory import MemoryBudget
from headway.serve.metrics import Metrics
from headway.serve.model_pool import ModelPool
from headway.serve.queued_job import estimate_tokens
from headway.serve.request_bodies import parse_body, read_body
from headway.serve.settings import ServerSettings
from headway.serve.suggestions import SuggestionFile
from headway.serve.translate import run_in_time

T = TypeVar("T")
STREAM_BYTES = 64 << 20  # that a stream may take: an event with the vectors of all layers has megabytes


@dataclass
class ServerState:
    settings: ServerSettings
    pool: ModelPool
    keys: ApiKeys
    admission: Admission
    connections: Connections
    metrics: Metrics
    downloads: Downloads
    memory: MemoryBudget
    workers: DocumentWorkers
    suggestions: SuggestionFile
    open_streams: int = field(default=0)
    stream_turns: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(max(available_cores() // 2, 1))  # batches need cores, too
    )

    async def read_body(self, request: Request, kind: type[Any]) -> Any:
        """A request's body as `kind`, a class of schemas.py. Checks the API key first."""
        table = await read_body(request)
        self.check_key(request, table)
        return parse_body(kind, table)

    def check_key(self, request: Request, table: dict[str, Any]) -> None:
        """The key may be in the body, where it was not found before the body was read."""
        self.admission.admit_by_body(request.scope, table)

    def check_size(self, request: Request, texts: list[str], together: bool = False) -> None:
        """The character limit is for each text, as LibreTranslate's; together: for all of them, as one."""
        limits = self.settings.limits
        if len(texts) > limits.texts:
            raise text_limit_exceeded(len(texts), limits.texts)
        characters = sum(map(len, texts))
        log_fields = request.scope["log_fields"]
        log_fields.update(texts=len(texts), characters=characters)
        if self.settings.log_text:
            log_fields["text"] = repr(texts[0] if len(texts) == 1 else texts)
        longest = characters if together else max(map(len, texts), default=0)
        if longest > limits.characters:
            raise text_limit_exceeded(longest, limits.characters)
        self.admission.take_characters(request.scope, characters)

    async def finish_in_time(self, request: Request, work: Awaitable[T]) -> T:
        """The result of `work`, which is cancelled when it takes too long or the client leaves."""
        return await run_in_time(work, wait_for_disconnect(request), self.settings.limits.request_seconds)

    def begin_stream(self, texts: list[str]) -> None:
        """Streams are not batched: each occupies a thread, so their number is limited."""
        if self.open_streams >= self.settings.limits.streams:
            raise too_many_requests(sum(map(estimate_tokens, texts)) / 100)
        self.memory.acquire(STREAM_BYTES)
        self.open_streams += 1

    def end_stream(self) -> None:
        self.open_streams -= 1
        self.memory.release(STREAM_BYTES)


async def wait_for_disconnect(request: Request) -> None:
    """Returns when the client has closed the connection. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)
