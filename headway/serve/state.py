"""The server's state that all routes share: the models, API keys, limits, metrics, downloads and open streams."""

import asyncio
import re
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from headway.serve.api_keys import ApiKeys
from headway.serve.batch_queue import estimate_tokens
from headway.serve.downloads import Downloads
from headway.serve.errors import text_limit_exceeded, too_many_requests
from headway.serve.metrics import Metrics
from headway.serve.model_pool import ModelPool
from headway.serve.schemas import parse_body, read_body
from headway.serve.settings import ServerSettings
from headway.serve.translate import run_in_time

T = TypeVar("T")
BEARER = re.compile(r"^bearer\s+", re.IGNORECASE)  # authorization schemes are case-insensitive


@dataclass
class ServerState:
    settings: ServerSettings
    pool: ModelPool
    keys: ApiKeys
    metrics: Metrics
    downloads: Downloads
    open_streams: int = field(default=0)

    async def read_body(self, request: Request, kind: type[Any]) -> Any:
        """A request's body as `kind`, a class of schemas.py. Checks the API key first."""
        table = await read_body(request)
        self.check_key(request, table)
        return parse_body(kind, table)

    def check_key(self, request: Request, table: dict[str, Any]) -> None:
        """The key may be in the body, in the query, or in the header Authorization."""
        if self.keys.required:
            bearer = BEARER.sub("", request.headers.get("authorization", "")).strip()
            given = table.get("api_key") or request.query_params.get("api_key") or bearer
            self.keys.check(given if isinstance(given, str) else "")

    def check_size(self, request: Request, texts: list[str]) -> None:
        limits = self.settings.limits
        if len(texts) > limits.texts:
            raise text_limit_exceeded(len(texts), limits.texts)
        characters = sum(map(len, texts))
        log_fields = request.scope["log_fields"]
        log_fields.update(texts=len(texts), characters=characters)
        if self.settings.log_text:
            log_fields["text"] = repr(texts[0] if len(texts) == 1 else texts)
        if characters > limits.characters:
            raise text_limit_exceeded(characters, limits.characters)

    async def finish_in_time(self, request: Request, work: Awaitable[T]) -> T:
        """The result of `work`, which is cancelled when it takes too long or the client leaves."""
        return await run_in_time(work, wait_for_disconnect(request), self.settings.limits.request_seconds)

    def begin_stream(self, texts: list[str]) -> None:
        """Streams are not batched: each occupies a thread, so their number is limited."""
        if self.open_streams >= self.settings.limits.streams:
            raise too_many_requests(sum(map(estimate_tokens, texts)) / 100)
        self.open_streams += 1

    def end_stream(self) -> None:
        self.open_streams -= 1


async def wait_for_disconnect(request: Request) -> None:
    """Returns when the client has closed the connection. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)
