"""/metrics: on a port of its own, or with a key."""

import socket
from pathlib import Path

import httpx
import pytest

from headway.errors import HeadwayError
from headway.serve.api_keys import ApiKeys
from headway.serve.metrics_port import MAX_CONNECTIONS, serve_metrics
from serve.conftest import running


@pytest.fixture
def keys(tmp_path: Path) -> str:
    (tmp_path / "keys").write_text("prometheus scrape-key\n")
    return str(tmp_path / "keys")


def test_a_port_of_its_own(keys: str) -> None:
    with serve_metrics("127.0.0.1", 0, lambda: b"headway_texts 1\n", ApiKeys(None)) as url:
        answer = httpx.get(url, timeout=30)
        assert (answer.status_code, answer.text) == (200, "headway_texts 1\n")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert httpx.get(url.replace("/metrics", "/translate"), timeout=30).status_code == 404
    with serve_metrics("127.0.0.1", 0, lambda: b"headway_texts 1\n", ApiKeys(keys)) as url:
        assert httpx.get(url, timeout=30).status_code == 400
        assert httpx.get(url, headers={"Authorization": "Bearer wrong"}, timeout=30).status_code == 403
        assert httpx.get(url, headers={"Authorization": "Bearer scrape-key"}, timeout=30).status_code == 200


def test_those_who_wait_do_not_pile_up() -> None:
    with serve_metrics("127.0.0.1", 0, lambda: b"", ApiKeys(None)) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        clients = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(3 * MAX_CONNECTIONS)]
        assert clients[-1].recv(10) == b""  # closed at once
        for client in clients:
            client.close()


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(HeadwayError, match=f"cannot listen on 127.0.0.1:{port} for metrics: Address already in use"),
            serve_metrics("127.0.0.1", port, lambda: b"", ApiKeys(None)),
        ):
            pass


def test_with_a_key(translator_dir: Path, keys: str) -> None:
    with running(translator_dir, metrics_keys=keys) as server:
        assert server.get("/metrics").status_code == 400
        assert server.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 403
        assert "headway_texts" in server.get("/metrics", headers={"Authorization": "Bearer scrape-key"}).text
    with running(translator_dir, metrics_port=0) as server:
        assert server.get("/metrics").status_code == 404
