"""POST /api/attribution: the numbers of Python, bounded, and stopped when nobody waits."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve.conftest import Running, running, until

from headway.decode.stop import check_stop
from headway.inspect.ablation import ablate
from headway.inspect.attribution import attribute, attribute_translation
from headway.translate.translator import Translator, load


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    found = load(translator_dir, "cpu")
    assert isinstance(found, Translator)
    return found


@pytest.fixture(scope="module")
def asked(served: Running, translator: Translator, sentences: list[str]) -> dict[str, Any]:
    trace = translator.trace(sentences[1])
    name = served.get("/api/models").json()[0]["name"]
    return {"model": name, "read": trace.source.ids, "written": trace.target.ids[1:]}


def test_it_has_the_numbers_of_python(
    served: Running, translator: Translator, asked: dict[str, Any], sentences: list[str]
) -> None:
    found = served.post("/api/attribution", asked).json()
    expected = attribute(translator, sentences[1])
    assert (found["rows"], found["columns"], found["units"]) == (expected.rows, expected.columns, "words")
    for name in ("gradient", "left_out", "attention", "logps"):
        np.testing.assert_allclose(found[name], getattr(expected, name), atol=1e-4)
    assert found["aligned"] == expected.aligned.tolist()  # type: ignore[union-attr]
    assert found["disagreements"] == expected.disagreements()
    parts = {"ablate": ["decoder.0.cross.head 0"], "units": "tokens"}
    without = attribute_translation(
        ablate(translator, parts["ablate"]), asked["read"], [*asked["written"], translator.special_tokens.end], "tokens"
    )
    found = served.post("/api/attribution", {**asked, **parts}).json()
    np.testing.assert_allclose(found["left_out"], without.left_out, atol=1e-4)


def test_a_language_model_has_no_words_before_its_first(served: Running) -> None:
    ids = next(
        event["ids"]
        for event in served.post("/api/read", {"q": "The dog sees a", "model": "my-lm"}).json()
        if event["event"] == "found"
    )
    found = served.post("/api/attribution", {"model": "my-lm", "written": ids, "finished": False}).json()
    assert found["columns"] == ["The", "dog", "sees"]
    assert found["left_out"][0] == found["gradient"][0] == [None] * 3
    assert None not in found["left_out"][-1]
    assert found["aligned"] is None


def test_its_size_is_bounded(served: Running, asked: dict[str, Any]) -> None:
    for side in ("read", "written"):
        status, error = served.error("/api/attribution", {**asked, side: [5] * 101})
        assert (status, error) == (
            400,
            "Invalid request: an attribution is of at most 100 tokens a side: send fewer",
        )
    assert (
        "the source or the output is empty"
        in served.error("/api/attribution", {**asked, "written": [], "finished": False})[1]
    )
    assert served.error("/api/attribution", {**asked, "units": "letters"})[0] == 400


def test_it_ends_when_its_time_is_up(
    translator_dir: Path, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: Any) -> Any:
        while True:
            check_stop()
            time.sleep(0.01)

    monkeypatch.setattr("headway.serve.routes.inspect.attribute_tokens", slow)
    with running(translator_dir, limits={"request_seconds": 0.2}) as server:
        assert server.post("/api/attribution", asked).status_code == 504
        until(lambda: server.state.open_streams == 0)
