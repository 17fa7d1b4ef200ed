"""Connections that keep the server waiting are closed, and ordinary clients are served meanwhile."""

import errno
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.serve import connections
from headway.serve.connections import MAX_HEADER_BYTES, count_free_descriptors, raise_descriptor_limit
from serve.conftest import Running, running, until

HEADERS = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
BODY = HEADERS + b"x\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"
SLOW = {"nothing": b"", "headers": HEADERS, "body": BODY}
Connect = Callable[[bytes], socket.socket]


@contextmanager
def opened(server: Running) -> Iterator[Connect]:
    clients: list[socket.socket] = []

    def connect(content: bytes) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        client.sendall(content)
        clients.append(client)
        return client

    try:
        yield connect
    finally:
        for client in clients:
            client.close()


def read_all(client: socket.socket) -> bytes:
    """Until the server closes the connection."""
    content = b""
    with suppress(ConnectionError):
        while part := client.recv(65536):
            content += part
    return content


@pytest.mark.parametrize("kind", ["nothing", "headers", "body"])
def test_slow_clients_are_cut_off(translator_dir: Path, kind: str) -> None:
    limits = {"header_seconds": 0.5, "transfer_seconds": 0.5, "keep_alive_seconds": 0.5}
    with running(translator_dir, limits=limits) as server, opened(server) as connect:
        answer = read_all(connect(SLOW[kind]))
        if kind == "nothing":
            assert answer == b""
        else:
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"nosniff" in answer
        until(lambda: not len(server.state.connections))


def test_a_client_that_trickles_is_cut_off(translator_dir: Path) -> None:
    """Bytes that arrive now and then do not set the clock back."""
    with running(translator_dir, limits={"header_seconds": 1.0}) as server, opened(server) as connect:
        client = connect(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        with pytest.raises(OSError):
            for _ in range(200):
                client.sendall(b"X-Slow: 1\r\n")
                time.sleep(0.05)


def test_a_second_request_is_hurried_like_the_first(translator_dir: Path) -> None:
    limits = {"header_seconds": 0.5, "keep_alive_seconds": 60.0}
    with running(translator_dir, limits=limits) as server, opened(server) as connect:
        client = connect(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea")
        answer = client.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200 ")
        client.sendall(b"lth")
        read_all(client)
        until(lambda: not len(server.state.connections))


def test_idle_connections_are_closed(translator_dir: Path) -> None:
    with running(translator_dir, limits={"keep_alive_seconds": 0.3}) as server, opened(server) as connect:
        client = connect(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b'{"status":"ok"}' in read_all(client)


def test_what_nobody_reads_is_given_up(translator_dir: Path) -> None:
    """Closing waits for what is still to be written; a client that reads nothing would keep the connection."""
    limits = {"keep_alive_seconds": 0.3, "transfer_seconds": 1.0}
    with running(translator_dir, limits=limits) as server:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(("127.0.0.1", server.port))
        with client:
            client.sendall(b"GET /static/example.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
            until(lambda: len(server.state.connections))
            until(lambda: not len(server.state.connections))


def test_a_steady_upload_may_take_longer(translator_dir: Path) -> None:
    """Slow as a whole, but never slower than the rate that is allowed."""
    limits = {"transfer_seconds": 0.5, "body_rate": 1000}
    with running(translator_dir, limits=limits) as server, opened(server) as connect:
        head = "POST /detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        client = connect(f"{head}Content-Length: 5007\r\n\r\n".encode())
        for _ in range(10):
            client.sendall(b" " * 500)
            time.sleep(0.15)
        client.sendall(b'{"q":1}')
        assert read_all(client).startswith(b"HTTP/1.1 400 ")  # it was read, and 1 is no text


@pytest.mark.parametrize("kind", ["nothing", "headers", "body"])
def test_those_who_wait_make_room(translator_dir: Path, kind: str) -> None:
    with running(translator_dir, limits={"connections": 20}) as server, opened(server) as connect:
        for _ in range(100):
            connect(SLOW[kind])
        assert server.get("/health").status_code == 200
        until(lambda: len(server.state.connections) <= 20)  # a new one is counted before another makes room
        told = [message for level, message, _ in server.log if level == "warning"]
        assert told == ["too many connections (--connection-limit): those that wait are closed"]
        assert 'closed_total{reason="shed"}' in server.get("/metrics").text


def test_those_who_do_not_read_make_room(translator_dir: Path) -> None:
    with running(translator_dir, limits={"connections": 20}) as server, ExitStack() as clients:
        for _ in range(60):
            client = clients.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect(("127.0.0.1", server.port))
            client.sendall(b"GET /static/example.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        # 503 for as long as all of them are being served
        until(lambda: server.get("/health").status_code == 200, 10)  # of the 30 s that they may take to read
        until(lambda: len(server.state.connections) <= 20)  # one that is refused is counted until it is closed


def test_the_end_does_not_wait_for_slow_clients(translator_dir: Path) -> None:
    with running(translator_dir) as server, opened(server) as connect:
        for content in SLOW.values():
            connect(content)
        until(lambda: len(server.state.connections) == len(SLOW))
        server.server.should_exit = True
        server.thread.join(20)  # of the 30 s that a request may take to arrive
        assert not server.thread.is_alive()


def test_one_address_has_so_many(translator_dir: Path) -> None:
    with running(translator_dir, limits={"address_connections": 5}) as server, opened(server) as connect:
        for _ in range(10):
            connect(b"")
        until(lambda: len(server.state.connections) == 10)  # this machine may have any number
        server.state.connections.is_exempt = lambda address: False
        connect(b"")
        until(lambda: len(server.state.connections) == 10)


def test_where_all_are_served_the_next_is_refused(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(translator_dir, limits={"connections": 1}) as server, opened(server) as connect:
        connect(b"")
        until(lambda: len(server.state.connections) == 1)
        monkeypatch.setattr(connections.GuardedProtocol, "is_waiting", property(lambda self: False))
        answer = read_all(connect(b""))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1\r\n" in answer
        assert b"frame-ancestors" in answer


@pytest.mark.parametrize(
    ("content", "status"), [(b"\x16\x03\x01 no HTTP\r\n\r\n", 400), (b"GET / HTTP/1.1\r\n\r\n", 400)]
)
def test_what_is_not_http(translator_dir: Path, content: bytes, status: int) -> None:
    with running(translator_dir) as server, opened(server) as connect:
        answer = read_all(connect(content))
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"X-Content-Type-Options: nosniff" in answer


def test_endless_headers(translator_dir: Path) -> None:
    with running(translator_dir) as server, opened(server) as connect:
        client = connect(HEADERS)
        with suppress(OSError):
            client.sendall(b"x" * 2 * MAX_HEADER_BYTES)
        assert read_all(client)[:12] in (b"HTTP/1.1 431", b"HTTP/1.1 400", b"")
        until(lambda: not len(server.state.connections))


def test_trouble_with_descriptors_is_told_once(translator_dir: Path) -> None:
    with running(translator_dir) as server:
        table = server.state.connections
        for _ in range(500):
            table.handle_loop_error(
                None, {"message": "accept", "exception": OSError(errno.EMFILE, "Too many open files")}
            )
        table.handle_loop_error(None, {"message": "in a callback", "exception": ValueError("a secret text")})
        told = [(level, message) for level, message, _ in server.log if level != "info"]
        assert told == [
            ("warning", "connections cannot be accepted: Too many open files (0 are open)"),
            ("internal error", "ValueError: in a callback"),
        ]


def test_the_descriptor_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, limit: given.append(limit))
    for soft, hard, wanted in [(256, 4096, [(4096, 4096)]), (256, resource.RLIM_INFINITY, [(2**16, -1)]), (64, 64, [])]:
        monkeypatch.setattr(resource, "getrlimit", lambda what, pair=(soft, hard): pair)
        given.clear()
        raise_descriptor_limit()
        assert given == wanted
    assert count_free_descriptors() == 8  # of 64
    monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert count_free_descriptors() == 2**16


FLOOD = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
port, count, content = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3])
clients = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(count)]
for client in clients:
    try:
        client.sendall(content)
    except OSError:
        pass
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "descriptors"), [("headers", 256), ("body", 256), ("nothing", 4096)])
def test_two_thousand_slow_connections(translator_dir: Path, tmp_path: Path, kind: str, descriptors: int) -> None:
    """As a program of its own, which has few descriptors."""
    root = Path(__file__).parents[2]
    serve = f"ulimit -n {descriptors}; exec {sys.executable} -m headway serve --port 0 --device cpu --threads 1"
    command = f"{serve} --header-timeout 3s --transfer-timeout 3s --model {translator_dir}"
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        server = subprocess.Popen(["bash", "-c", command], stderr=stderr, env={**os.environ, "PYTHONPATH": str(root)})
    try:
        until(lambda: "serving http" in log.read_text(), 120)
        port = re.findall(r"http://[\d.]+:(\d+)", log.read_text())[0]
        before = len(os.listdir(f"/proc/{server.pid}/fd"))
        arguments = [sys.executable, "-c", FLOOD, port, "2000", SLOW[kind].hex()]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as flood:
            assert flood.stdout
            assert flood.stdout.readline() == "ready\n"
            for _ in range(10):
                body = {"q": "The dog sees a red house.", "source": "en", "target": "qtx"}
                assert httpx.post(f"http://127.0.0.1:{port}/translate", json=body, timeout=60).status_code == 200
            until(lambda: len(os.listdir(f"/proc/{server.pid}/fd")) <= before + 10, 60)  # they come back
            flood.communicate("")
    finally:
        server.terminate()
        server.wait(60)
    lines = [line for line in log.read_text().splitlines() if "POST " not in line]
    assert len(lines) < 12, lines[:20]
