"""/spec and /docs: complete, true, and without foreign requests."""

import re
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from serve.conftest import Running

from headway.serve import shapes

CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.load_all_checks,
]


def test_every_route_is_in_the_spec(served: Running) -> None:
    spec = served.get("/spec").json()
    assert set(spec["paths"]) == {
        "/translate", "/detect", "/languages", "/frontend/settings", "/health", "/translate_file",
        "/download_file/{filename}", "/api/translate", "/v1/models", "/v1/models/{name}", "/v1/completions", "/metrics",
    }  # fmt: skip
    body = spec["paths"]["/translate"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "application/x-www-form-urlencoded"}
    assert body["application/json"]["schema"]["required"] == ["q", "source", "target"]
    assert shapes.WHY[429] == spec["paths"]["/translate"]["post"]["responses"]["429"]["description"]


def test_the_page_needs_nothing_from_elsewhere(served: Running) -> None:
    page = served.get("/docs").text
    assert "/v1/completions" in page
    assert "glossary" in page
    links = re.findall(r"""(?:src|href|action)=["']([^"']*)|url\(([^)]*)""", page)
    assert links == [("spec", "")]
    assert "<script" not in page
    front = served.get("/", follow_redirects=True)
    assert front.status_code == 200


def test_a_page_that_is_there_is_served(served: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from headway.serve import app

    (tmp_path / "index.html").write_text("<p>the page</p>")
    monkeypatch.setattr(app, "STATIC", tmp_path)
    assert served.get("/").text == "<p>the page</p>"


def fuzz(server: Running, examples: int) -> None:
    """Whatever fits the spec, and much that does not, gets an answer that the spec knows."""
    schema = schemathesis.openapi.from_url(f"{server.url}/spec")
    for operation in schema.get_all_operations():

        @settings(
            max_examples=examples, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @operation.ok().as_strategy_given
        def act(case: schemathesis.Case) -> None:
            case.call_and_validate(timeout=60)

        act()
