"""Security headers on every answer: pages, files, streams, errors, also those of middleware and of the protocol."""

from pathlib import Path

import pytest

from serve.conftest import Running, running

BODY = {"q": "The dog sees a red house.", "source": "en", "target": "qtx"}
PATHS = ["/", "/docs", "/spec", "/static/page.js", "/languages", "/health", "/metrics", "/nothing", "/download_file/x"]


def check(headers: "dict[str, str]", is_page: bool) -> None:
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    policy = headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert policy.startswith("default-src 'self'" if is_page else "default-src 'none'")
    assert "unsafe-eval" not in policy
    assert policy.count("unsafe-inline") == int(is_page)  # styles: never scripts


@pytest.mark.parametrize("path", PATHS)
def test_every_answer(served: Running, path: str) -> None:
    check(dict(served.get(path).headers), path in ("/", "/docs"))


def test_answers_to_post(served: Running) -> None:
    for answer in (
        served.post("/translate", BODY),
        served.post("/api/translate", BODY),  # a stream
        served.post("/translate", content=b"{", headers={"Content-Type": "application/json"}),
        served.post("/languages", BODY),  # 405
        served.post("/translate", content=b"x" * 3 * 2**20, headers={"Content-Type": "application/json"}),
        served.get("/health", headers={"Host": "evil.example"}),
    ):
        check(dict(answer.headers), False)


def test_with_cors(translator_dir: Path) -> None:
    origin = {"Origin": "https://their.site", "Access-Control-Request-Method": "POST"}
    with running(translator_dir, cors=("https://their.site",)) as server:
        import httpx

        answer = httpx.options(server.url + "/translate", headers=origin, timeout=30)
        assert answer.headers["access-control-allow-origin"] == "https://their.site"
        check(dict(answer.headers), False)
