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
    characters: int = 50_000  # of a text
    file_characters: int | None = None  # of an uploaded file's text; None: as characters
    texts: int = 1000  # of a request
    queue_tokens: int = 200_000  # estimated, waiting or being translated; beyond that requests get 429
    request_seconds: float = 120.0
    transfer_seconds: float = 30.0  # for a request's body to arrive, and for a piece of a response to be read
    streams: int = 8  # at a time
    connections: int = 1000  # open at a time
    address_connections: int = 64  # of one address; 0: any number
    header_seconds: float = 10.0  # for a request's headers to arrive
    keep_alive_seconds: float = 15.0  # that a connection may be idle
    body_rate: int = 50_000  # bytes a second at least, once transfer_seconds have passed
    held_body_bytes: int = 64 * 2**20  # of requests that are being received, together
    stored_files: int = 200  # translated files that wait to be downloaded; beyond that the oldest are deleted
    client_stored_files: int = 50  # of one client
    stored_bytes: int = 512 * 2**20  # of all of them
    stored_seconds: float = 1800.0  # how long they are kept
    downloaded_seconds: float = 60.0  # how long they are kept once they were downloaded


@dataclass(frozen=True, kw_only=True)
class ClientLimits:
    """The most that one client may do: a key, or an address where there are no keys. None: no limit."""

    requests: int | None = None  # a minute
    characters: int | None = None  # a minute
    quota: int | None = None  # characters a day
    concurrent: int | None = None  # requests at a time

    def divided_by(self, processes: int) -> "ClientLimits":
        """The share of each process: a process does not know what the others have done."""
        shares = {name: value and -(-value // processes) for name, value in asdict(self).items()}
        return ClientLimits(**shares)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    models: tuple[str, ...]
    studies: tuple[str, ...] = ()  # folders of headway compare, whose models are served as well
    index: str | None = None  # a folder of headway index --kind passages, which answers questions
    host: str = "127.0.0.1"
    port: int = 5000
    device: str = "auto"
    engine: str = "auto"
    compute: str = "auto"
    threads: int | None = None
    memory: int | None = None  # bytes that the process may take; None: nearly all that there is
    preload: bool = False  # whether the first model is loaded when the server starts, and not on its first use
    max_batch_delay: float = 0.005  # seconds that a text waits for others to be batched with
    api_keys: str | None = None  # a file of them: see api_keys.py
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks
    allowed_hosts: tuple[str, ...] = ()
    url_prefix: str = ""
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None  # None: /metrics beside the rest
    metrics_keys: str | None = None  # a file of keys that may read /metrics
    processes: int = 1  # that serve together
    suggestions: str | None = None  # the file to which /suggest appends; None: suggestions are refused
    cors: tuple[str, ...] = ()  # origins whose pages may use this server
    log_text: bool = False
    files: str | None = None  # a folder for translated files, shared by the processes of one server
    limits: Limits = field(default_factory=Limits)
    client_limits: ClientLimits = field(default_factory=ClientLimits)  # those of a key may differ

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ServerSettings":
        table: Mapping[str, Any] = json.loads(text)
        lists = {name: tuple(table[name]) for name in ("models", "studies", "cors", "trusted_proxies", "allowed_hosts")}
        limits = {"limits": Limits(**table["limits"]), "client_limits": ClientLimits(**table["client_limits"])}
        return cls(**{**table, **lists, **limits})
