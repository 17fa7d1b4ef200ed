"""Questions about documents, over HTTP: the steps of an answer, as one JSON object a line."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answering.manual import make_index
from serve.conftest import Running, running

from headway.answering.passage_index import build_passage_index


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("answers")
    make_index(made)
    return made


@pytest.fixture(scope="module")
def asked(folder: Path) -> Iterator[Running]:
    with running(index=str(folder / "index")) as server:
        yield server


def events_of(server: Running, **body: Any) -> list[dict[str, Any]]:
    response = server.post("/api/answer", body)
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def test_every_step_is_an_event(asked: Running) -> None:
    assert asked.get("/api/index").json() == {"documents": 3, "passages": 5, "vectors": False, "models": []}
    found = events_of(asked, q="Which port?", sentences=1)
    assert [one["event"] for one in found] == ["search", "passages", "quotes", "answer"]
    assert found[-1]["text"] == "The server listens on port 5000. [1]"
    assert found[-1]["sources"][0]["place"] == "docs/server.md:8"
    assert events_of(asked, q="xyzzy")[-1]["sentences"] == []


def test_what_cannot_be_answered_is_refused(asked: Running, folder: Path) -> None:
    assert asked.error("/api/answer", {"q": "x" * 3000})[0] in (400, 413)
    assert asked.error("/api/answer", {"q": "x", "passages": 1000})[0] == 400
    assert asked.error("/api/answer", {"q": "x", "model": "none"}) == (404, "there is no language model none")
    [*_, last] = events_of(asked, q="port", retrieval="dense")
    assert last["event"] == "error" and "the index has no vectors" in last["error"] and str(folder) not in last["error"]
    assert events_of(asked, q="?!") == [{"event": "error", "error": "the question has no words. Ask something."}]


def test_another_index_is_opened_and_a_damaged_one_told(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "index", tmp_path / "index")
    (tmp_path / "new.txt").write_text("The port is painted green.\n")
    with running(index=str(tmp_path / "index")) as server:
        build_passage_index([tmp_path / "new.txt"], tmp_path / "index", overwrite=True)
        assert "painted green" in events_of(server, q="Which port?")[-1]["text"]
        (tmp_path / "index" / "index.json").write_text("{")
        [only] = events_of(server, q="Which port?")
        assert only["event"] == "error" and only["error"].startswith("the index is being built")
