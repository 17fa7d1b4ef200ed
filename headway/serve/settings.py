"""Settings of the server, and its limits. Nothing here imports the packages of the extra `serve`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


class Log(Protocol):
    """Writes the log: one line a call."""

    def __call__(self, message: str, level: Any = "info", **fields: Any) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most that a request, or all requests together, may take."""

    body_bytes: int = 2**20  # of a request
    file_bytes: int = 10 * 2**20  # of an uploaded file
    characters: int = 50_000  # of a request
    texts: int = 1000  # of a request
    queue_tokens: int = 200_000  # estimated, waiting or being translated; beyond that requests get 429
    request_seconds: float = 120.0
    transfer_seconds: float = 30.0  # for a request's body to arrive, and for a piece of a response to be read
    streams: int = 8  # at a time
    stored_files: int = 100  # translated files that wait to be downloaded
    stored_seconds: float = 1800.0  # how long they are kept


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    models: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 5000
    device: str = "auto"
    engine: str = "auto"
    compute: str = "auto"
    threads: int | None = None
    memory: int | None = None  # bytes for the weights of all loaded models, about
    max_batch_delay: float = 0.005  # seconds that a text waits for others to be batched with
    api_keys: str | None = None  # a file of them, one a line
    cors: tuple[str, ...] = ()  # origins whose pages may use this server
    log_text: bool = False
    files: str | None = None  # a folder for translated files, shared by the processes of one server
    limits: Limits = field(default_factory=Limits)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ServerSettings":
        table: Mapping[str, Any] = json.loads(text)
        lists = {name: tuple(table[name]) for name in ("models", "cors")}
        return cls(**{**table, **lists, "limits": Limits(**table["limits"])})
