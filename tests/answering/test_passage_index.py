"""The index of passages on disk: built, continued, refused where it is damaged."""

import os
from pathlib import Path

import numpy as np
import pytest

from answering.manual import MANUAL, embed, make_index, write_documents
from headway.answering import passage_index
from headway.answering.document_files import find_documents
from headway.answering.passage_index import build_passage_index, open_passage_index
from headway.errors import HeadwayError
from headway.translate import text_vectors


def test_what_is_built_can_be_read(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    assert len(index) == 5 and index.vectors is None and index.encoder == ""
    sources = [index.read_source(number) for number in range(len(index))]
    assert [source.place for source in sources] == [
        "docs/kitchen.txt:1", "docs/server.md:4", "docs/server.md:8", "docs/server.md:11", "docs/zh.md:3",
    ]  # fmt: skip
    assert sources[1].passage.heading == "Server › Memory" and "85 %" in sources[1].passage.text
    assert [hit.document for hit in index.words.search(["port"], 5)] == [2]
    assert [hit.document for hit in index.words.search(["端口"], 5)] == [4]


def test_the_same_command_goes_on_and_other_text_is_refused(tmp_path: Path) -> None:
    make_index(tmp_path)
    docs, out = tmp_path / "docs", tmp_path / "index"
    assert build_passage_index([docs], out)[:2] == (3, 5)
    index = open_passage_index(out)
    (docs / "server.md").write_text(MANUAL + "\nMore.\n")
    assert index.find_changed(["docs/server.md", "docs/zh.md", "unknown"]) == ["docs/server.md"]
    (docs / "zh.md").unlink()
    assert index.find_changed(["docs/zh.md"]) == ["docs/zh.md"] and not index.has_changed()
    with pytest.raises(HeadwayError, match="another text"):
        build_passage_index([docs], out)
    assert build_passage_index([docs], out, overwrite=True).documents == 2
    assert index.has_changed()
    assert "85 %" in index.read_source(1).passage.text  # what is mapped stays as it was


def test_vectors_go_on_where_a_run_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs, out = write_documents(tmp_path / "docs"), tmp_path / "index"
    calls: list[list[str]] = []

    def failing(texts: list[str]) -> np.ndarray:
        calls.append(list(texts))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return embed(texts)

    monkeypatch.setattr(passage_index, "PASSAGES_PER_BATCH", 2)
    monkeypatch.setattr(text_vectors, "load_embedder", lambda name, device: failing)
    with pytest.raises(KeyboardInterrupt):
        build_passage_index([docs], out, "encoder")
    with pytest.raises(HeadwayError, match="is not finished"):
        open_passage_index(out)
    reports: list[str] = []
    assert build_passage_index([docs], out, "encoder", report=reports.append).passages == 5
    assert reports == ["made vectors of 4 of 5 passages", "made vectors of 5 of 5 passages"]
    index = open_passage_index(out)
    assert index.encoder == "encoder" and index.vectors is not None and index.vectors.shape == (5, 4)
    lines = [index.read_source(number).passage.indexed_text for number in range(5)]
    expected = embed(lines) / np.linalg.norm(embed(lines), axis=1, keepdims=True)
    assert np.allclose(index.vectors, expected, atol=1e-6)


def test_unreadable_documents_in_a_folder_are_left_out(tmp_path: Path) -> None:
    docs = write_documents(tmp_path / "docs")
    (docs / "sub").mkdir()
    (docs / "sub" / "broken.docx").write_bytes(b"PK\x03\x04 nothing")
    (docs / ".hidden.txt").write_text("secret")
    (docs / "picture.png").write_bytes(b"\x89PNG")
    os.symlink(docs, docs / "circle")
    built = build_passage_index([docs], tmp_path / "index")
    assert built.documents == 3 and list(built.skipped) == ["docs/sub/broken.docx"]
    with pytest.raises(HeadwayError, match="cannot be opened"):  # one that was named is an error,
        build_passage_index([docs, docs / "sub" / "broken.docx"], tmp_path / "other")
    assert build_passage_index([docs / "zh.md"], tmp_path / "other").documents == 1  # and nothing is left of that run


def test_what_cannot_be_indexed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(HeadwayError, match="no documents found"):
        build_passage_index([tmp_path / "empty"], tmp_path / "index")
    (tmp_path / "blank.txt").write_text(" \n\n")
    with pytest.raises(HeadwayError, match="have no text"):
        build_passage_index([tmp_path / "blank.txt"], tmp_path / "index")
    with pytest.raises(HeadwayError, match="there is no file"):
        find_documents([tmp_path / "gone.txt"])
    with pytest.raises(HeadwayError, match="not supported"):
        find_documents([tmp_path / "a.png"])


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.answering.document_files.MAX_FILES", 2)
    with pytest.raises(HeadwayError, match="more than 2 files"):
        find_documents([write_documents(tmp_path / "docs")])


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("index.json", b"{", "is damaged"),
        ("documents.json", b'{"root": 1, "documents": [[1]]}', "documents.json is damaged"),
        ("passage_ends", b"12345", "truncated or damaged"),
        ("passages.jsonl", b"", "truncated or damaged"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    make_index(tmp_path)
    (tmp_path / "index" / name).write_bytes(content)
    with pytest.raises(HeadwayError, match=told):
        open_passage_index(tmp_path / "index")


def test_damage_inside_of_files_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    path = tmp_path / "index" / "passages.jsonl"
    path.write_bytes(path.read_bytes().replace(b'["', b"[["))
    with pytest.raises(HeadwayError, match=r"passages\.jsonl is damaged"):
        open_passage_index(tmp_path / "index").read_source(0)
    (tmp_path / "index" / "documents.json").write_text('{"root": "/", "documents": []}')
    path.write_bytes(path.read_bytes().replace(b"[[", b'["'))
    with pytest.raises(HeadwayError, match=r"passages\.jsonl is damaged"):
        open_passage_index(tmp_path / "index").read_source(0)
    del index
    (tmp_path / "index" / "bm25" / "lengths").write_bytes(b"\0" * 4)
    with pytest.raises(HeadwayError, match="files are of several runs"):
        open_passage_index(tmp_path / "index")
