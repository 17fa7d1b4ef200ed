"""Servers for tests: in a thread of this process, on a free port, with tiny models."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from headway.serve.app import create_app
from headway.serve.server import UVICORN_OPTIONS, bind_socket
from headway.serve.settings import Limits, ServerSettings


class Running:
    """A server that answers. `log` has what it wrote: (level, message, fields)."""

    def __init__(self, settings: ServerSettings) -> None:
        self.log: list[tuple[str, str, dict[str, Any]]] = []
        self.app = create_app(settings, self.write_log)
        self.socket = bind_socket(settings)
        self.port: int = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = uvicorn.Server(uvicorn.Config(self.app, **UVICORN_OPTIONS))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        until(lambda: self.server.started)

    @property
    def state(self) -> Any:
        return self.app.state.server

    def write_log(self, message: str, level: Any = "info", **fields: Any) -> None:
        self.log.append((level, message, fields))

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return httpx.post(self.url + path, **({"json": body} if body is not None else {}), **more, timeout=60)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return httpx.get(self.url + path, **more, timeout=60)

    def error(self, path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        response = self.post(path, body, **more)
        return response.status_code, response.json()["error"]

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(1)
        self.server.force_exit = True  # a client that is still connected would keep it for half a minute
        self.thread.join(5)  # a daemon: that a server ends in time is tested in tests/cli/verbs/test_serve.py
        self.socket.close()


def until(true: Callable[[], Any], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@contextmanager
def running(*models: Path, limits: dict[str, Any] | None = None, **settings: Any) -> Iterator[Running]:
    made = ServerSettings(
        models=tuple(map(str, models)), port=0, device="cpu", threads=1, limits=Limits(**(limits or {})), **settings
    )
    server = Running(made)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def served(translator_dir: Path, lm_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A translator, en → qtx, and a language model, named my-lm."""
    named = tmp_path_factory.mktemp("named") / "my-lm"
    shutil.copytree(lm_dir, named)
    with running(translator_dir, named) as server:
        yield server
