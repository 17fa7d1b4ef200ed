"""Requests that switch parts of a model off: their own answers, and nobody else's."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from serve.conftest import Running

from headway.inspect.ablation import ablate
from headway.inspect.trace import Trace
from headway.serve.schemas import MAX_ABLATED_PARTS
from headway.translate.translator import Translator, load

PARTS = ["decoder.0.cross.head 1", "encoder.0.feedforward"]


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    found = load(translator_dir, "cpu")
    assert isinstance(found, Translator)
    return found


@pytest.fixture(scope="module")
def trace(translator: Translator, sentences: list[str]) -> Trace:
    return ablate(translator, PARTS).trace(sentences[0])


def streamed(served: Running, text: str, parts: list[str]) -> dict[str, Any]:
    body = {"q": text, "source": "en", "target": "qtx", "ablate": parts, "attention": False}
    events = [json.loads(line) for line in served.post("/api/translate", body).text.splitlines()]
    return next(event for event in events if event["event"] in ("found", "error"))


def test_a_request_without_a_part_is_alone(
    served: Running, translator: Translator, trace: Trace, sentences: list[str]
) -> None:
    """While others ask the same model with all of its parts."""
    plain = translator.trace(sentences[0])
    assert trace.found[0].score != pytest.approx(plain.found[0].score, abs=1e-2)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda n: streamed(served, sentences[0], PARTS if n % 2 else []), range(12)))
    for number, answer in enumerate(found):
        expected = trace if number % 2 else plain
        assert answer["score"] == pytest.approx(expected.found[0].score, abs=1e-4)
        assert answer["ids"] == expected.target.ids[1:]
    assert served.post("/translate", {"q": sentences[0], "source": "en", "target": "qtx"}).json() == {
        "translatedText": translator(sentences[0])
    }


def test_the_other_routes_switch_the_same_off(served: Running, trace: Trace) -> None:
    asked = {"model": served.get("/api/models").json()[0]["name"], "read": trace.source.ids}
    asked |= {"written": trace.target.ids[1:], "ablate": PARTS}
    found = served.post("/api/places", asked).json()["places"]
    for place, logps, token in zip(found, trace.tensors["output.logps"], trace.written.ids, strict=True):
        assert place["probability"] == pytest.approx(float(logps[token].exp()), abs=1e-4)
    read = {"q": "The dog", "model": "my-lm", "length": 3, "beam_size": 1}
    scores = [served.post("/api/read", {**read, "ablate": parts}).json()[-2]["score"] for parts in ([], ["decoder.0"])]
    assert scores[0] != scores[1]


def test_parts_that_are_not_there_and_too_many(served: Running, sentences: list[str]) -> None:
    assert "the decoder has the layers 0 to 0" in streamed(served, sentences[0], ["decoder.7"])["error"]
    asked = {"model": "my-lm", "written": [5, 6]}
    assert served.error("/api/places", {**asked, "ablate": ["encoder.0"]}) == (
        400,
        "Invalid request: there is no encoder.0: this model has no encoder, only its decoder.",
    )
    assert served.error("/api/places", {**asked, "ablate": ["model"]})[0] == 400
    assert served.error("/api/places", {**asked, "ablate": ["decoder.0"] * (MAX_ABLATED_PARTS + 1)})[0] == 400
