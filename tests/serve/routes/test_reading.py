"""What the page asks of models that do not translate from left to right: forced and hidden words, labels, iterations,
two streams, influence."""

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_models import LINES, SIZES, language_model_table, translator_table, write_random_model
from serve.conftest import Running, running

from headway.inspect.recorded_answers import attach_model, record_answers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.language_model import LanguageModel
from headway.translate.options import TranslateOptions
from headway.translate.task_model import TaskModel
from headway.translate.translator import Translator, load

LANGUAGES = {"source_languages": ["en"], "target_languages": ["de"]}
TEXT = "The dog sees a red house."
NO_DECODER = {
    "d_model": 16,
    "encoder": {**SIZES, "residual": "pre", "position": "learned(64)"},
    "decoder": {"layers": 0},
}
TWO_STREAMS = {**SIZES, "residual": "post", "position": "transformer_xl(tied=false)", "streams": 2}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reading")

    def write(name: str, *given: Any, **config: Any) -> None:
        write_random_model(folder / name, *given, **config)

    short = {"search": {"max_length": 8}}
    write("causal", language_model_table(), "causal")
    write("two-streams", {"d_model": 16, "encoder": {"layers": 0}, "decoder": TWO_STREAMS}, "permutation")
    write("recurrent", language_model_table(mixer="mingru", position="none"), "causal")
    pairs = {"head": "masked(next_sentence=true)", "embedding": {"segments": 2}}
    write("masked", {**NO_DECODER, **pairs}, "masked(next_sentence=true)")
    write("classify", {**NO_DECODER, "head": "pooled(3)"}, "classify", labels=["red", "green", "blue"])
    write("tag", {**NO_DECODER, "head": "tags(2)"}, "tag", labels=["O", "B-X"])
    write("match", {**NO_DECODER, "head": "pooled(2)", "embedding": {"segments": 2}}, "match", labels=["no", "yes"])
    write("score", {**NO_DECODER, "head": "pooled(1)"}, "match")
    write("embed", {**NO_DECODER, "head": "embedding"}, "embed")
    gaps = Tokenizer.train(LINES, "bytes", sentinels=8)
    write("denoising", translator_table(), "span_corruption", gaps, **short)
    write("at-once", {**translator_table(), "predicted_length": 20}, "masked_target", **LANGUAGES)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def server(folders: dict[str, Path]) -> Iterator[Running]:
    with running(*folders.values()) as started:
        yield started


def read(server: Running, model: str, text: str = TEXT, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The events that a text begins and ends with."""
    events = server.post("/api/read", {"q": text, "model": model, **more}).json()
    by_name = {event["event"]: event for event in events}
    return by_name["sentence"], by_name["found"]


def floats(packed: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), "<f4").reshape(packed["shape"])


def test_each_kind_is_named_by_what_it_does(server: Running) -> None:
    kinds = {model["name"]: model["kind"] for model in server.get("/api/models").json()}
    assert kinds == {
        "causal": "causal", "two-streams": "causal", "recurrent": "causal", "masked": "masked", "classify": "classify",
        "tag": "tag", "match": "match", "score": "match", "embed": "embed", "denoising": "denoising",
        "at-once": "translation",
    }  # fmt: skip


def test_a_language_model_goes_on_from_another_word(server: Running, folders: dict[str, Path]) -> None:
    sentence, found = read(server, "causal", "A dog", length=6)
    prompt = sentence["forced"]
    other = [*found["ids"][: prompt + 2], 40]
    forced, again = read(server, "causal", "A dog", length=3, prefix=other)
    assert again["ids"][: len(other)] == other and forced["forced"] == len(other)
    assert len(again["ids"]) == len(other) + 3
    model = load(folders["causal"], "cpu")
    assert isinstance(model, LanguageModel)
    trace = model.trace("A dog", length=3, beam_size=1, prefix=other)
    assert (trace.written.ids, trace.output) == (again["ids"], again["text"])
    longer, _ = read(server, "causal", "A dog", length=9), None
    assert longer[1]["ids"][: len(found["ids"])] == found["ids"]  # it goes on where it was
    assert "there is no token 9999" in server.error("/api/read", {"q": "A", "model": "causal", "prefix": [9999]})[1]


def test_a_hidden_word_is_guessed(server: Running, folders: dict[str, Path]) -> None:
    model = load(folders["masked"], "cpu")
    assert isinstance(model, LanguageModel)
    sentence, _ = read(server, "masked", hidden=[3])
    expected = sentence["expected"]["ids"]
    assert sentence["ids"] == [*expected[:3], model.tokenizer.mask, *expected[4:]]
    body = {"model": "masked", "read": sentence["ids"], "expected": expected, "finished": False}
    place = server.post("/api/places", body).json()["places"][3]
    logits = model.model.logits(model.model.encode(torch.tensor([sentence["ids"]])).values)[0, 3]
    probabilities = logits.detach().softmax(-1)
    np.testing.assert_allclose(place["probabilities"], probabilities.topk(10).values.tolist(), atol=1e-5)
    assert place["probability"] == pytest.approx(float(probabilities[expected[3]]), abs=1e-5)
    output = server.post("/api/layer", {**body, "side": "encoder", "position": 3, "parts": ["output"]}).json()["output"]
    assert output["expected"] == expected[3]
    named, _ = read(server, "masked", "The [MASK] sees.")
    assert named["ids"].count(model.tokenizer.mask) == 1 and "expected" not in named
    told = server.error("/api/read", {"q": TEXT, "model": "masked", "hidden": [900]})[1]
    assert "there is no token 900 to hide" in told
    assert "guesses no hidden words" in server.error("/api/read", {"q": TEXT, "model": "tag", "hidden": [1]})[1]
    recorded = record_answers(attach_model(model.trace(TEXT, hidden=[3]), model), "masked")
    assert recorded["0 places 1"]["places"][3]["probability"] == place["probability"]


def test_two_texts_are_read_as_a_pair(server: Running, folders: dict[str, Path]) -> None:
    first, second = "A dog runs.", "It sees a cat."
    model = load(folders["masked"], "cpu")
    assert isinstance(model, LanguageModel)
    sentence, found = read(server, "masked", f"{first}\n{second}")
    assert found["prediction"]["follows"] == pytest.approx(model.follows(first, second), abs=1e-5)
    body = {"model": "masked", "read": sentence["ids"], "second": sentence["second"], "parts": ["embedding", "flow"]}
    told = server.post("/api/layer", {**body, "side": "encoder", "position": len(sentence["ids"]) - 1}).json()
    segments: Any = model.model.embeddings["encoder"].segments
    np.testing.assert_allclose(floats(told["embedding"]["segment"]), segments.weight[1].detach().numpy(), atol=1e-6)
    added = floats(told["embedding"]["row"]) * told["embedding"]["scale"] + floats(told["embedding"]["segment"])
    added = added + floats(told["embedding"]["position"])
    np.testing.assert_allclose(added, floats(told["embedding"]["embedded"]), atol=1e-5)
    pairs = load(folders["match"], "cpu")
    assert isinstance(pairs, TaskModel)
    _, found = read(server, "match", f"{first}\n{second}")
    wanted = pairs.predict([(first, second)])[0].labels
    assert [label for label, _ in found["prediction"]["labels"]] == [one.label for one in wanted]
    np.testing.assert_allclose(
        [p for _, p in found["prediction"]["labels"]], [one.probability for one in wanted], atol=1e-5
    )
    assert "write them on two lines" in server.error("/api/read", {"q": first, "model": "match"})[1]


def test_tasks_say_what_they_predict(server: Running, folders: dict[str, Path]) -> None:
    models: dict[str, Any] = {name: load(folders[name], "cpu") for name in ("classify", "tag", "score", "embed")}
    labels = read(server, "classify")[1]["prediction"]["labels"]
    wanted = models["classify"].predict([TEXT])[0].labels
    assert [label for label, _ in labels] == [one.label for one in wanted]
    np.testing.assert_allclose([p for _, p in labels], [one.probability for one in wanted], atol=1e-5)
    sentence, found = read(server, "tag")
    tagged = models["tag"].predict([TEXT])[0].words
    assert [word[:2] for word in found["prediction"]["words"]] == [[one.word, one.tag] for one in tagged]
    np.testing.assert_allclose(
        [word[2] for word in found["prediction"]["words"]], [one.probability for one in tagged], atol=1e-5
    )
    _, found = read(server, "score", "A dog.\nA cat.")
    assert found["prediction"]["score"] == pytest.approx(
        models["score"].predict([("A dog.", "A cat.")])[0].score, abs=1e-5
    )
    _, found = read(server, "embed", "A dog.\nA cat.\nA house.")
    vectors = models["embed"].embed(["A dog.", "A cat.", "A house."])
    np.testing.assert_allclose(found["prediction"]["similarity"], vectors @ vectors.T, atol=1e-4)
    asked = {"model": "tag", "read": sentence["ids"]}
    assert "scores no tokens" in server.error("/api/places", asked)[1]
    assert server.post("/api/layer", {**asked, "side": "encoder", "parts": ["output", "lens"]}).json() == {
        "output": None, "lens": None,
    }  # fmt: skip
    assert "are too many" in server.error("/api/read", {"q": "a " * 80, "model": "tag"})[1]
    without = read(server, "classify", ablate=["encoder.0"])[1]["prediction"]["labels"]
    assert sorted(label for label, _ in without) == ["blue", "green", "red"] and without != labels


def test_a_denoising_model_reads_gaps(server: Running, folders: dict[str, Path]) -> None:
    text = "The [MASK] sees the river."
    model = load(folders["denoising"], "cpu")
    assert isinstance(model, Translator)
    sentence, found = read(server, "denoising", text)
    assert model.tokenizers.source.sentinels[0] in sentence["ids"]
    assert found["text"] == model(text)
    forced, again = read(server, "denoising", text, prefix=[*found["ids"][:2], 60])
    assert again["ids"][:3] == [*found["ids"][:2], 60]
    asked = {"model": "denoising", "read": forced["ids"], "written": again["ids"], "finished": again["finished"]}
    logps = [np.log(place["probability"]) for place in server.post("/api/places", asked).json()["places"][:3]]
    np.testing.assert_allclose(forced["forced_logps"], logps, atol=1e-2)
    found_causes = server.post("/api/attribution", asked).json()
    assert len(found_causes["rows"]) == len(again["ids"]) + again["finished"]


def test_iterations_end_in_the_translation(server: Running, folders: dict[str, Path]) -> None:
    model = load(folders["at-once"], "cpu")
    assert isinstance(model, Translator)
    body = {"q": TEXT, "source": "en", "target": "de", "model": "at-once"}
    events = [json.loads(line) for line in server.post("/api/translate", body).text.splitlines()]
    assert [event["event"] for event in events] == ["start", "sentence", "found", "end"]
    sentence, found = events[1:3]
    iterations = found["iterations"]
    mask = model.tokenizers.target.mask
    count = len(found["ids"])
    assert [one["read"].count(mask) for one in iterations] == [count * (10 - n) // 10 for n in range(10)]
    assert iterations[-1]["ids"] == found["ids"]
    assert found["input"]["ids"] == [one["read"] for one in iterations if mask in one["read"]][-1]
    other = [json.loads(line) for line in server.post("/api/translate", {**body, "iteration": 1}).text.splitlines()][2]
    assert other["input"]["ids"] == iterations[1]["read"] and other["ids"] == found["ids"]
    beyond = server.post("/api/translate", {**body, "iteration": 10}).text.splitlines()
    assert "there is no iteration 10" in json.loads(beyond[-1])["error"]
    for one, after in itertools.pairwise(iterations):
        kept = [(a, b) for a, b in zip(one["ids"], after["read"]) if b != mask]
        assert all(a == b for a, b in kept)
    decoded = model.tokenizers.target.decode(found["ids"]).strip()
    assert found["text"] == decoded == model.translate([TEXT], TranslateOptions(protect=None))[0].text
    asked = {"model": "at-once", "read": sentence["ids"], "written": found["input"]["ids"], "expected": found["ids"]}
    places = server.post("/api/places", asked).json()["places"]
    masked = [place for place, token in zip(places, found["input"]["ids"]) if token == mask]
    assert masked and all(place["chosen"] is not None for place in masked)
    kind = server.post("/api/inside", {**asked, "place": "decoder.0.self"}).json()
    assert kind["weights"]["shape"][1:] == [count, count]
    for path in ("/api/score", "/api/attribution"):
        assert "writes all tokens at once" in server.error(path, asked)[1]
    assert "written is empty" in server.error("/api/places", {**asked, "written": []})[1]
    forced = server.post("/api/translate", {**body, "prefix": [40]}).text.splitlines()
    assert "cannot be given its beginning" in json.loads(forced[-1])["error"]


def test_both_streams_are_there(server: Running, folders: dict[str, Path]) -> None:
    _sentence, found = read(server, "two-streams", "A dog", length=3)
    asked = {"model": "two-streams", "written": found["ids"], "finished": False}
    inside = server.post("/api/inside", {**asked, "place": "decoder.0.query.self"}).json()
    assert {"q", "k", "v", "product", "softmax", "sum", "output"} <= set(inside["about"]["equations"])
    start = load(folders["two-streams"], "cpu").model.stacks["decoder"].query_stream.start  # type: ignore[union-attr]
    np.testing.assert_allclose(
        floats(inside["x"]), np.tile(start.detach().numpy(), (len(found["ids"]) + 1, 1)), atol=1e-6
    )
    layer = server.post("/api/layer", {**asked, "parts": ["flow", "stream", "lens", "layer"], "position": 1}).json()
    places = server.post("/api/places", asked).json()["places"]
    last = layer["lens"]["stages"][-1]
    np.testing.assert_allclose(last["probabilities"][1][0], places[1]["probabilities"][0], atol=1e-4)
    np.testing.assert_allclose(floats(layer["flow"]["starts"])[0][0], start.detach().numpy()[:8], atol=1e-6)
    column = {"model": "two-streams", "place": "decoder.1.query.self", "matrix": "q", "channel": 1}
    assert len(floats(server.post("/api/column", column).json()["column"])) == 16
    assert "no such layer" in server.error("/api/column", {**column, "model": "causal"})[1]


def test_influence_is_what_a_layer_loses_without_a_token(server: Running, folders: dict[str, Path]) -> None:
    _, found = read(server, "recurrent", "A dog", length=3)
    asked = {"model": "recurrent", "written": found["ids"], "finished": False, "place": "decoder.1.self"}
    values = floats(server.post("/api/influence", asked).json()["values"])
    model: Any = load(folders["recurrent"], "cpu")
    ids = torch.tensor([[model.special_tokens.start, *found["ids"]]])
    mixer = model.model.stacks["decoder"].blocks[1].sublayers["self"]
    lost: list[int] = []
    outputs: list[torch.Tensor] = []

    def take_out(module: Any, given: Any) -> Any:
        x = given[0].clone()
        x[:, lost] = 0
        return (x, *given[1:])

    mixer.register_forward_pre_hook(take_out)
    mixer.register_forward_hook(lambda module, given, output: outputs.append(output[0].detach()))
    for place in [[], *([n] for n in range(ids.shape[1]))]:
        lost[:] = place
        model.model.decode(ids)
    whole, *without = outputs
    wanted = torch.stack([(one - whole).norm(dim=-1) / whole.norm(dim=-1) for one in without], 1)
    np.testing.assert_allclose(values, wanted, atol=1e-5)
    assert np.triu(values, 1).max() == 0 < np.tril(values, -1).max()
    long = {**asked, "written": [5] * 200}
    assert "at most 128 tokens" in server.error("/api/influence", long)[1]
    assert "there is no mixer decoder.7.self" in server.error("/api/influence", {**asked, "place": "decoder.7.self"})[1]
