"""An imported model with language tokens is a model like ours: commands, int8, the server, documents, training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve.conftest import Running

from convert.multilingual import Original, make_original
from convert.translators import make_lines
from headway.cli.app import main
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.serve.settings import ServerSettings
from headway.storage.model_dir import load_model
from headway.train.dataset import ParallelDataset
from headway.train.sources import TrainingFiles, read_corpora
from headway.translate.options import TranslateOptions
from headway.translate.translator import load_translator

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return make_original("NLLB", tmp_path_factory.mktemp("original"))


@pytest.fixture(scope="module")
def nllb(original: Original, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imported") / "nllb"
    plan_import(str(original.folder), ImportOptions()).write(out)
    return out


def ran(capsys: Capture, *words: object, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main([str(word) for word in words]) == code, capsys.readouterr().err
    out, err = capsys.readouterr()
    return out, err


def test_commands(nllb: Path, original: Original, capsys: Capture, tmp_path: Path) -> None:
    _, err = ran(capsys, "import", original.folder, "--out", tmp_path / "again")
    assert f'next: headway translate --model {tmp_path / "again"} --from en --to de "…"' in err
    assert "found: M2M100 translator, between ace-Arab, ace-Latn, en, de, fr, zh-Hans, zh-Hant, " in err
    direction = ("--model", nllb, "--from", "en", "--to", "de")
    out, _ = ran(capsys, "translate", *direction, "the dog sees a cat")
    assert out.strip() and "deu_Latn" not in out
    _, err = ran(capsys, "translate", "--model", nllb, "--to", "de", "the dog", code=1)
    assert "must be told the language of the text: name it with --from" in err
    (tmp_path / "pairs.tsv").write_text("the dog\ta cat\n")
    scores = [
        ran(capsys, "score", "--model", nllb, "--from", "en", "--to", target, "--pairs", tmp_path / "pairs.tsv")[0]
        for target in ("de", "fr")
    ]
    assert scores[0] != scores[1]
    assert "-" in ran(capsys, "align", *direction, "--pairs", tmp_path / "pairs.tsv")[0]
    (tmp_path / "a.html").write_text("<p>the <b>dog</b> sees</p>")
    ran(capsys, "translate", *direction, "--document", tmp_path / "a.html", "--out", tmp_path / "b.html")
    assert (tmp_path / "b.html").read_text().startswith("<p>")
    (tmp_path / "t.en").write_text("the dog sees\na cat sings\n" * 3)
    (tmp_path / "t.de").write_text("a red bird\nthe house\n" * 3)
    ran(
        capsys, "distil", *direction, "--text", tmp_path / "t.en", "--out", tmp_path / "t.en-de.tsv", "--min-score", -99
    )
    files = ("--source", tmp_path / "t.en", "--target", tmp_path / "t.de")
    _, err = ran(capsys, "calibrate", *direction, *files, code=1)
    assert "6 lines, 0% of them" in err and "are not enough to fit" in err
    ran(capsys, "attend", *direction, "the dog sees")
    auto, err = ran(capsys, "translate", "--model", nllb, "--from", "auto", "--to", "de", "The dog sees a cat tonight.")
    assert auto.strip()


def test_int8_without_torch_forces_the_language_too(nllb: Path) -> None:
    lines = make_lines(6)
    options = TranslateOptions(source="en", target="de", retry=False, protect=None)
    native = load_translator(nllb, device="cpu", compute="int8")
    torch = load_translator(nllb, device="cpu", engine="torch", compute="int8")
    assert native.engines.torch_free is not None and native.engines.torch_free.name == "native"
    found, expected = (one.translate(lines, options) for one in (native, torch))
    assert [one.guesses[0].tokens for one in found] == [one.guesses[0].tokens for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-3)


def test_the_server_lists_and_translates(nllb: Path) -> None:
    running = Running(ServerSettings(models=(str(nllb),), port=0))
    try:
        listed = {one["code"]: one for one in running.get("/languages").json()}
        assert set(listed) == {"ace-Arab", "ace-Latn", "en", "de", "fr", "zh-Hans", "zh-Hant"}
        assert set(listed["en"]["targets"]) == set(listed) and listed["zh-Hant"]["name"] == "Chinese (traditional)"
        answers = {
            target: running.post("/translate", {"q": "the dog sees a cat", "source": "en", "target": target}).json()
            for target in ("de", "zh_TW")
        }
        expected = load_translator(nllb, source="en", target="de")("the dog sees a cat")
        assert answers["de"]["translatedText"] == expected and "translatedText" in answers["zh_TW"]
        (entry,) = running.get("/api/models").json()
        assert len(entry["pairs"]) == 42 and entry["sources"] == list(listed) and entry["pairs"][0] == ["en", "de"]
        assert running.get("/frontend/settings").json()["language"]["target"]["code"] == "de"
        body = {"q": "the dog", "source": "en", "target": "de", "model": entry["name"], "beam_size": 2}
        events = [line for line in running.post("/api/translate", body).text.splitlines() if '"event":"step"' in line]
        assert events
    finally:
        running.stop()


def test_training_pairs_have_the_tokens_of_the_original(nllb: Path, original: Original, tmp_path: Path) -> None:
    """Labels are those of transformers: the language first, then the text, then the end."""
    loaded: Any = load_model(nllb)
    (tmp_path / "t.en").write_text("the dog sees\n\na cat\n")
    (tmp_path / "t.de").write_text("a cat\nx\n\n")
    corpus = read_corpora(TrainingFiles(source=[str(tmp_path / "t.en")], target=[str(tmp_path / "t.de")]))[0]
    dataset = ParallelDataset([corpus], loaded.tokenizers, loaded.config.tags, 64)
    assert dataset.size == 1 and dataset.empty_count == 2
    (shard,) = dataset.epoch(0)
    example = shard.examples[0]
    original.tokenizer.src_lang, original.tokenizer.tgt_lang = "eng_Latn", "deu_Latn"
    wanted = original.tokenizer("the dog sees", text_target="a cat")
    assert example.source.tolist() == wanted["input_ids"]
    assert np.append(example.target, 2).tolist() == wanted["labels"]
