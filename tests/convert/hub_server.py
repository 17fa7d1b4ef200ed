"""A small server that speaks the protocol of the Hugging Face hub, for tests."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import huggingface_hub.constants
import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Repositories = Mapping[str, Mapping[str, bytes]]


class Hub(ThreadingHTTPServer):
    """Files of repositories by name, in their one revision."""

    def __init__(self, repositories: Repositories) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.repositories = repositories
        self.requests: list[str] = []
        self.tokens: set[str] = set()
        self.down = False


class HubHandler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def log_message(self, *rest: Any) -> None:
        pass

    def answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        self.server.tokens.add(self.headers.get("authorization") or "")
        if self.server.down:
            return self.send(b"", 500)
        parts = path.strip("/").split("/")
        inside = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if inside else parts[:2])
        rest = parts[4:] if inside else parts[2:]
        if name == "org/gated":
            return self.send(b"", 403, {"X-Error-Code": "GatedRepo"})
        if name not in self.server.repositories:
            return self.send(b"", 404, {"X-Error-Code": "RepoNotFound"})
        revision = "/".join(rest[1:]) if rest[0] == "revision" else rest[1]
        if revision not in ("main", COMMIT):
            return self.send(b"", 404, {"X-Error-Code": "RevisionNotFound"})
        files = self.server.repositories[name]
        if rest[0] == "revision":
            found: Any = {"id": name, "sha": COMMIT, "siblings": [{"rfilename": file} for file in files]}
            return self.send(json.dumps(found).encode())
        if rest[0] == "tree":
            found = [{"type": "file", "path": f, "size": len(c), "oid": _digest(c)} for f, c in files.items()]
            return self.send(json.dumps(found).encode())
        file = "/".join(rest[2:])
        if file not in files:
            return self.send(b"", 404, {"X-Error-Code": "EntryNotFound"})
        self.send(files[file], 200, {"ETag": f'"{_digest(files[file])}"', "X-Repo-Commit": COMMIT})
        return None

    def send(self, content: bytes, code: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


def _digest(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def point_to(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """As HF_ENDPOINT does before the library is imported."""
    template = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@contextmanager
def serve_hub(repositories: Repositories, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Hub]:
    """The hub that the library talks to inside this block, with a cache in this folder."""
    server = Hub(repositories)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    point_to(monkeypatch, f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(folder / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
