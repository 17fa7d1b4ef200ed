"""Nobody can take more than there is: large, slow, many, vanishing and malicious requests."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from event_loops import run_async

from headway.decode.stop import check_stop
from headway.errors import HeadwayError
from headway.serve.api_keys import ApiKeys
from headway.serve.settings import Limits, ServerSettings
from headway.serve.translate import run_in_time
from headway.translate import search_calls
from serve.conftest import Running, running, until

BODY = {"q": "The dog sees a red house.", "source": "en", "target": "qtx"}


class Held:
    """Translations that wait at a gate; what was translated, batch by batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate, self.batches, plain = threading.Event(), list[list[str]](), search_calls.run_calls

        def held(translator: Any, calls: Sequence[Any]) -> None:
            texts = [sentence.text for call in calls for sentence in call.sentences]
            self.batches.append(texts)
            end = time.monotonic() + 20
            while not self.gate.wait(0.01):
                assert time.monotonic() < end
                check_stop()
            if any("crash" in text for text in texts):
                raise RuntimeError("a secret text")
            plain(translator, calls)

        monkeypatch.setattr(search_calls, "run_calls", held)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    made = Held(monkeypatch)
    yield made
    made.gate.set()


def raw(server: Running, content: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    client.sendall(content)
    return client


def head(length: int, path: str = "/translate") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def test_a_body_that_is_too_large_is_refused_before_it_is_read(served: Running) -> None:
    with raw(served, head(10**12)) as client:
        assert b" 413 " in client.recv(1000)

    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * 2**16

    with suppress(httpx.HTTPError):  # the server may close while we are still sending
        assert served.post("/translate", content=pieces()).status_code == 413


def test_a_body_that_does_not_come_is_not_waited_for(translator_dir: Path) -> None:
    with running(translator_dir, limits={"transfer_seconds": 0.5}) as server, raw(server, head(100) + b"{") as client:
        assert b" 408 " in client.recv(1000)


def test_who_goes_while_sending(served: Running) -> None:
    raw(served, head(100) + b"{").close()
    until(lambda: any(fields.get("status") == 499 for _, _, fields in served.log))


def count_jobs(server: Running) -> int:
    """Requests that have been queued and not answered."""
    queues = [model.queue for model in server.state.pool.models]
    return sum(len(queue._jobs) for queue in queues if queue is not None)


def test_requests_of_many_connections_go_together(translator_dir: Path, held: Held) -> None:
    with running(translator_dir) as server, ThreadPoolExecutor(20) as pool:
        first = pool.submit(server.post, "/translate", BODY)
        until(lambda: len(held.batches) == 1)
        rest = [pool.submit(server.post, "/translate", {**BODY, "q": f"{n} dogs sleep."}) for n in range(12)]
        until(lambda: count_jobs(server) == 13)
        held.gate.set()
        assert first.result().status_code == 200
        assert all(answer.result().status_code == 200 for answer in rest)
        assert [len(batch) for batch in held.batches][:2] == [1, 12]  # and perhaps retries


def test_a_crash_hurts_nobody_else_and_tells_no_secrets(translator_dir: Path, held: Held) -> None:
    with running(translator_dir) as server, ThreadPoolExecutor(20) as pool:
        first = pool.submit(server.post, "/translate", BODY)
        until(lambda: len(held.batches) == 1)
        rest = [pool.submit(server.post, "/translate", {**BODY, "q": text}) for text in ("A dog.", "crash", "A cat.")]
        until(lambda: count_jobs(server) == 4)
        held.gate.set()
        assert first.result().status_code == 200
        assert sorted(answer.result().status_code for answer in rest) == [200, 200, 500]
        assert rest[1].result().json() == {"error": "Cannot translate text: something went wrong on the server"}
        told = [message for level, message, _ in server.log if level == "internal error"]
        assert len(told) == 1
        assert told[0].startswith("RuntimeError at test_limits.py:")
        assert server.state.pool.budget.used_tokens == 0


def test_too_much_at_once_is_told_to_wait(translator_dir: Path, held: Held) -> None:
    with running(translator_dir, limits={"queue_tokens": 25}) as server, ThreadPoolExecutor(20) as pool:
        first = pool.submit(server.post, "/translate", BODY)
        until(lambda: len(held.batches) == 1)
        second = pool.submit(server.post, "/translate", BODY)
        until(lambda: server.state.pool.budget.used_tokens > 15)
        third = server.post("/translate", BODY)
        assert third.status_code == 429
        assert third.json()["error"].startswith("Slowdown: ")
        assert 1 <= int(third.headers["retry-after"]) <= 60
        held.gate.set()
        assert {first.result().status_code, second.result().status_code} == {200}


def test_what_takes_too_long_is_given_up(translator_dir: Path, held: Held) -> None:
    with running(translator_dir, limits={"request_seconds": 0.5}) as server:
        server.state.pool.acquire(server.state.pool.models[0])  # loading is not what takes long here
        assert server.error("/translate", BODY) == (504, "the request took longer than 0.5 s. Send less at a time.")
        held.gate.set()
        until(lambda: server.state.pool.budget.used_tokens == 0)


def test_what_a_vanished_client_wanted_is_not_translated(translator_dir: Path, held: Held) -> None:
    with running(translator_dir) as server, ThreadPoolExecutor(20) as pool:
        first = pool.submit(server.post, "/translate", BODY)
        until(lambda: len(held.batches) == 1)
        before = server.state.pool.budget.used_tokens
        body = json.dumps({**BODY, "q": ["gone"] * 50}).encode()
        client = raw(server, head(len(body)) + body)
        until(lambda: server.state.pool.budget.used_tokens > before)
        client.close()
        until(lambda: server.state.pool.budget.used_tokens == before)
        held.gate.set()
        assert first.result().status_code == 200
        assert server.post("/translate", BODY).status_code == 200
        assert not any("gone" in text for batch in held.batches for text in batch)
        until(lambda: any(fields["status"] == 499 for _, _, fields in server.log if "status" in fields))


def test_what_would_outlast_a_server_that_ends_is_told_at_once(translator_dir: Path, held: Held) -> None:
    """The gate stays closed: the search ends by itself."""
    with running(translator_dir) as server, ThreadPoolExecutor(2) as pool:
        answer = pool.submit(server.error, "/translate", {**BODY, "q": ["The dog sees a red house."] * 100})
        until(lambda: len(held.batches) == 1)
        server.state.pool.stop_long_jobs(0.0)
        assert answer.result() == (503, "the server is about to end. Try again in a moment.")
        until(lambda: server.state.pool.budget.used_tokens == 0)


def test_stopping_finishes_what_is_running(translator_dir: Path, held: Held) -> None:
    with running(translator_dir) as server, ThreadPoolExecutor(2) as pool:
        answer = pool.submit(server.post, "/translate", BODY)
        until(lambda: len(held.batches) == 1)
        server.server.should_exit = True
        time.sleep(0.3)
        with pytest.raises(httpx.HTTPError):
            server.get("/health")
        held.gate.set()
        assert answer.result().status_code == 200


def test_the_log_has_a_line_a_request_and_never_the_text(translator_dir: Path) -> None:
    with running(translator_dir) as server:
        server.post("/translate", BODY)
        server.get("/nothing/at/all?q=dog")
        server.post("/detect", params={"q": "dog"})
        until(lambda: len([fields for _, _, fields in server.log if "status" in fields]) == 3)
        lines = [(message, fields) for level, message, fields in server.log if "status" in fields]
        assert [message for message, _ in lines] == ["POST /translate", "GET /nothing/at/all", "POST /detect"]
        assert lines[0][1]["texts"] == 1
        assert lines[0][1]["characters"] == len(BODY["q"])
        assert "dog" not in repr(server.log)
    with running(translator_dir, log_text=True) as server:
        server.post("/translate", BODY)
        until(lambda: BODY["q"] in repr(server.log))


def test_keys(translator_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\n\n one-key \nother\n")
    with running(translator_dir, api_keys=str(file)) as server:
        needed = (400, "Please contact the server operator to get an API key")
        assert server.error("/translate", BODY) == needed
        assert server.error("/detect", {"q": "x"}) == needed
        assert server.error("/translate", {**BODY, "api_key": "# ours"}) == (403, "Invalid API key")
        assert server.error("/translate", {**BODY, "api_key": ["one-key"]}) == needed
        assert server.post("/translate", {**BODY, "api_key": "one-key"}).status_code == 200
        assert server.post("/translate?api_key=other", BODY).status_code == 200
        assert server.post("/translate", BODY, headers={"Authorization": "Bearer other"}).status_code == 200
        for written in ("bearer other", "BEARER  other"):  # schemes have no case
            assert server.post("/translate", BODY, headers={"Authorization": written}).status_code == 200
        assert server.get("/v1/models").status_code == 401
        assert server.get("/languages").status_code == 200
        assert server.get("/frontend/settings").json()["keyRequired"] is True
        file.write_text("new-one\n")
        assert server.error("/translate", {**BODY, "api_key": "other"}) == (403, "Invalid API key")
        assert server.post("/translate", {**BODY, "api_key": "new-one"}).status_code == 200
        file.unlink()
        assert (
            server.post("/translate", {**BODY, "api_key": "new-one"}).status_code == 200
        )  # until it can be read again


@pytest.mark.parametrize(("content", "why"), [(None, "No such file"), (b"\xff\xfe", "it is not UTF-8")])
def test_keys_that_cannot_be_read(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "keys"
    if content:
        file.write_bytes(content)
    with pytest.raises(HeadwayError, match=why):
        ApiKeys(str(file))


def test_the_limit_of_a_file_is_of_the_file(translator_dir: Path) -> None:
    told = (413, "Invalid request: file exceeds 1024 bytes. Send a smaller one.")
    with running(translator_dir, limits={"file_bytes": 1024}) as server:

        def sent(size: int) -> dict[str, Any]:
            return {"data": {"source": "en", "target": "qtx"}, "files": {"file": ("a.html", b"1" * size)}}

        assert server.post("/translate_file", **sent(1024)).status_code == 200
        assert server.error("/translate_file", **sent(1025)) == told
        assert server.error("/translate_file", **sent(2**21)) == told


def test_settings_travel_to_other_processes() -> None:
    settings = ServerSettings(models=("a", "b"), cors=("*",), limits=Limits(texts=3))
    assert ServerSettings.from_json(settings.to_json()) == settings


def test_metrics(served: Running) -> None:
    served.post("/translate", BODY)
    served.get("/nothing")
    text = served.get("/metrics").text
    assert 'headway_requests_total{endpoint="/translate",method="POST",status="200"}' in text
    assert "headway_batch_texts_sum" in text
    assert 'endpoint="/nothing"' not in text  # whoever asks for many addresses makes no new counters
    httpx.request("ODD", served.url + "/")
    assert "ODD" not in served.get("/metrics").text


def test_nothing_is_asked_of_the_network(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def noting(self: socket.socket, address: Any) -> None:
        asked.append(address[0])
        return connect(self, address)

    def looking(host: Any, *arguments: Any, **more: Any) -> Any:
        asked.append(host)
        return look_up(host, *arguments, **more)

    monkeypatch.setattr(socket.socket, "connect", noting)
    monkeypatch.setattr(socket, "getaddrinfo", looking)
    with running(translator_dir) as server:
        assert server.post("/translate", {**BODY, "source": "auto"}).status_code == 200
        assert server.post("/api/translate", BODY).status_code == 200
        assert server.get("/docs").status_code == 200
    assert set(asked) == {"127.0.0.1"}


def test_a_score_is_of_the_whole_text(served: Running, sentences: list[str]) -> None:
    text = "\n".join(sentences[:40])
    body = {**BODY, "q": text, "scores": True}
    made = served.post("/translate", body).json()
    alone = [served.post("/translate", {**body, "q": line}).json()["scores"] for line in sentences[:40]]
    assert made["scores"] == pytest.approx(sum(alone), abs=0.01)


def test_in_time_tells_what_went_wrong_with_the_connection() -> None:
    async def broken() -> None:
        raise OSError("the line is dead")

    async def act() -> None:
        await run_in_time(asyncio.sleep(5), broken(), 5)

    with pytest.raises(OSError, match="the line is dead"):
        run_async(act())


def test_an_answer_that_breaks_off_is_cut_and_logged(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.serve.event_stream import EventStreamResponse

    def broken(self: Any, pipe: Any) -> None:
        raise RuntimeError("a secret text")

    monkeypatch.setattr(EventStreamResponse, "_compute", broken)
    with running(translator_dir, limits={"request_seconds": 1.0}) as server:
        with pytest.raises(httpx.HTTPError):
            server.post("/api/translate", BODY)
        until(lambda: any(fields.get("status") == 500 for _, _, fields in server.log))
        assert any(message.startswith("RuntimeError at ") for _, message, _ in server.log)
        assert server.state.open_streams == 0
