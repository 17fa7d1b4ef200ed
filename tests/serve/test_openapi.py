"""/spec and /docs: complete, true, and without foreign requests."""

import re
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import one_of

from headway.serve import openapi
from serve.conftest import Running

CHECKS = [
    getattr(schemathesis.checks, name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
    )
]


def test_every_route_is_in_the_spec(served: Running) -> None:
    spec = served.get("/spec").json()
    assert set(spec["paths"]) == {
        "/translate", "/detect", "/suggest", "/languages", "/frontend/settings", "/health", "/translate_file",
        "/download_file/{filename}", "/api/translate", "/v1/models", "/v1/models/{name}", "/v1/completions",
        "/v1/embeddings", "/metrics",
        "/api/models", "/api/models/{name}", "/api/read", "/api/places", "/api/inside", "/api/column", "/api/layer",
        "/api/influence", "/api/vectors", "/api/attribution", "/api/score", "/api/studies", "/api/studies/{name}",
    }  # fmt: skip
    references = set(re.findall(r"'\$ref': '([^']*)'", str(spec)))
    assert references <= {f"#/components/schemas/{name}" for name in spec["components"]["schemas"]}
    body = spec["paths"]["/translate"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "application/x-www-form-urlencoded"}
    assert body["application/json"]["schema"]["required"] == ["q", "source", "target"]
    assert openapi.STATUS_DESCRIPTIONS[429] == spec["paths"]["/translate"]["post"]["responses"]["429"]["description"]


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
    monkeypatch.setattr(app, "STATIC_DIR", tmp_path)
    assert served.get("/").text == "<p>the page</p>"


def with_known_names(spec: dict[str, Any]) -> dict[str, Any]:
    """What is made up would hardly ever be a language or a model that is there, and nothing would come of it."""
    known = {"source": ["en", "auto"], "target": ["qtx"], "model": ["my-lm"], "max_tokens": [1, 8]}
    for verbs in spec["paths"].values():
        for content in verbs.get("post", {}).get("requestBody", {}).get("content", {}).values():
            properties = content["schema"]["properties"]
            properties.update({name: {"enum": known[name]} for name in known if name in properties})
    return spec


def fuzz(server: Running, examples: int) -> None:
    """Whatever fits the spec, and much that does not, gets an answer that the spec knows."""
    schema = schemathesis.openapi.from_dict(with_known_names(server.get("/spec").json()))
    quiet = settings(
        max_examples=examples, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    for operation in [result.ok() for result in schema.get_all_operations()]:
        fitting = operation.as_strategy(schemathesis.GenerationMode.POSITIVE)
        cases = [fitting]
        if operation.body or operation.path_parameters:
            cases.append(operation.as_strategy(schemathesis.GenerationMode.NEGATIVE))

        @quiet
        @seed(1)
        @given(case=one_of(cases))
        def act(case: schemathesis.Case) -> None:
            case.call_and_validate(server.url, checks=CHECKS, timeout=60)

        act()


def test_schemathesis_finds_nothing(served: Running) -> None:
    fuzz(served, 12)


@pytest.mark.slow
def test_schemathesis_finds_nothing_in_the_long_run(served: Running) -> None:
    fuzz(served, 500)


def test_a_free_search_finds_the_model_that_is_asked_for(served: Running) -> None:
    """What schemathesis makes up is hardly ever a model's name."""
    assert served.get("/v1/models/my-lm").status_code == 200
    assert served.get("/v1/models/..%2f").status_code == 404
