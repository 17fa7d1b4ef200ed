"""BM25 on disk: the scores are those of the formula, and of bm25s (Lucene's variant)."""

import random
from pathlib import Path

import numpy as np
import pytest

from headway.errors import HeadwayError
from headway.retrieval import bm25
from headway.retrieval.bm25 import Bm25Index, Bm25Writer, score_documents
from headway.retrieval.rank_fusion import fuse_ranks


def build(folder: Path, documents: list[str]) -> Bm25Index:
    with Bm25Writer(folder) as writer:
        for document in documents:
            writer.add(document)
        writer.finish()
    return Bm25Index(folder)


def random_documents(count: int = 60) -> list[str]:
    draw = random.Random(1)
    return [" ".join(f"w{draw.randrange(40)}" for _ in range(draw.randrange(30))) for _ in range(count)]


def test_scores_are_those_of_the_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where postings are spilled and sorted in many blocks."""
    monkeypatch.setattr(bm25, "POSTINGS_PER_BLOCK", 50)
    documents = random_documents()
    index = build(tmp_path / "bm25", documents)
    assert len(index) == 60 and not list(tmp_path.glob("*/*.spill"))
    for query in (["w1", "w5", "w5"], ["w39", "nowhere"], ["w0"], []):
        wanted = score_documents(query, [document.split() for document in documents])
        found = index.search(query, 100)
        assert {hit.document for hit in found} == {number for number, score in enumerate(wanted) if score}
        assert all(abs(hit.score - wanted[hit.document]) < 1e-12 for hit in found)
        assert found == sorted(found, key=lambda hit: (-hit.score, hit.document))
        assert index.search(query, 5) == found[:5]


def test_scores_are_those_of_bm25s(tmp_path: Path) -> None:
    """bm25s 0.3.16, BM25(method="lucene", k1=1.2, b=0.75, dtype="float64")."""
    index = build(tmp_path / "bm25", ["a b a", "b c", "c c d e a"])
    scores = {hit.document: hit.score for hit in index.search(["a", "c"], 3)}
    wanted = [0.3022531377786081, 0.25543675502485635, 0.43489609529587325]
    assert np.allclose([scores[n] for n in range(3)], wanted, rtol=0, atol=1e-12)


def test_equal_scores_rank_by_document_and_repeated_documents_count(tmp_path: Path) -> None:
    index = build(tmp_path / "bm25", ["the cache"] * 4 + ["", "caches, cached"])
    assert [hit.document for hit in index.search(["cach"], 3)] == [5, 0, 1]
    assert index.document_frequency("cach") == 5 and index.document_frequency("cac") == 0
    assert index.idf("cach") < index.idf("nowhere")


def test_an_index_of_nothing(tmp_path: Path) -> None:
    index = build(tmp_path / "bm25", ["", "!"])
    assert index.search(["a"], 5) == [] and len(index) == 2
    assert build(tmp_path / "none", []).search(["a"], 5) == []


def test_terms_of_every_script_are_found(tmp_path: Path) -> None:
    index = build(tmp_path / "bm25", ["模型很小", "the model", "größte", "\ud800half"])
    assert [[hit.document for hit in index.search([term], 9)] for term in ("很小", "model", "half")] == [[0], [1], [3]]
    assert bm25.MAX_COUNT == 65_535 and build(tmp_path / "long", ["a " * 70_000]).counts.tolist() == [65_535]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    build(tmp_path / "bm25", random_documents())
    for name in ("documents", "terms", "posting_ends", "counts"):
        whole = (tmp_path / "bm25" / name).read_bytes()
        (tmp_path / "bm25" / name).write_bytes(whole[:-8])
        with pytest.raises(HeadwayError, match=rf"{name} is truncated or damaged"):
            Bm25Index(tmp_path / "bm25")
        (tmp_path / "bm25" / name).write_bytes(whole)
    path = tmp_path / "bm25" / "documents"
    whole = path.read_bytes()
    path.write_bytes(b"\xff" * len(whole))
    with pytest.raises(HeadwayError, match="documents is damaged. Build the index again"):
        Bm25Index(tmp_path / "bm25").search(["w1"], 3)
    path.write_bytes(whole)
    path = tmp_path / "bm25" / "posting_ends"
    ends = np.frombuffer(path.read_bytes(), "<i8").copy()
    path.write_bytes(np.where(np.arange(len(ends)) < len(ends) - 1, 2**40, ends).tobytes())
    with pytest.raises(HeadwayError, match="posting_ends is damaged"):
        Bm25Index(tmp_path / "bm25").search(["w1"], 3)
    path.write_bytes((-np.abs(ends)).tobytes())
    with pytest.raises(HeadwayError, match="posting_ends is damaged"):
        Bm25Index(tmp_path / "bm25")


def test_reciprocal_rank_fusion() -> None:
    """1 / (60 + rank), summed over the rankings."""
    found = fuse_ranks([[7, 3, 5], [3, 9]], 3)
    assert [hit.document for hit in found] == [3, 7, 9]
    assert [hit.score for hit in found] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])
    assert fuse_ranks([[], []], 5) == []
