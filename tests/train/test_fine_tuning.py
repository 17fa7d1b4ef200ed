"""A model that starts from another: its tokenizer, its settings, its weights; and corpora with weights."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from headway.cli.app import main
from headway.config.config import Config
from headway.data.corpora import parallel_from_memory
from headway.storage.model_dir import load_model, read_tensors
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.dataset import ParallelDataset
from headway.train.history import read_history
from headway.train.sources import TrainingFiles, read_texts

BYTES = Tokenizer.train([], "bytes")
Capture = pytest.CaptureFixture[str]


def flags(toy: Path, out: Path, *more: str) -> list[str]:
    return ["train", "--source", str(toy / "test.en"), "--target", str(toy / "test.qtx"), "--out", str(out), *more]


def test_it_starts_where_the_other_ended(toy: Path, translator_dir: Path, tmp_path: Path) -> None:
    out, base = tmp_path / "tuned", Path(shutil.copytree(translator_dir, tmp_path / "base"))
    (base / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Mine\n")
    valid = ["--valid-source", str(toy / "valid.en"), "--valid-target", str(toy / "valid.qtx")]
    gentle = ["--set", "train.schedule=constant(0.0)", "--set", "train.average=1", "--steps", "3"]
    assert main(flags(toy, out, "--from-model", str(base), *valid, *gentle)) == 0
    card = (out / "README.md").read_text()
    assert card.startswith("---\nlicense: cc-by-4.0\nbase_model: base\nlanguage:\n- en\n- qtx\n")
    assert "| fine-tuned from | base |" in card
    for name, weights in read_tensors(translator_dir / "model.safetensors").items():
        assert torch.equal(weights, read_tensors(out / "model.safetensors")[name]), name
    assert (out / "tokenizer.json").read_bytes() == (translator_dir / "tokenizer.json").read_bytes()
    assert load_model(out).config.model == load_model(translator_dir).config.model


def test_new_text_is_learned_and_the_old_is_mixed_in(toy: Path, translator_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    old = ["--source", str(toy / "train.en"), "--target", str(toy / "train.qtx"), "--weight", "3", "--weight", "0.5"]
    valid = ["--valid-source", str(toy / "test.en"), "--valid-target", str(toy / "test.qtx")]
    steps = ["--steps", "40", "--set", "train.validate_every=10", "--set", "train.schedule=constant(0.003)"]
    assert main(flags(toy, out, "--from-model", str(translator_dir), *old, *valid, *steps)) == 0
    losses = [entry["loss"] for entry in read_history(out) if entry["kind"] == "validation"]
    assert losses[-1] < 0.7 * losses[0]
    assert Config.load(out / "config.json").train.steps == 40


def test_its_settings_are_its_own_but_for_a_gentle_rate(
    toy: Path, translator_dir: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert main(flags(toy, tmp_path / "x", "--from-model", str(translator_dir), "--print-config")) == 0
    shown = capsys.readouterr().out
    lines = {line.split(" = ")[0]: line for line in shown.splitlines()}
    assert lines["model.d_model"].split() == ["model.d_model", "=", "48", "#", "model", str(translator_dir)]
    assert "0.0003" in lines["train.schedule.peak"] and lines["train.schedule.peak"].endswith("# fine-tuning")
    assert not (tmp_path / "x").exists()


def test_the_gentle_rate_is_adams(toy: Path, translator_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    """To Muon it would be next to nothing."""
    base = shutil.copytree(translator_dir, tmp_path / "base")
    config = json.loads((base / "config.json").read_text())
    config["train"]["optimiser"] = {"kind": "muon", "momentum": 0.9, "weight_decay": 0.0, "others": 0.2}
    (base / "config.json").write_text(json.dumps(config))
    words = flags(toy, tmp_path / "x", "--from-model", str(base), "--print-config")
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert 'optimiser.kind = "adam"' in shown and "momentum" not in shown
    assert main([*words, "--set", "train.optimiser=muon"]) == 0
    assert 'optimiser.kind = "muon"' in capsys.readouterr().out


def test_what_does_not_fit_is_refused(
    toy: Path, translator_dir: Path, lm_dir: Path, tmp_path: Path, capsys: Capture
) -> None:
    def message(code: int, *words: str) -> str:
        assert main(flags(toy, tmp_path / "x", *words)) == code
        return capsys.readouterr().err

    assert "there is no model directory" in message(1, "--from-model", str(tmp_path / "nowhere"))
    assert "learns from --text, not from pairs" in message(2, "--from-model", str(lm_dir))
    assert 'has the target language qtx, but this text is "fr"' in message(
        2, "--from-model", str(translator_dir), "--to", "fr"
    )
    assert "--from-model and --preset were both given" in message(
        2, "--from-model", str(translator_dir), "--preset", "tiny"
    )
    wide = ("--set", "model.d_model=64", "--set", "model.encoder.mixer=attention(4)")
    refused = message(1, "--from-model", str(translator_dir), *wide)
    assert "do not fit another architecture: model.d_model was 48 and is 64 now" in refused
    assert "train a new model without --from-model" in refused


# ---- weights


def rows(corpus: ParallelDataset, epoch: int) -> list[str]:
    return sorted(
        BYTES.decode(portion.examples[i].target.tolist())
        for portion in corpus.epoch(epoch)
        for i in range(len(portion.examples))
    )


def test_weights_say_how_often_a_pair_is_seen() -> None:
    lines = [f"line {n}" for n in range(10)]
    corpora = [
        parallel_from_memory(lines, [f"{name}{n}" for n in range(10)], weight=w) for name, w in (("a", 2.0), ("b", 0.3))
    ]
    corpus = ParallelDataset(corpora, Tokenizers(BYTES, BYTES), (), 64)
    assert corpus.size == 20
    seen = [rows(corpus, epoch) for epoch in range(10)]
    assert all([row for row in epoch if row[0] == "a"] == sorted([f"a{n}" for n in range(10)] * 2) for epoch in seen)
    others = [row for epoch in seen for row in epoch if row[0] == "b"]
    assert all(len([row for row in epoch if row[0] == "b"]) == 3 for epoch in seen)
    assert sorted(others) == sorted(f"b{n}" for n in range(10) for _ in range(3))  # all of them, equally often


def test_weights_are_for_what_is_learned_not_for_what_is_measured(tmp_path: Path) -> None:
    """A tenth of a corpus an epoch is no reason to measure on a tenth of the validation text."""
    names = [str(tmp_path / name) for name in ("a.en", "a.de", "b.en", "b.de")]
    for name in names:
        Path(name).write_text("".join(f"{name} {n}\n" for n in range(100)))
    one = {"source": names[:1], "target": names[1:2], "weights": (0.1,)}
    given = read_texts(TrainingFiles(**one, valid_source=names[2:3], valid_target=names[3:]))
    held = read_texts(TrainingFiles(**one, both_ways=True))
    two = read_texts(TrainingFiles(source=names[::2], target=names[1::2], weights=(3, 0.5), both_ways=True))
    assert [[p.weight for p in texts.pairs] for texts in (given, held, two)] == [[0.1], [0.1] * 2, [3, 0.5] * 2]
    for texts, size in ((given, 100), (held, 10), (two, 20)):
        corpus = ParallelDataset(texts.valid_pairs, Tokenizers(BYTES, BYTES), (), 500)
        assert sum(len(portion.examples) for portion in corpus.epoch(0)) == size == corpus.size


def test_large_corpora_come_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.train.dataset.EXAMPLES_PER_SHARD", 8)
    corpora = [
        parallel_from_memory([f"{name}{n}" for n in range(20)], [f"{name}{n}" for n in range(20)]) for name in "ab"
    ]
    corpus = ParallelDataset(corpora, Tokenizers(BYTES, BYTES), (), 64)
    portions = [[BYTES.decode(p.examples[i].target.tolist()) for i in range(len(p.examples))] for p in corpus.epoch(0)]
    assert len(portions) == 5
    assert all(len(portion) == 8 and {row[0] for row in portion} == {"a", "b"} for portion in portions)
    assert sorted(row for portion in portions for row in portion) == sorted(
        f"{name}{n}" for n in range(20) for name in "ab"
    )
    other = [[BYTES.decode(p.examples[i].target.tolist()) for i in range(len(p.examples))] for p in corpus.epoch(1)]
    assert other != portions and sorted(map(sorted, other)) == sorted(map(sorted, portions))


def test_pairs_in_one_file(toy: Path, tiny: list[str], tmp_path: Path, train_toy: Callable[..., Path]) -> None:
    """The same corpus as a table gives the same model."""
    table, valid = tmp_path / "train.en-qtx.tsv", tmp_path / "valid.jsonl"
    sides = [
        [(toy / f"{part}.{side}").read_text().splitlines() for side in ("en", "qtx")] for part in ("train", "valid")
    ]
    table.write_text("".join(f"{a}\t{b}\n" for a, b in zip(*sides[0])))
    valid.write_text("".join(f'{{"en": "{a}", "qtx": "{b}"}}\n' for a, b in zip(*sides[1])))
    steps = ["--steps", "4", "--set", "train.validate_every=2"]
    command = [
        "train",
        "--pairs",
        str(table),
        "--valid-pairs",
        str(valid),
        "--from",
        "en",
        "--to",
        "qtx",
        *tiny,
        *steps,
    ]
    assert main([*command, "--out", str(tmp_path / "m")]) == 0
    other = train_toy(*steps)
    for name, weights in read_tensors(other / "model.safetensors").items():
        assert torch.equal(weights, read_tensors(tmp_path / "m" / "model.safetensors")[name]), name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--columns", "1"], "--columns: '1' does not name two columns. Write 1,2 or source,target."),
        (["--weight", "0"], "--weight: 0"),
        (["--weight", "1", "--weight", "2"], "--weight was given 2 times for 1 corpus: give it once for all"),
        (["--text", "x", "--weight", "2"], "or --text for a language model"),
    ],
)
def test_options_of_corpora_that_make_no_sense(
    toy: Path, tmp_path: Path, capsys: Capture, words: list[str], message: str
) -> None:
    assert main(flags(toy, tmp_path / "x", *words)) == 2
    assert message in capsys.readouterr().err


def test_a_weight_for_running_text_is_refused(toy: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["train", "--text", str(toy / "text.txt"), "--weight", "2", "--out", str(tmp_path / "x")]) == 2
    assert "--weight is for corpora of pairs, not for --text." in capsys.readouterr().err
