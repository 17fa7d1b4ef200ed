"""Tasks on top of an encoder: trained, saved, loaded, resumed exactly; from the encoder of another model."""

from pathlib import Path
from typing import Any

import pytest
import torch
from quick_training import PAIRS
from quick_training import QUICK as TRANSLATOR
from train.task_data import COLOURS, QUICK, SMALL, make_rows

import headway
from headway.config.config import Config, read_config
from headway.data.labelled_files import LabelledData, LabelledExample, collect_rows, is_scored
from headway.errors import ConfigError, HeadwayError
from headway.storage.model_dir import load_model, read_tensors
from headway.train.sources import TrainingFiles
from headway.train.task_dataset import find_labels
from headway.train.task_setup import complete_task_texts
from headway.translate.task_evaluation import evaluate_task
from headway.translate.task_model import TaskModel


def train(rows: Any, out: Path, task: Any, **keywords: Any) -> Any:
    options = {**QUICK, **keywords, "set": {**SMALL, **keywords.get("set", {})}}
    return headway.train(rows, out=out, task=task, **options)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("classifier") / "model"
    train(make_rows("classify"), out, "classify", steps=60)
    return out


def test_classify(classifier: Path) -> None:
    model = headway.load(classifier, device="cpu")
    assert isinstance(model, TaskModel) and model.labels == ("blue", "green", "red")
    test = collect_rows(make_rows("classify", 60, seed=2), "classify")
    scores = {score.name: score for score in evaluate_task(model, test.examples).scores}
    assert scores["accuracy"].value > 0.9 and scores["macro_f1"].low > 0.8
    first = model.predict([test.examples[0].texts[0]])[0]
    assert first.label == test.examples[0].labels[0] == first.labels[0].label
    assert sum(one.probability for one in first.labels) == pytest.approx(1)
    assert model.predict(["", " "])[1].labels == () and model.predict(["", " "])[0].label == ""
    assert [len(p.labels) for p in model.predict(["red", "blue"], top_k=2)] == [2, 2]
    card = (classifier / "README.md").read_text()
    assert "An encoder with the task classify" in card and "3: blue, green, red" in card
    assert Config.load(classifier / "config.json").labels == model.labels


def test_predictions_do_not_depend_on_others(classifier: Path) -> None:
    model = headway.load(classifier, device="cpu")
    assert isinstance(model, TaskModel)
    texts = ["a red dog", "blue " * 30, "g", "x" * 100_000]
    together, alone = model.predict(texts), [model.predict([text])[0] for text in texts]
    for one, other in zip(together, alone):
        assert one.label == other.label and one.probability == pytest.approx(other.probability, abs=1e-5)


def test_tag(tmp_path: Path) -> None:
    result = train(make_rows("tag"), tmp_path / "out", "tag", steps=40)
    model = result.model
    assert isinstance(model, TaskModel)
    found = model.predict(["7 a green boat", ["9", "a", "red", "sea horse"], ""])
    assert found[0].tags == ["O", "O", "B-C", "B-T"]
    assert [word.word for word in found[1].words] == ["9", "a", "red", "sea horse"] and found[2].words == ()
    assert result.result.task["span_f1"] > 0.9
    long = model.predict([" ".join(["7 a green boat"] * 30)])[0]  # more than it reads at once
    assert len(long.words) == 120


def test_match_labels_and_scores(tmp_path: Path) -> None:
    model = train(make_rows("match"), tmp_path / "labels", "match", steps=20).model
    assert model.labels == ("other", "same") and model.predict([("a", "b")])[0].label in model.labels
    result = train(make_rows("score"), tmp_path / "scores", "match", steps=60)
    objective = result.model.config.train.objective
    assert result.model.labels == () and 0 <= objective.low < objective.high <= 2.5
    assert result.result.task["spearman"] > 0.7
    score = result.model.predict([("900 a green boat", "the red one")])[0].score
    assert score is not None and 1 < score < 3
    with pytest.raises(HeadwayError, match="compares two texts"):
        model.predict(["one"])


def test_embed(tmp_path: Path) -> None:
    result = train(make_rows("embed"), tmp_path / "out", "embed", steps=60)
    assert result.result.task["recall@10"] > 0.5
    vectors = result.model.embed(["a red dog", "a red dog that is longer", "x"])
    torch.testing.assert_close(torch.tensor(vectors).norm(dim=1), torch.ones(3))
    torch.testing.assert_close(vectors[:1], result.model.embed(["a red dog"]), atol=1e-6, rtol=0)
    with pytest.raises(HeadwayError, match="makes vectors and has no labels"):
        result.model.predict(["x"])


@pytest.mark.parametrize("task", ["classify", "embed"])
def test_resuming_is_exact(task: Any, tmp_path: Path) -> None:
    rows, settings = make_rows(task, 60), {"train.validate_every": 3}
    whole = train(rows, tmp_path / "whole", task, steps=6, set=settings)
    train(rows, tmp_path / "halves", task, steps=3, set=settings)
    halves = train(rows, tmp_path / "halves", task, steps=6, set=settings)
    one, other = (read_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "halves"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert whole.result == halves.result
    with pytest.raises(HeadwayError, match="other training text"):
        train(rows[1:], tmp_path / "halves", task, steps=6, set=settings, valid=rows[:5])


def test_the_encoder_of_a_translator(tmp_path: Path) -> None:
    headway.train(PAIRS, out=tmp_path / "translator", languages=("en", "qtx"), **TRANSLATOR)
    before = read_tensors(tmp_path / "translator" / "model.safetensors")
    rows = make_rows("classify", 60)
    few = {"device": "cpu", "progress": False, "steps": 1, "set": {"train.schedule": "constant(0)"}}
    result = headway.train(rows, out=tmp_path / "out", task="classify", from_model=tmp_path / "translator", **few)
    after = read_tensors(tmp_path / "out" / "model.safetensors")
    assert torch.equal(after["embeddings.encoder.words.weight"], before["embeddings.decoder.words.weight"])
    stack = [name for name in before if name.startswith("stacks.encoder.")]
    assert stack and all(torch.equal(after[name], before[name]) for name in stack)
    assert not any("decoder" in name for name in after) and result.model.labels == tuple(sorted(COLOURS))
    again = headway.train(rows, out=tmp_path / "again", task="classify", from_model=tmp_path / "out", **few)
    head = read_tensors(tmp_path / "again" / "model.safetensors")["head.classify.weight"]
    assert torch.equal(head, after["head.classify.weight"])  # the same labels: the head goes on
    other = [(text, label.upper()) for text, label in rows]
    headway.train(other, out=tmp_path / "other", task="classify", from_model=tmp_path / "out", **few)
    assert load_model(tmp_path / "other").config.labels == ("BLUE", "GREEN", "RED")
    assert headway.load(again.folder).embed(["x"]).shape == (1, 16)


def test_rare_labels_weigh_more(tmp_path: Path) -> None:
    rows = [*make_rows("classify", 40), *[(f"{n} a red car", "red") for n in range(80)]]
    model = train(rows, tmp_path / "out", "classify", steps=1, set={"train.objective.balance": True}).model
    weights = dict(zip(model.labels, model.config.train.objective.weights))
    assert weights["red"] < 1 < min(weights["blue"], weights["green"])


def refused(rows: Any, task: Any, message: str, error: type[Exception] = HeadwayError, **keywords: Any) -> None:
    with pytest.raises(error, match=message):
        headway.train(rows, out="never", task=task, **{**QUICK, **keywords})


def test_data_that_cannot_be_learned() -> None:
    refused([(f"text {n}", "a") for n in range(20)], "classify", 'all .* examples have the label "a"')
    refused([("text one", f"{n}") for n in range(400)], "classify", "different labels in", valid=[("x", "1")])
    refused([(f"{n}", "b", 0.5) for n in range(20)], "match", "have the score 0.5")
    refused(make_rows("score"), "match", 'validation data the label "high"', valid=[("a", "b", "high")])
    refused(make_rows("classify"), "clasify", 'Did you mean "classify"', ConfigError)
    refused(make_rows("classify"), "classify", "task and objective were both given", ConfigError, objective="masked")


def test_warnings_of_labels() -> None:
    rows = [(f"text {n}", "ab"[n % 2]) for n in range(20)]
    texts = complete_task_texts(
        collect_rows([*rows, ("last", "once")], "classify"), collect_rows([rows[0], ("new", "unseen")], "classify")
    )
    assert [warning.partition(":")[0] for warning in texts.warnings] == [
        "1 of 2 validation examples are in the training data, too",
        'the validation data has labels that the training data has not, as "unseen" (1 in all)',
        '1 label occurs only once, as "once"',
    ]


def test_what_counts_as_a_score() -> None:
    def data(*labels: str) -> LabelledData:
        return LabelledData("match", [LabelledExample(("a", "b"), (label,)) for label in labels])

    assert is_scored(data("0.5", "1")) and is_scored(data(*map(str, range(20))))
    assert not is_scored(data("0", "1", "-1")) and not is_scored(data("0.5", "x")) and not is_scored(data("nan", "1"))
    assert find_labels(data("0", "1")) == ("0", "1")


def test_models_without_an_encoder_and_adapters_are_refused(tmp_path: Path, classifier: Path) -> None:
    text = {**TRANSLATOR, "set": {**TRANSLATOR["set"], "model.encoder.layers": 0, "train.max_tokens": 32}}
    headway.train(["some text"] * 40, out=tmp_path / "lm", **{**text, "preset": "tiny_lm", "steps": 2})
    options = {"device": "cpu", "progress": False}
    for model, lora, message in ((tmp_path / "lm", None, "without an encoder"), (classifier, 2, "task and lora")):
        with pytest.raises(ConfigError, match=message):
            headway.train(make_rows("classify"), out="never", task="classify", from_model=model, lora=lora, **options)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"data": ["a"]}, "say what to learn from it, with --task"),
        ({"task": "tag"}, "--task tag needs labelled text"),
        ({"task": "tag", "data": ["a"], "text": ["b"]}, "leave out --source"),
    ],
)
def test_options_that_exclude_each_other(files: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainingFiles(**files).check()


@pytest.mark.parametrize(
    ("model", "objective", "message"),
    [
        ({"decoder": {"layers": 1}, "head": "logits"}, "tag", '"tag" needs an encoder only'),
        ({"head": "pooled"}, "tag", 'needs the head "tags", not "pooled"'),
        ({"head": "pooled(3)"}, "classify(weights=[1.0, 2.0])", "2 weights for 3 labels"),
        ({"head": "tags"}, "masked", "a tags head predicts no tokens"),
        ({"head": "tags"}, "tag", "have many shapes"),
    ],
)
def test_configs_that_do_not_fit(model: dict[str, Any], objective: str, message: str) -> None:
    table = {"d_model": 16, "encoder": {"layers": 1, "mixer": "attention(2)"}, "decoder": {"layers": 0}, **model}
    compiled = {"compile": "on"} if "shapes" in message else {}
    with pytest.raises(ConfigError, match=message):
        read_config({"model": table, "train": {"objective": objective, **compiled}}).resolved()
