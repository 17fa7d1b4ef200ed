"""What all routes share: the models, the keys, the limits."""

import asyncio
import re
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from headway.serve.api_keys import Keys
from headway.serve.batch_queue import tokens_of
from headway.serve.downloads import Files
from headway.serve.errors import slow_down, too_much
from headway.serve.metrics import Metrics
from headway.serve.model_pool import Shelf
from headway.serve.schemas import checked, read
from headway.serve.settings import Settings
from headway.serve.translate import in_time

T = TypeVar("T")
BEARER = re.compile(r"^bearer\s+", re.IGNORECASE)  # as any scheme, in any case


@dataclass
class Service:
    settings: Settings
    shelf: Shelf
    keys: Keys
    metrics: Metrics
    files: Files
    streams: int = field(default=0)

    async def body(self, request: Request, kind: type[Any]) -> Any:
        """What a request carries, if it may come in."""
        table = await read(request)
        self.admit(request, table)
        return checked(kind, table)

    def admit(self, request: Request, table: dict[str, Any]) -> None:
        if self.keys.required:
            bearer = BEARER.sub("", request.headers.get("authorization", "")).strip()
            given = table.get("api_key") or request.query_params.get("api_key") or bearer
            self.keys.check(given if isinstance(given, str) else "")

    def check_size(self, request: Request, texts: list[str]) -> None:
        limits = self.settings.limits
        if len(texts) > limits.texts:
            raise too_much(len(texts), limits.texts)
        characters = sum(map(len, texts))
        request.scope["note"].update(texts=len(texts), characters=characters)
        if self.settings.log_text:
            request.scope["note"]["text"] = repr(texts[0] if len(texts) == 1 else texts)
        if characters > limits.characters:
            raise too_much(characters, limits.characters)

    async def answered(self, request: Request, work: Awaitable[T]) -> T:
        """In time, and only as long as somebody waits for it."""
        return await in_time(work, left(request), self.settings.limits.seconds)

    def begin_stream(self, texts: list[str]) -> None:
        """Streams are not batched: each takes a thread, and there are so many."""
        if self.streams >= self.settings.limits.streams:
            raise slow_down(sum(map(tokens_of, texts)) / 100)
        self.streams += 1

    def end_stream(self) -> None:
        self.streams -= 1


async def left(request: Request) -> None:
    """Returns when the client has closed the connection. The body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)
