"""Neighbours of every chunk of a text: which, never whose own document, on disk, after an interruption; by faiss."""

import fcntl
import sys
from pathlib import Path

import numpy as np
import pytest

from headway.errors import HeadwayError
from headway.retrieval import neighbour_search
from headway.retrieval.approximate import ApproximateSearch, write_approximate
from headway.retrieval.chunk_index import (
    ChunkIndex,
    ChunkIndexSettings,
    ChunkIndexSource,
    TextEmbedder,
    build_chunk_index,
    open_chunk_index,
)
from headway.retrieval.neighbour_search import cut_queries, excluded_documents, load_or_find_neighbours
from headway.retrieval.vector_search import find_nearest, normalise
from headway.text.tokenizer.tokenizer import Tokenizer

SIZE = 8


def make_documents(count: int, seed: int = 0) -> list[list[str]]:
    random = np.random.default_rng(seed)
    words = [f"w{number}" for number in range(60)]
    return [[" ".join(random.choice(words, 12)) for _ in range(random.integers(1, 4))] for _ in range(count)]


DOCUMENTS = make_documents(30)
LINES = [line for lines in DOCUMENTS for line in (*lines, "")]
TOKENIZER = Tokenizer.train(LINES, "bpe(384)")


def no_model(name: str) -> TextEmbedder:
    raise AssertionError(name)


def build(folder: Path, approximate: bool = False) -> ChunkIndex:
    source = ChunkIndexSource("lines", lambda: LINES, TOKENIZER, "blank")
    build_chunk_index(folder, source, ChunkIndexSettings(SIZE, 256, approximate=approximate))
    return open_chunk_index(folder, no_model)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ChunkIndex:
    return build(tmp_path_factory.mktemp("neighbours") / "index")


def test_neighbours_are_the_nearest_of_other_documents(index: ChunkIndex) -> None:
    text = index.text
    found = load_or_find_neighbours(index, text, "lines", 2)
    queries = cut_queries(text.ids, SIZE)
    cosines = index.embedding.embed(queries) @ index.vectors.T
    assert found.shape == (len(text.ids) // SIZE, 2)
    for number in range(len(found)):
        last = min((number + 2) * SIZE, len(text.ids)) - 1
        own = set(range(int(text.documents_of(np.array(number * SIZE))), int(text.documents_of(np.array(last))) + 1))
        allowed = [row for row in range(len(index)) if int(index.chunks[row, 1]) not in own]
        best = sorted(cosines[number][allowed].tolist(), reverse=True)[:2]
        assert cosines[number][found[number]].tolist() == pytest.approx(best, abs=1e-5)
        assert set(found[number].tolist()) <= set(allowed)


def test_a_copy_elsewhere_is_the_same_document(index: ChunkIndex, tmp_path: Path) -> None:
    """A text that begins like a document of the index never gets that document."""
    lines = [*DOCUMENTS[3], "and more", "", *DOCUMENTS[5], ""]
    source = ChunkIndexSource("copy", lambda: lines, TOKENIZER, "blank")
    build_chunk_index(tmp_path / "i", source, ChunkIndexSettings(SIZE, 256))
    other = open_chunk_index(tmp_path / "i", no_model).text
    found = load_or_find_neighbours(index, other, "copy", 3)
    documents = index.chunks[found, 1]
    starts = other.documents_of(np.arange(len(found)) * SIZE)
    assert 3 not in documents[starts == 0] and 5 not in documents[starts == 1]
    assert excluded_documents(other, 0, 1, SIZE) == [frozenset([int(index.text.document_keys[3])])]
    across = int(other.document_ends[0]) // SIZE - 1  # the chunk behind it is a part of the second document
    assert excluded_documents(other, across, 1, SIZE) == [frozenset(index.text.document_keys[[3, 5]].tolist())]


def test_an_interrupted_search_goes_on(index: ChunkIndex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(neighbour_search, "CHUNKS_PER_SEARCH", 16)

    def stop(done: int, total: int) -> None:
        if done >= 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_or_find_neighbours(index, index.text, "other name", 2, stop)
    told: list[int] = []
    found = load_or_find_neighbours(index, index.text, "other name", 2, lambda done, total: told.append(done))
    assert told[0] == 48 and told[-1] == len(found)
    assert np.array_equal(found, load_or_find_neighbours(index, index.text, "lines", 2))
    assert np.array_equal(found, load_or_find_neighbours(index, index.text, "other name", 2, stop)), "it is there"


def test_two_runs_do_not_write_one_file(index: ChunkIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(file: object, mode: int) -> None:
        raise BlockingIOError

    monkeypatch.setattr(fcntl, "flock", locked)
    with pytest.raises(HeadwayError, match="another run is looking for the same neighbours"):
        load_or_find_neighbours(index, index.text, "third name", 2)


def test_a_folder_that_cannot_be_written_to(index: ChunkIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, **options: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(HeadwayError, match="cannot be written to, and neighbours"):
        load_or_find_neighbours(index, index.text, "fourth name", 2)


# ---- By faiss


def test_faiss_finds_nearly_all_and_ranks_exactly(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    random = np.random.default_rng(1)
    centres = random.normal(size=(40, 32))
    vectors = normalise(centres[random.integers(0, 40, 3000)] + 0.4 * random.normal(size=(3000, 32)))
    queries = normalise(vectors[:200] + 0.1 * random.normal(size=(200, 32)))
    write_approximate(tmp_path / "a", vectors)
    search = ApproximateSearch(tmp_path / "a", vectors)
    rows, scores = search.find_nearest(queries, 5)
    exact = find_nearest(queries, vectors, 5)[0]
    recall = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(rows.tolist(), exact.tolist())])
    assert recall > 0.9
    assert np.allclose(scores, np.take_along_axis(queries @ vectors.T, rows, 1), atol=1e-5)
    assert (np.diff(scores, axis=1) <= 0).all()
    with pytest.raises(HeadwayError, match="does not fit its index"):
        ApproximateSearch(tmp_path / "a", vectors[:10])
    (tmp_path / "a").write_text("text")
    with pytest.raises(HeadwayError, match="cannot be read"):
        ApproximateSearch(tmp_path / "a", vectors)


def test_an_index_may_be_approximate(index: ChunkIndex, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    approximate = build(tmp_path / "i", approximate=True)
    assert (approximate.method, index.method) == ("approximate", "exact")
    assert np.array_equal(approximate.vectors, index.vectors)
    found, exact = (load_or_find_neighbours(one, one.text, "lines", 2) for one in (approximate, index))
    assert (found == exact).mean() > 0.8 and (found >= 0).all()
    keys = [frozenset(index.text.document_keys.tolist())]
    assert (approximate.search(approximate.vectors[:1], 2, keys).rows == -1).all(), "exact where little is left"


def test_without_faiss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(HeadwayError, match="pip install faiss-cpu"):
        build(tmp_path / "i", approximate=True)
    assert not (tmp_path / "i").exists()
