"""How a server is set up, and what it allows. Nothing here imports the packages of the extra `serve`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


class Tell(Protocol):
    """What writes the log: one line a call."""

    def __call__(self, message: str, level: Any = "info", **fields: Any) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Limits:
    """No request may ask for more."""

    body: int = 2**20  # bytes of a request
    file: int = 10 * 2**20  # bytes of an uploaded file
    characters: int = 50_000  # of a request
    texts: int = 1000  # of a request
    waiting: int = 200_000  # tokens, about, that may wait or be in work: whoever brings more hears 429
    seconds: float = 120.0  # that a request may take
    sending: float = 30.0  # seconds for a request's body to arrive, and for a piece of an answer to be taken
    streams: int = 8  # at a time
    files: int = 100  # that wait to be downloaded
    kept: float = 1800.0  # seconds that they are kept


@dataclass(frozen=True, kw_only=True)
class Settings:
    models: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int = 5000
    device: str = "auto"
    engine: str = "auto"
    compute: str = "auto"
    threads: int | None = None
    memory: int | None = None  # bytes for the weights of models, about
    patience: float = 0.005  # seconds that a text waits for others to be translated with
    api_keys: str | None = None  # a file of them, one a line
    cors: tuple[str, ...] = ()  # origins whose pages may ask
    log_text: bool = False
    files: str | None = None  # a folder for translated files that the processes of one server share
    limits: Limits = field(default_factory=Limits)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        table: Mapping[str, Any] = json.loads(text)
        lists = {name: tuple(table[name]) for name in ("models", "cors")}
        return cls(**{**table, **lists, "limits": Limits(**table["limits"])})
