"""Who asks and whether they may: keys before bodies, limits of each client, names in log and metrics, never keys."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.serve.admission import MULTIPART_KEY, PEEKED_BYTES, find_key
from headway.serve.settings import ClientLimits
from serve.conftest import Running, running, until

BODY = {"q": "The dog sees a red house.", "source": "en", "target": "qtx"}
NO_KEY = "Please contact the server operator to get an API key"


@pytest.fixture
def keys(tmp_path: Path) -> str:
    file = tmp_path / "keys"
    file.write_text("plain-key\nanna annas-key requests=3\nben bens-key quota=60\n")
    return str(file)


def exchange(server: Running, content: bytes) -> tuple[bytes, socket.socket]:
    client = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    client.sendall(content)
    answer = b""
    while not answer.endswith(b"}"):  # of the error
        part = client.recv(65536)
        assert part, answer
        answer += part
    return answer, client


def head(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/translate", ["Content-Type: application/json", "Authorization: Bearer wrong"], 403),
        ("/translate?api_key=wrong", ["Content-Type: application/json"], 403),
        ("/translate_file", ["Content-Type: multipart/form-data; boundary=x", "X-Api-Key: wrong"], 403),
        ("/v1/completions", ["Content-Type: application/json", "Authorization: Bearer wrong"], 401),
    ],
)
def test_a_wrong_key_is_refused_before_the_body_is_there(
    translator_dir: Path, keys: str, path: str, headers: list[str], status: int
) -> None:
    with running(translator_dir, api_keys=keys) as server:
        answer, client = exchange(server, head(path, "Content-Length: 1000000", *headers))
        client.close()
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())


def test_a_body_is_not_asked_for_without_a_key(translator_dir: Path, keys: str) -> None:
    with running(translator_dir, api_keys=keys) as server:
        wrong = ["Content-Type: application/json", "Authorization: Bearer wrong", "Expect: 100-continue"]
        answer, client = exchange(server, head("/translate", "Content-Length: 100", *wrong))
        client.close()
        assert answer.startswith(b"HTTP/1.1 403 ")


def part(name: str, value: bytes, more: str = "") -> bytes:
    return f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + value + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--x--\r\n"


FILE = '; filename="a.txt"'
LANGUAGES = part("source", b"en") + part("target", b"qtx")


def upload(server: Running, content: bytes) -> httpx.Response:
    return server.post("/translate_file", content=content, headers={"Content-Type": "multipart/form-data; boundary=x"})


def test_a_file_comes_after_its_key(translator_dir: Path, keys: str) -> None:
    with running(translator_dir, api_keys=keys, limits={"file_characters": 10**6}) as server:
        small = part("file", b"The dog sees a red house.\n", FILE)
        large = part("file", b"\n" * 200_000, FILE)
        key = part("api_key", b"plain-key")
        assert upload(server, form(key, LANGUAGES, small)).status_code == 200
        assert upload(server, form(LANGUAGES, small, key)).status_code == 200  # it is all in the first bytes
        assert upload(server, form(key, LANGUAGES, large)).status_code == 200
        assert upload(server, form(LANGUAGES, small)).json() == {"error": NO_KEY}
        assert upload(server, form(part("api_key", b"wrong"), LANGUAGES, small)).status_code == 403
        begun = head("/translate_file", "Content-Type: multipart/form-data; boundary=x", "Content-Length: 9000000")
        answer, client = exchange(server, begun + LANGUAGES + part("file", b"\n" * 70_000, FILE))
        client.close()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"in api_key before the file" in answer


def test_who_sends_bodies_without_keys_is_told_to_wait(translator_dir: Path, keys: str) -> None:
    with running(translator_dir, api_keys=keys) as server:
        wrong = {**BODY, "api_key": "wrong"}
        answers = [server.post("/translate", wrong) for _ in range(31)]
        while answers[-1].status_code == 403 and len(answers) < 200:
            answers.append(server.post("/translate", wrong))
        assert {answer.status_code for answer in answers[:30]} == {403}
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) <= 2
        good = server.post("/translate", BODY, headers={"Authorization": "Bearer plain-key"})
        assert good.status_code == 200  # who has a key is not kept out by others at the same address


def test_limits_of_a_key(translator_dir: Path, keys: str) -> None:
    with running(translator_dir, api_keys=keys) as server:

        def post(key: str) -> httpx.Response:
            return server.post("/translate", {**BODY, "api_key": key})

        assert [post("annas-key").status_code for _ in range(3)] == [200] * 3
        refused = post("annas-key")
        assert refused.status_code == 429
        assert refused.json()["error"].startswith("Slowdown: the limit is 3 requests a minute")
        assert 15 <= int(refused.headers["retry-after"]) <= 20
        assert [post("bens-key").status_code for _ in range(3)] == [200, 200, 429]  # 25 characters each
        assert int(post("bens-key").headers["retry-after"]) > 60 or time.time() % 86400 > 86300
        assert post("plain-key").status_code == 200
        answer = server.post("/v1/completions", {"model": "x"}, headers={"Authorization": "Bearer annas-key"})
        assert answer.json()["error"]["type"] == "rate_limit_error"
        text = server.get("/metrics").text
        assert 'headway_client_requests_total{client="anna",status="429"} 2.0' in text
        assert 'headway_client_characters_total{client="ben"} 50.0' in text
        assert 'headway_client_quota_characters{client="ben"} 60.0' in text
        assert 'headway_client_quota_used_characters{client="ben"} 50.0' in text
        assert "-key" not in text.replace("key-1", "")


def test_limits_of_an_address(translator_dir: Path) -> None:
    with running(translator_dir, client_limits=ClientLimits(characters=60)) as server:
        assert [server.post("/translate", BODY).status_code for _ in range(3)] == [200, 200, 429]
        wait = int(server.post("/translate", BODY).headers["retry-after"])
        assert 10 <= wait <= 15
        assert server.get("/languages").status_code == server.get("/health").status_code == 200
        stream = server.post("/api/translate", BODY)
        assert stream.status_code == 429


def test_files_count_as_texts(translator_dir: Path, keys: str) -> None:
    text = b"The dog sees a red house.\n" * 4
    with running(translator_dir, api_keys=keys) as server:
        one = form(part("api_key", b"bens-key"), LANGUAGES, part("file", text, FILE))
        assert upload(server, one).status_code == 200
        assert upload(server, one).status_code == 429
        assert server.post("/translate", {**BODY, "api_key": "bens-key"}).status_code == 429


def test_requests_at_a_time(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.serve.routes import libretranslate

    async def slow(state: Any, body: Any, texts: list[str], *more: Any) -> dict[str, Any]:
        import asyncio

        await asyncio.sleep(0.5)
        return {"translatedText": ""}

    monkeypatch.setattr(libretranslate, "translate_request", slow)
    with running(translator_dir, client_limits=ClientLimits(concurrent=2)) as server, ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(server.post, "/translate", BODY) for _ in range(6)]
        assert sorted(one.result().status_code for one in answers) == [200] * 2 + [429] * 4
        assert server.post("/translate", BODY).status_code == 200  # those that were refused do not count


def test_the_log_has_names_and_never_keys(translator_dir: Path, keys: str) -> None:
    with running(translator_dir, api_keys=keys, log_text=True) as server:
        server.post("/translate", {**BODY, "api_key": "plain-key"})
        server.post("/translate?api_key=annas-key", BODY)
        server.post("/translate", BODY, headers={"Authorization": "Bearer bens-key"})
        server.post("/translate", {**BODY, "api_key": "wrong-key"})
        server.post("/translate?api_key=wrong-key", {"q": ["annas-key"]})
        server.get("/nothing%0d%0aat/all%1b[31m?api_key=annas-key")
        until(lambda: len([fields for _, _, fields in server.log if "status" in fields]) == 6)
        lines = [(message, fields) for _, message, fields in server.log if "status" in fields]
        assert [fields.get("key") for _, fields in lines] == ["key-1", "anna", "ben", None, None, None]
        assert lines[-1][0] == "GET /nothing%0D%0Aat/all%1B%5B31m"
        for secret in ("plain-key", "annas-key", "bens-key", "wrong-key"):
            assert secret not in repr(server.log)


def test_an_error_does_not_quote_the_key(translator_dir: Path, keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.serve.routes import libretranslate

    def broken(*arguments: Any) -> Any:
        raise RuntimeError("Bearer plain-key")

    monkeypatch.setattr(libretranslate, "translate_request", broken)
    with running(translator_dir, api_keys=keys, log_text=True) as server:
        server.post("/translate", BODY, headers={"Authorization": "Bearer plain-key"})
        until(lambda: any(level == "internal error" for level, _, _ in server.log))
        assert "Bearer ***" in repr(server.log)


@pytest.mark.parametrize(
    ("headers", "query", "key"),
    [
        ({"authorization": "Bearer abc"}, "", "abc"),
        ({"authorization": "bEARER   abc "}, "", "abc"),
        ({"authorization": "abc"}, "", "abc"),
        ({"authorization": "Bearer"}, "", ""),
        ({"authorization": "Basic YWJj"}, "api_key=x", "x"),  # for a proxy
        ({"authorization": "Digest a=b"}, "", ""),
        ({"x-api-key": "abc"}, "api_key=x", "abc"),
        ({}, "a=b&api_key=x%20y&api_key=z", "x y"),
        ({}, "api_key=" + "x" * 20_000, "x" * 9992),
        ({"authorization": "Bearer schlüssel"}, "", "schlüssel"),
        ({}, "", ""),
    ],
)
def test_where_a_key_is(headers: dict[str, str], query: str, key: str) -> None:
    scope = {"headers": [(a.encode(), b.encode()) for a, b in headers.items()], "query_string": query.encode()}
    assert find_key(scope) == key


def test_large_bodies_that_arrive_are_bounded_together(translator_dir: Path) -> None:
    limits = {"held_body_bytes": 300_000}
    with running(translator_dir, limits=limits) as server:
        held = []
        begun = head("/translate", "Content-Type: application/json", "Content-Length: 1000000")
        for _ in range(2):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            client.sendall(begun + b" " * 200_000)
            held.append(client)
        answers = []
        for client in held:
            client.settimeout(1)
            with suppress(TimeoutError):
                answers.append(client.recv(65536)[:12])
        assert answers == [b"HTTP/1.1 503"]
        assert server.post("/translate", BODY).status_code == 200
        for client in held:
            client.close()
        until(lambda: server.post("/detect", {"q": " " * 290_000 + "x"}).status_code == 400)  # 50,000 characters


@pytest.mark.parametrize("unit", [b"name=api_key\r\n", b"name=api_key", b'name="api_key"\r\n' + 200 * b"x" + b"\r\n"])
def test_a_form_is_searched_for_a_key_in_linear_time(unit: bytes) -> None:
    """Half a minute with a pattern that tries every beginning with every end; the event loop waits for it."""
    content = unit * (4 * PEEKED_BYTES // len(unit))
    began = time.process_time()
    assert MULTIPART_KEY.search(content) is None
    assert time.process_time() - began < 2


def test_addresses_that_fail_do_not_clear_what_a_key_has_used(
    translator_dir: Path, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.serve.rate_limits.MAX_CLIENTS", 2)
    with running(translator_dir, api_keys=keys, trusted_proxies=("127.0.0.1",)) as server:
        ben = {"Authorization": "Bearer bens-key"}
        assert server.post("/translate", {**BODY, "q": "x" * 60}, headers=ben).status_code == 200
        for number in range(5):
            response = server.post("/translate", BODY, headers={"X-Forwarded-For": f"203.0.113.{number}"})
            assert response.status_code == 400
        assert server.post("/translate", BODY, headers=ben).status_code == 429


def test_forms_that_were_read_in_vain_are_counted(translator_dir: Path, keys: str) -> None:
    with running(translator_dir, api_keys=keys) as server:
        content = form(part("api_key", b"wrong"), part("file", 70_000 * b"x", FILE))
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        answers: list[int] = []
        while 429 not in answers and len(answers) < 300:  # one is forgotten every two seconds
            answers.append(server.post("/translate_file", content=content, headers=kind).status_code)
        assert answers[:30] == [403] * 30
        assert {*answers[30:-1]} <= {403}
        assert answers[-1] == 429
