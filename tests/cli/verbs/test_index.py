"""headway index: from files to an index, again, and what it refuses."""

from pathlib import Path

import pytest

from headway.cli.app import main
from headway.retrieval.chunk_index import open_chunk_index
from headway.translate.text_vectors import load_embedder

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def corpus(toy: Path, tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text((toy / "train.en").read_text())
    return path


def run(capsys: Capture, code: int, *words: object) -> str:
    capsys.readouterr()
    assert main(["index", *map(str, words)]) == code
    return capsys.readouterr().err


def test_it_is_built_once(capsys: Capture, corpus: Path, tmp_path: Path) -> None:
    words = (corpus, "--out", tmp_path / "i", "--chunk-tokens", 8, "--vocabulary", 320, "--width", 64)
    err = run(capsys, 0, *words)
    opened = open_chunk_index(tmp_path / "i", load_embedder)
    assert opened.tokenizer.size == 320 and opened.vectors.shape == (len(opened), 64)
    assert opened.document_rule == "lines" and len(opened.text.document_ends) == 100
    assert err.splitlines()[-1] == (
        f"{tmp_path / 'i'}: {len(opened):,} chunks of 100 documents, {len(opened.text.ids):,} tokens"
    )
    vectors = (tmp_path / "i" / "vectors").stat()
    assert run(capsys, 0, *words).splitlines()[-1] == err.splitlines()[-1]
    assert (tmp_path / "i" / "vectors").stat().st_mtime_ns == vectors.st_mtime_ns, "it was complete"
    assert "another chunk tokens" in run(capsys, 1, *words, "--chunk-tokens", 16)
    run(capsys, 0, *words, "--chunk-tokens", 16, "--overwrite")
    assert open_chunk_index(tmp_path / "i", load_embedder).chunk_tokens == 16


def test_a_model_brings_vectors_and_tokens(capsys: Capture, corpus: Path, tmp_path: Path, translator_dir: Path) -> None:
    run(capsys, 0, corpus, "--out", tmp_path / "i", "--model", translator_dir, "--tokenizer", translator_dir)
    opened = open_chunk_index(tmp_path / "i", load_embedder)
    assert opened.about.settings["embedding"] == str(translator_dir.resolve())
    assert opened.search(opened.vectors[:5], 1).scores.min() > 0.999


def test_mistakes(capsys: Capture, corpus: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "i")
    assert "--vocabulary is for a tokenizer that is learned" in run(
        capsys, 2, corpus, *out, "--tokenizer", "x", "--vocabulary", 300
    )
    (tmp_path / "empty.txt").write_text("\n\n")
    assert "there is no text to index" in run(capsys, 1, tmp_path / "empty.txt", *out)
    assert not (tmp_path / "i").exists()
