"""What the page asks beside the stream, against the traces of the same models."""

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_models import translator_table, write_random_model
from serve.conftest import Running, running, until

from headway.inspect.layers import read_layer
from headway.inspect.model_summary import summarise_blocks
from headway.inspect.recorded_answers import attach_model, record_answers
from headway.inspect.trace import Trace
from headway.translate.translator import Translator, load


@pytest.fixture(scope="session")
def guessing(masked_dir: Path) -> Iterator[Running]:
    with running(masked_dir) as server:
        yield server


@pytest.fixture(scope="session")
def translator(translator_dir: Path) -> Translator:
    found = load(translator_dir, "cpu")
    assert isinstance(found, Translator)
    return found


@pytest.fixture(scope="session")
def trace(translator: Translator, sentences: list[str]) -> Trace:
    return translator.trace(sentences[0])


@pytest.fixture(scope="session")
def asked(served: Running, trace: Trace) -> dict[str, Any]:
    name = served.get("/api/models").json()[0]["name"]
    return {"model": name, "read": trace.source.ids, "written": trace.target.ids[1:]}


def floats(packed: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])


def test_models_and_how_they_are_made(served: Running, asked: dict[str, Any], translator: Translator) -> None:
    first, second = served.get("/api/models").json()
    assert (first["kind"], first["pairs"], second["kind"]) == ("translation", [["en", "qtx"]], "causal")
    made = served.get(f"/api/models/{first['name']}?source=7&target=5").json()
    config = translator.config.model
    assert made["parameters"] == sum(block["parameters"] for block in made["blocks"]) == config.parameter_count()
    assert made["flops"] == sum(block["flops"] for block in made["blocks"]) == config.forward_flops(7, 5)
    assert made["blocks"][0]["name"] == "embedding"
    assert made["label_smoothing"] == translator.config.train.label_smoothing
    assert served.get("/api/models/nobody").status_code == 404


def test_blocks_of_variants_have_all_parameters() -> None:
    from headway.config.config import read_config

    for changes in (
        {"encoder": {"layers": 0}},
        {"decoder": {"mixer": ["retention"], "position": ["none"]}, "encoder": {"layers": 0}},
        {"encoder": {"feedforward": ["moe(4)"]}, "decoder": {"position": ["t5"]}},
        {"norm": "rmsnorm", "encoder": {"position": ["alibi"]}, "decoder": {"residual": "post"}},
    ):
        alone = changes.get("encoder", {}).get("layers") == 0
        train = {"train": {"objective": "causal"}} if alone else {}
        config = read_config({**train, "model": {"d_model": 32, "vocabulary": 50, **changes}}).model
        found = summarise_blocks(config, 6, 4)
        assert sum(block.parameters for block in found) == config.parameter_count(), changes
        assert sum(block.flops for block in found) == config.forward_flops(6, 4), changes


@pytest.mark.parametrize("place", ["encoder.0.self", "decoder.0.self", "decoder.0.cross"])
def test_a_place_has_the_numbers_of_the_trace(served: Running, asked: dict[str, Any], trace: Trace, place: str) -> None:
    found = served.post("/api/inside", {**asked, "place": place}).json()
    for name in ("q", "k", "v", "scores", "weights", "output"):
        np.testing.assert_allclose(floats(found[name]), trace.tensors[f"{place}.{name}"].numpy(), atol=1e-4)
    side, _, sub = place.split(".")
    x = f"{side}.embedded" if sub == "self" else f"{side}.0.self.stream"
    np.testing.assert_allclose(floats(found["x"]), trace.tensors[x].numpy(), atol=1e-4)
    asked_column = {"model": asked["model"], "place": place, "matrix": "o", "channel": 3}
    column = served.post("/api/column", asked_column).json()
    computed = floats(found["joined"]) @ floats(column["column"]) + column["bias"]
    rounds = found["about"]["rounds"]  # a model in int8, whose inputs have 8 bits
    np.testing.assert_allclose(computed, floats(found["output"])[:, 3], atol=0.05 if rounds else 1e-4)
    last = found["about"]["heads"] - 1
    one = served.post("/api/inside", {**asked, "place": place, "head": last}).json()
    np.testing.assert_allclose(floats(one["q"])[0], floats(found["q"])[last], atol=1e-4)


def test_places_have_the_probabilities_of_the_trace(served: Running, asked: dict[str, Any], trace: Trace) -> None:
    found = served.post("/api/places", {**asked, "top": 3}).json()["places"]
    assert [place["chosen"] for place in found] == trace.written.ids
    for place, logps in zip(found, trace.tensors["output.logps"], strict=True):
        np.testing.assert_allclose(place["probabilities"], logps.exp().topk(3).values, atol=1e-4)
        assert place["rank"] == int((logps > logps[place["chosen"]]).sum()) + 1
    cold = served.post("/api/places", {**asked, "temperature": 0.1}).json()["places"]
    assert all(c["probabilities"][0] >= w["probabilities"][0] - 1e-6 for c, w in zip(cold, found))


def test_vectors(served: Running, asked: dict[str, Any], trace: Trace) -> None:
    found = served.post("/api/vectors", asked).json()
    for side, count in (("encoder", len(trace.source.ids)), ("decoder", len(trace.target.ids))):
        assert found[side]["stages"] == [f"{side}.embedded", f"{side}.0.feedforward.stream"]
        assert np.array(found[side]["places"]).shape == (2, count, 2)
        assert all(abs(cosine) <= 1 for row in found[side]["neighbours"] for _, cosine in row)
        assert found[side]["positions"][0]["kind"] == "sinusoidal"


def test_a_layer_has_the_numbers_of_python(
    served: Running, asked: dict[str, Any], trace: Trace, translator: Translator
) -> None:
    """Every part, against the functions for Python users; those are held to the weights in tests/inspect."""
    model, tensors = translator.steppers[0].model, trace.tensors
    parts = ["flow", "stream", "embedding", "layer", "end", "output", "lens"]
    found = served.post("/api/layer", {**asked, "parts": parts, "position": 2, "top": 3}).json()
    assert list(found) == parts
    flow, stages = found["flow"], [name for name in tensors if name.endswith(".stream") and name.startswith("decoder")]
    added = [n for n, kind in enumerate(flow["kinds"]) if kind == "add"]
    assert [flow["names"][n] for n in added] == [name.replace(".stream", ".add") for name in stages]
    assert flow["ids"] == trace.target.ids
    for n, name in zip(added, stages):
        np.testing.assert_allclose(floats(flow["lengths"])[n], tensors[name].norm(dim=-1), atol=1e-4)
        np.testing.assert_allclose(floats(flow["starts"])[n], tensors[name][:, :8], atol=1e-4)
    said = tensors["output.logps"].exp().topk(3)
    assert flow["said"]["ids"] == said.indices.tolist()
    np.testing.assert_allclose(flow["said"]["probabilities"], said.values, atol=1e-4)
    np.testing.assert_allclose(np.array(flow["said"]["logits"])[2], found["output"]["logits"][:3], atol=1e-3)
    assert found["stream"]["names"][:2] == ["decoder.embedded", "decoder.0.self"]
    np.testing.assert_allclose(floats(found["stream"]["lengths"])[0], tensors["decoder.embedded.norm"], atol=1e-4)
    assert found["embedding"]["token"] == trace.target.ids[2]
    np.testing.assert_allclose(floats(found["embedding"]["embedded"]), tensors["decoder.embedded"][2], atol=1e-4)
    for name, numbers in read_layer(model, tensors, "decoder", 0, 2).items():
        sent = found["layer"]["sublayers"][name]
        assert (sent["kind"], sent["norm_place"]) == (numbers.kind, "before")
        np.testing.assert_allclose(floats(sent["sum"]), numbers.sum, atol=1e-4)
        assert numbers.norm is not None
        assert numbers.norm.mean is not None
        np.testing.assert_allclose(floats(sent["norm"]["mean"]), numbers.norm.mean, atol=1e-4)
    neurons = found["layer"]["neurons"]
    first = {"neuron": neurons["ids"][0], "parts": ["neuron"]}
    assert served.post("/api/layer", {**asked, **first}).json()["neuron"]["values"] == pytest.approx(
        neurons["tokens"][0], abs=1e-5
    )
    assert neurons["tokens"][0][2] == pytest.approx(neurons["values"][0], abs=1e-5)
    assert found["layer"]["router"] is None
    logps = tensors["output.logps"]
    np.testing.assert_allclose(found["output"]["probabilities"][:3], logps[2].exp().topk(3).values, atol=1e-4)
    assert found["output"]["surprise"] == pytest.approx(-float(logps[2, trace.written.ids[2]]), abs=1e-4)
    last = found["lens"]["stages"][-1]
    np.testing.assert_allclose(last["probabilities"], logps.exp().topk(3).values, atol=1e-4)
    np.testing.assert_allclose(last["expected"], logps.exp()[range(len(logps)), trace.written.ids], atol=1e-4)
    assert last["pieces"][2] == translator.tokenizers.target.pieces(last["ids"][2])
    encoder = {**asked, "side": "encoder", "parts": parts}
    told = served.post("/api/layer", encoder).json()
    assert (told["output"], told["lens"], told["flow"]["said"]) == (None, None, None)


def test_experts_and_tables_that_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = translator_table(feedforward="moe(3, 2, 'relu(8)')")
    write_random_model(tmp_path / "m", table, source_languages=["en"], target_languages=["de"])
    body = {"model": "m", "read": [9, 8, 7, 6], "side": "encoder", "position": 3, "layer": 1, "parts": ["layer"]}
    with running(tmp_path / "m") as server:
        found = server.post("/api/layer", body).json()["layer"]
        router = found["router"]
        probabilities = floats(router["probabilities"])
        assert probabilities.shape == (4, 3)
        np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
        assert router["chosen"] == (-probabilities).argsort(1)[:, :2].tolist()
        assert found["neurons"]["expert"] == router["chosen"][3][0]
        other = 3 - sum(router["chosen"][3])  # which this token does not go to
        assert server.post("/api/layer", {**body, "expert": other}).json()["layer"]["neurons"] is None
        assert "no expert 9" in server.error("/api/layer", {**body, "expert": 9})[1]
        assert "token 99999 is not in" in server.error("/api/layer", {**body, "expected": [99999]})[1]
        monkeypatch.setattr("headway.inspect.layer_answers.MAX_CELLS", 6)
        cut = server.post("/api/layer", body).json()["layer"]["router"]
        assert (cut["first"], floats(cut["probabilities"]).shape) == (2, (2, 3))


def test_a_page_without_a_server_has_the_answers_of_the_server(
    served: Running, asked: dict[str, Any], trace: Trace, translator: Translator
) -> None:
    recorded = record_answers(attach_model(trace, translator), asked["model"])
    listed = served.get(f"/api/models/{asked['model']}").json()["recorded"]
    wanted = {"model", "0 costs", *(f"0 {name}" for name, _, _ in listed)}
    assert wanted <= recorded.keys()
    assert all(name.startswith("0 column ") for name in recorded.keys() - wanted)  # of the head that the page opens
    for name, path, body in listed:
        assert_alike(served.post(f"/{path}", {**asked, **body}).json(), recorded[f"0 {name}"])


def assert_alike(found: Any, wanted: Any) -> None:
    """The same, but for the last digits of numbers."""
    if isinstance(wanted, dict) and wanted.get("dtype") == "float32":
        np.testing.assert_allclose(floats(found), floats(wanted), atol=1e-4)
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name in wanted:
            assert_alike(found[name], wanted[name])
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted):
            assert_alike(one, other)
    else:
        assert found == (pytest.approx(wanted, abs=1e-3) if isinstance(wanted, float) else wanted)


def test_a_language_model_is_read(served: Running) -> None:
    events = served.post("/api/read", {"q": "The dog", "model": "my-lm", "length": 4}).json()
    assert [event["event"] for event in events][:2] == ["start", "sentence"]
    found = next(event for event in events if event["event"] == "found")
    assert list(found["tensors"])
    assert events[-1]["event"] == "end"
    asked = {"model": "my-lm", "written": found["ids"]}
    lens = served.post("/api/layer", {**asked, "parts": ["lens"], "finished": False}).json()["lens"]["stages"]
    assert [len(lens[0]["ranks"]), lens[-1]["ranks"][-1]] == [len(found["ids"]) + 1, 0]  # what follows is unknown
    assert served.post("/api/vectors", asked).json().keys() == {"decoder"}
    assert len(served.post("/api/places", asked).json()["places"]) == len(found["ids"]) + 1
    assert served.post("/api/read", {"q": "The dog", "model": "my-lm"}).json()[-1]["text"] == "The dog"


def test_a_model_that_guesses_words_is_read(guessing: Running) -> None:
    name = guessing.get("/api/models").json()[0]["name"]
    events = guessing.post("/api/read", {"q": "The dog", "model": name}).json()
    assert [event["event"] for event in events] == ["start", "sentence", "found", "end"]
    asked = {"model": name, "read": events[1]["ids"]}
    output = guessing.post("/api/layer", {**asked, "side": "encoder", "position": 1, "parts": ["output"]}).json()
    assert output["output"]["expected"] == asked["read"][1]
    assert guessing.error("/api/layer", {**asked, "parts": ["end"]})[1] == "Invalid request: this model has no decoder"
    assert [place["chosen"] for place in guessing.post("/api/places", asked).json()["places"]] == asked["read"]
    assert guessing.post("/api/vectors", asked).json().keys() == {"encoder"}


def test_what_cannot_be_answered_is_said(served: Running, asked: dict[str, Any]) -> None:
    assert served.error("/api/read", {"q": "x", "model": asked["model"]})[1].endswith(
        "is a translation model: use /api/translate"
    )
    assert served.error("/api/places", {**asked, "model": "nobody"}) == (404, "there is no model nobody")
    assert "is not in this model's vocabulary" in served.error("/api/places", {**asked, "written": [999999]})[1]
    assert "tokens are too many" in served.error("/api/places", {**asked, "read": [5] * 1000})[1]
    assert served.error("/api/places", {**asked, "read": []})[1].endswith(
        "read is empty: send the token ids of the source"
    )
    assert served.error("/api/inside", {**asked, "place": "../x"})[0] == 400
    for change, told in (
        ({"parts": ["weather"]}, "must be 'flow', 'stream'"),
        ({"parts": []}, "parts parameter"),
        ({"parts": ["layer"], "layer": 5}, "there is no layer 5 in the decoder: it has 1"),
        ({"parts": ["end"], "position": 4000}, "there is no token 4000"),
        ({"parts": ["output"], "position": 4000}, "there is no token 4000"),
        ({"parts": ["lens"], "top": 51}, "must be <= 50"),
        ({"parts": ["neuron"], "neuron": 999_999}, "there is no neuron 999999"),
        ({"parts": ["neuron"], "layer": 194}, "there are no neurons at decoder.194.feedforward"),
    ):
        status, error = served.error("/api/layer", {**asked, **change})
        assert (status, told in error) == (400, True), error
    for place in ("encoder.77.self", "decoder.99.cross", "encoder.0.cross"):
        told = f"Invalid request: there is no such layer in this model: {place}"
        assert served.error("/api/inside", {**asked, "place": place}) == (400, told)
        assert served.error("/api/column", {"model": asked["model"], "place": place, "matrix": "q"}) == (400, told)
    assert served.error("/api/inside", {**asked, "place": "decoder.0.self", "head": 99})[0] == 400


def test_a_prefix_of_tokens_is_kept_as_it_is(served: Running, trace: Trace, sentences: list[str]) -> None:
    import json

    body = {"q": sentences[0], "source": "en", "target": "qtx", "prefix": [*trace.target.ids[1:3], 40]}
    events = [json.loads(line) for line in served.post("/api/translate", body).text.splitlines()]
    found = next(event for event in events if event["event"] == "found")
    assert found["ids"][:3] == body["prefix"]
    events = [json.loads(line) for line in served.post("/api/translate", {**body, "prefix": [9999]}).text.splitlines()]
    assert "there is no token 9999" in events[-1]["error"]


def test_work_counts_until_its_thread_ends(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the time is up or the client has left: otherwise those who leave could occupy all threads."""
    may_end = threading.Event()

    def describe(*_: Any) -> dict[str, Any]:
        may_end.wait(30)
        return {}

    monkeypatch.setattr("headway.serve.routes.inspect.describe_served_model", describe)
    with running(translator_dir, limits={"request_seconds": 0.2, "streams": 2}) as server:
        path = f"/api/models/{translator_dir.name}"
        try:
            assert [server.get(path).status_code for _ in range(3)] == [504, 504, 429]
            assert server.state.open_streams == 2
        finally:
            may_end.set()
        until(lambda: server.state.open_streams == 0)
        assert server.state.memory.reserved_bytes == 0
        assert server.get(path).status_code == 200
