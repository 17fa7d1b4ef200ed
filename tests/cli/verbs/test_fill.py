"""headway fill: masked words, and a BERT trained from documents to the last verb."""

import io
import json
import sys
from pathlib import Path

import pytest
import torch

import headway
from headway.cli.app import main
from headway.data.toy import toy_corpus
from headway.storage.model_dir import load_model
from headway.train.checkpoints import list_checkpoints
from headway.train.history import read_history
from headway.translate.language_model import LanguageModel

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: str, code: int = 0) -> tuple[str, str]:
    assert main(list(words)) == code
    return capsys.readouterr()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each document repeats one sentence, so that what follows is easily told."""
    folder = tmp_path_factory.mktemp("documents")
    sentences = [pair.source for pair in toy_corpus(60)]
    for name, part in (("train", sentences[:40]), ("valid", sentences[40:])):
        (folder / f"{name}.txt").write_text("\n\n".join(" ".join([line] * 4) for line in part) + "\n")
    return folder


def words(documents: Path, out: Path, *more: str) -> list[str]:
    sizes = {
        "model.d_model": "32",
        "model.dropout": "0",
        "model.encoder.mixer": "attention(4)",
        "model.encoder.feedforward": "gelu(64)",
        "tokenizer.size": "384",
        "train.max_tokens": "48",
        "train.batch_tokens": "512",
        "train.schedule": "constant(0.005, warmup=20)",
        "train.validate_every": "20",
        "train.objective.unit": "words",
        "train.log_every": "20",
        "train.keep_last": "9",
    }
    settings = [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    files = ["--text", str(documents / "train.txt"), "--valid-text", str(documents / "valid.txt")]
    return ["train", *files, "--preset", "bert-tiny", *settings, "--out", str(out), *more]


@pytest.fixture(scope="module")
def bert_dir(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bert") / "model"
    assert main(words(documents, out, "--steps", "60")) == 0
    return out


def test_both_heads_learn_and_are_reported(capsys: Capture, bert_dir: Path, documents: Path) -> None:
    history = read_history(bert_dir)
    steps = [entry for entry in history if entry["kind"] == "step"]
    assert {"cross_entropy", "next_sentence", "next_sentence_accuracy"} <= steps[0].keys()
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.5
    last = [entry for entry in history if entry["kind"] == "validation"][-1]
    assert 0 < last["accuracy"] < 1
    assert last["next_sentence_loss"] > 0 and 0 <= last["next_sentence_accuracy"] <= 1
    out, _ = run(capsys, "evaluate", "--model", str(bert_dir), "--text", str(documents / "valid.txt"))
    measured = headway.load(bert_dir).perplexity((documents / "valid.txt").read_text())
    assert f"{measured.tokens:,} hidden tokens, {measured.accuracy:.2%} of them guessed)" in out
    assert f"next sentence: {measured.next_sentence_accuracy:.2%} of {measured.pairs} pairs right" in out
    no_documents = " ".join((documents / "valid.txt").read_text().split())
    plain = headway.load(bert_dir).perplexity(no_documents)
    assert plain.next_sentence_accuracy is None and plain.accuracy is not None


def test_a_resumed_run_is_the_same(documents: Path, bert_dir: Path, tmp_path: Path) -> None:
    for steps in ("25", "60"):
        assert main(words(documents, tmp_path / "x", "--steps", steps)) == 0
    assert main([*words(documents, tmp_path / "x", "--steps", "60"), "--allow-changes"]) == 0
    ours, whole = (list_checkpoints(folder)[-1] for folder in (tmp_path / "x", bert_dir))
    assert ours.step == whole.step == 60
    for name, value in whole.weights.items():
        assert torch.equal(ours.weights[name], value), name


def test_words_are_guessed(capsys: Capture, bert_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = headway.load(bert_dir)
    assert isinstance(model, LanguageModel)
    text = "The [MASK] sees a red [MASK]."
    found = model.fill(text, 3)
    out, err = run(capsys, "fill", "--model", str(bert_dir), "-k", "3", text)
    assert (out.splitlines()[0], err) == (text, "")
    assert out.splitlines()[1] == "mask 1:" and out.splitlines()[5] == "mask 2:"
    assert out.splitlines()[2] == f"{found[0][0].probability:8.2%}  {found[0][0].text.strip()}"
    lines = f"{text}\nA [MASK] sleeps.\n"
    with io.TextIOWrapper(io.BytesIO(lines.encode()), encoding="utf-8") as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        out, _ = run(capsys, "fill", "--model", str(bert_dir), "--json")
    first, second = map(json.loads, out.splitlines())
    assert first["text"] == text and [len(mask) for mask in first["masks"]] == [5, 5]
    assert [word["text"] for word in first["masks"][0][:3]] == [word.text for word in found[0]]
    assert first["masks"][0][0]["probability"] == pytest.approx(found[0][0].probability, abs=1e-6)
    assert len(second["masks"]) == 1
    one, _ = run(capsys, "fill", "--model", str(bert_dir), "-k", "2", "A [MASK] sleeps.", "A [MASK].")
    assert [len(part.splitlines()) for part in one.split("\n\n")] == [3, 3]
    assert 0 <= model.follows("The dog sleeps.", "The dog sleeps.") <= 1


def test_int8(capsys: Capture, bert_dir: Path, documents: Path, tmp_path: Path) -> None:
    """A quarter of the matrices' size, and nearly the same guesses."""
    run(capsys, "pack", "--model", str(bert_dir), "--out", str(tmp_path / "small"), "--int8")
    small, whole = headway.load(tmp_path / "small"), headway.load(bert_dir)
    text = (documents / "valid.txt").read_text()
    assert "engine torch, int8, cpu" in repr(small) and "int8" not in repr(whole)
    assert small.perplexity(text).loss == pytest.approx(whole.perplexity(text).loss, rel=0.02)
    assert small.perplexity(text).loss != headway.load(tmp_path / "small", compute="float32").perplexity(text).loss
    asked = headway.load(bert_dir, compute="int8").perplexity(text)  # whose embeddings are in float
    assert asked.loss == pytest.approx(small.perplexity(text).loss, rel=0.01)
    out, _ = run(
        capsys, "evaluate", "--model", str(bert_dir), "--text", str(documents / "valid.txt"), "--compute", "int8"
    )
    assert f"{asked.loss:.4f} nats a token" in out
    assert small.follows("A dog.", "A cat.") == pytest.approx(whole.follows("A dog.", "A cat."), abs=0.1)
    [[ours]], [[theirs]] = small.fill("A [MASK] sleeps.", 1), whole.fill("A [MASK] sleeps.", 1)
    assert ours.probability == pytest.approx(theirs.probability, rel=0.1)


def test_what_cannot_be_filled_is_refused(
    capsys: Capture, bert_dir: Path, lm_dir: Path, translator_dir: Path, documents: Path, tmp_path: Path
) -> None:
    for model, text, message in (
        (lm_dir, "a [MASK]", "error: this model guesses no masked words: its head is not"),
        (translator_dir, "a [MASK]", f"error: {translator_dir} is a translator, which guesses no masked words."),
        (bert_dir, "a dog", "error: there is nothing to guess in this text: write [MASK] where a word is missing."),
    ):
        out, err = run(capsys, "fill", "--model", str(model), text, code=1)
        assert out == "" and err.startswith(message)
    out, err = run(capsys, "fill", "--model", str(bert_dir), "a [MASK]", "a dog", code=1)
    assert out and err.startswith("error: line 2: there is nothing to guess")
    assert "not both" in run(capsys, "fill", "--model", str(bert_dir), "-i", "x", "a", code=2)[1]
    with pytest.raises(
        headway.HeadwayError, match="does not tell whether a text follows another. Train one with --pre"
    ):
        headway.load(lm_dir).follows("a", "b")
    (tmp_path / "one.txt").write_text("One sentence. And another.\n" * 50)
    training = words(documents, tmp_path / "x", "--steps", "1")
    training[2] = str(tmp_path / "one.txt")
    _, err = run(capsys, *training, code=1)
    assert "next sentences cannot be learned from this text: it has 1 document, and half of the pairs need" in err
    _, err = run(capsys, *words(documents, tmp_path / "x", "--set", "model.head=masked", "--steps", "1"), code=2)
    assert "next sentences need a head that scores them" in err
    _, err = run(
        capsys, *words(documents, tmp_path / "x", "--set", "model.embedding.segments=1", "--steps", "1"), code=2
    )
    assert "which need an embedding each, and there are 1. Set model.embedding.segments = 2." in err
    other = [*words(documents, tmp_path / "x", "--steps", "1"), "--set", "train.objective.next_sentence=false"]
    run(capsys, *other, "--set", "model.head=masked")
    with pytest.raises(headway.HeadwayError, match="does not tell whether a text follows another"):
        load_model(tmp_path / "x").model.head.next_sentence(torch.zeros(1, 2, 32))  # type: ignore[operator]
