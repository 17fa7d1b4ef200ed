"""headway index --kind passages, and headway answer."""

import json
from pathlib import Path

import pytest
from answering.manual import MANUAL, embed, write_documents
from random_models import language_model_table, translator_table, write_random_model

from headway.cli.app import main
from headway.translate import text_vectors

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: object, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main(list(map(str, words))) == code
    return capsys.readouterr()


@pytest.fixture
def index(capsys: Capture, tmp_path: Path) -> Path:
    docs = write_documents(tmp_path / "docs")
    (docs / "broken.odt").write_bytes(b"PK")
    out, err = run(capsys, "index", "--kind", "passages", docs, "--out", tmp_path / "index")
    assert not out and "warning: left out: " in err and "5 passages of 3 documents" in err
    return tmp_path / "index"


def test_questions_are_answered(capsys: Capture, index: Path) -> None:
    out, err = run(capsys, "answer", "Which port?", "--index", index, "--sentences", 1)
    assert out == "The server listens on port 5000. [1]\n\n[1] docs/server.md:8  Server › Port\n" and not err
    out, err = run(capsys, "answer", "Which port?", "xyzzy", "--index", index)
    assert out.startswith("> Which port?\n") and "> xyzzy\nNothing in these documents" in out
    assert "warning: no passage has to do" in err


def test_the_trace_says_how(capsys: Capture, index: Path) -> None:
    out, _ = run(capsys, "answer", "Which port?", "--index", index, "--trace")
    assert [line.split(" ")[0] for line in out.splitlines() if line[:1].isalpha()][:3] == [
        "search",
        "passages",
        "quotes",
    ]
    assert "port (1)" in out and "[bm25 " in out and "(rank 1)" in out
    assert "none: no sentence says enough" in run(capsys, "answer", "xyzzy", "--index", index, "--trace")[0]


def test_json_is_an_object_a_question(capsys: Capture, index: Path, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("Which port?\n\nWhat does bread need?\n")
    out, _ = run(capsys, "answer", "--input", tmp_path / "q.txt", "--index", index, "--json", "--trace")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["question"] for row in rows] == ["Which port?", "What does bread need?"]
    assert rows[1]["sentences"][0] == {
        "text": "Bread needs flour, water, salt and yeast.", "sources": [1], "support": 1.0, "supported": True,
        "given": False,
    }  # fmt: skip
    assert rows[0]["method"] == "bm25" and rows[0]["passages"][0]["place"] == "docs/server.md:8"


def test_changed_documents_are_said_so(capsys: Capture, index: Path) -> None:
    (index.parent / "docs" / "server.md").write_text(MANUAL + "more")
    assert "docs/server.md has changed since" in run(capsys, "answer", "Which port?", "--index", index)[1]


def test_an_encoder_that_is_gone(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = write_documents(tmp_path / "docs")
    with monkeypatch.context() as patched:
        patched.setattr(text_vectors, "load_embedder", lambda name, device: embed)
        run(capsys, "index", "--kind", "passages", docs, "--out", tmp_path / "index", "--model", "gone-encoder")
        out, _ = run(capsys, "answer", "a loaf", "--index", tmp_path / "index", "--trace")
        assert "search     hybrid in 5 passages" in out and "cosine" in out
    words = ("answer", "Which port?", "--index", tmp_path / "index")
    out, err = run(capsys, *words)
    assert "warning: searching by words alone" in err and "[1] docs/server.md:8" in out
    assert "gone-encoder" in run(capsys, *words, "--retrieval", "dense", code=1)[1]
    assert not run(capsys, *words, "--retrieval", "bm25")[1]


def test_a_language_model_writes(capsys: Capture, index: Path, tmp_path: Path) -> None:
    table = language_model_table(position="sinusoidal")
    write_random_model(tmp_path / "lm", table, "causal", train={"objective": "causal", "max_tokens": 4096})
    out, err = run(capsys, "answer", "Which port?", "--index", index, "--model", tmp_path / "lm", "--trace")
    assert "quotes" in out
    write_random_model(tmp_path / "t", translator_table(), source_languages=["en"], target_languages=["de"])
    err = run(capsys, "answer", "Which port?", "--index", index, "--model", tmp_path / "t", code=1)[1]
    assert "is a translator, which writes no answers" in err


def test_what_cannot_be_done_is_refused(capsys: Capture, index: Path, tmp_path: Path) -> None:
    err = run(capsys, "answer", "x" * 3000, "--index", index, code=1)[1]
    assert "3,000 characters: at most 2,000" in err
    assert "is not an index" in run(capsys, "answer", "x", "--index", tmp_path, code=1)[1]
    words = ("index", "--kind", "passages", tmp_path / "docs", "--out", tmp_path / "i", "--vocabulary", 9)
    assert "--vocabulary is for --kind chunks" in run(capsys, *words, code=2)[1]
