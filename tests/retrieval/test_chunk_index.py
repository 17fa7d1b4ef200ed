"""Indexes of chunks: what is cut where, what is found, what is never found, and what an interruption costs."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headway.errors import HeadwayError
from headway.retrieval import chunk_index, indexed_text
from headway.retrieval.chunk_index import (
    ChunkIndex,
    ChunkIndexSettings,
    ChunkIndexSource,
    build_chunk_index,
    open_chunk_index,
)
from headway.retrieval.indexed_text import find_document_rule, split_documents
from headway.retrieval.ngram_embedding import PADDING, NgramEmbedding, count_weights
from headway.text.tokenizer.tokenizer import Tokenizer

WORDS = [f"word{number}" for number in range(40)]


def make_lines(documents: int = 12, seed: int = 0) -> list[str]:
    """Documents of some lines, with empty lines between them; the last repeats the first."""
    random = np.random.default_rng(seed)
    made = [[" ".join(random.choice(WORDS, 9)) for _ in range(random.integers(1, 5))] for _ in range(documents)]
    return [line for lines in [*made, made[0]] for line in (*lines, "")]


LINES = make_lines()
TOKENIZER = Tokenizer.train(LINES, "bpe(320)")


def source_of(lines: list[str]) -> ChunkIndexSource:
    return ChunkIndexSource("identity", lambda: lines, TOKENIZER, find_document_rule(lines))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ChunkIndex:
    folder = tmp_path_factory.mktemp("index") / "chunks"
    counts = build_chunk_index(folder, source_of(LINES), ChunkIndexSettings(chunk_tokens=8, width=256))
    opened = open_chunk_index(folder, load_model=no_model)
    assert counts == {"tokens": len(opened.text.ids), "documents": 13, "chunks": len(opened), "width": 256}
    return opened


def no_model(name: str) -> chunk_index.TextEmbedder:
    raise AssertionError(name)


def test_documents_end_at_empty_lines_or_are_lines() -> None:
    assert find_document_rule(["", "a", "b", "", ""]) == "lines", "nothing stands behind the gap"
    assert find_document_rule(["a", " ", "b"]) == "blank"
    text = ["", "a", "b", "", "", "c"]
    assert [piece.text for piece in split_documents(text, "blank")] == ["\na\nb\n\n\n", "c\n"]
    assert [piece.text for piece in split_documents(text, "lines")] == ["\na\n", "b\n\n\n", "c\n"]


def test_a_long_document_is_encoded_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = indexed_text.write_indexed_text(tmp_path, LINES, "blank", TOKENIZER)
    expected = indexed_text.open_indexed_text(tmp_path)
    ids, ends, keys = (np.array(part) for part in expected)
    monkeypatch.setattr(indexed_text, "MAX_PIECE_CHARACTERS", 50)
    monkeypatch.setattr(indexed_text, "PIECES_PER_GROUP", 3)
    assert indexed_text.write_indexed_text(tmp_path, LINES, "blank", TOKENIZER) == whole
    for before, now in zip((ids, ends, keys), indexed_text.open_indexed_text(tmp_path)):
        assert np.array_equal(before, now)


def test_the_text_is_that_of_the_lines(index: ChunkIndex) -> None:
    text = index.tokenizer.decode(index.text.ids.tolist())
    assert text == "\n" + "".join(f"{line}\n" for line in LINES)
    starts = np.array([1, *index.text.document_ends[:-1]])
    assert index.text.documents_of(starts).tolist() == list(range(13))
    assert index.text.document_keys[0] == index.text.document_keys[12], "the same text"
    assert len(set(index.text.document_keys.tolist())) == 12


def test_chunks_stay_in_their_documents(index: ChunkIndex) -> None:
    ends = index.text.document_ends
    starts = np.array([1, *ends[:-1]])
    seen = 0
    for start, end, document in zip(starts.tolist(), ends.tolist(), itertools.count()):
        for first in range(start, end, 8):
            assert index.chunks[seen].tolist() == [first, document]
            retrieved = index.retrieved_tokens(np.array([seen]))[0]
            expected = index.text.ids[first : min(first + 16, end)]
            assert retrieved[: len(expected)].tolist() == expected.tolist()
            assert set(retrieved[len(expected) :].tolist()) <= {PADDING}
            seen += 1
    assert seen == len(index)
    assert (index.retrieved_tokens(np.array([[-1]])) == PADDING).all()


def test_a_chunk_is_nearest_to_itself_unless_its_document_is_excluded(index: ChunkIndex) -> None:
    queries = np.asarray(index.vectors)
    found = index.search(queries, 3)
    assert found.scores[:, 0] == pytest.approx(1, abs=1e-5)
    cosines = queries @ queries.T
    assert np.allclose(found.scores, -np.sort(-cosines, axis=1)[:, :3], atol=1e-5)
    keys = index.text.document_keys[index.chunks[:, 1]]
    excluded = [frozenset([own]) for own in keys.tolist()]
    found = index.search(queries, 3, excluded)
    for number, own in enumerate(excluded):
        allowed = [row for row in range(len(index)) if keys[row] not in own]
        best = sorted(cosines[number][allowed].tolist(), reverse=True)[:3]
        assert set(found.rows[number].tolist()) <= set(allowed), "nor from the copy of its document"
        assert found.scores[number].tolist() == pytest.approx(best, abs=1e-5)
    everything = frozenset(keys.tolist())
    assert index.search(queries[:1], 3, [everything]).rows.tolist() == [[-1, -1, -1]]
    assert index.search(queries[:1], len(index) + 2).rows[0, -3:].min() == -1, "there are no more"


def test_products_are_those_of_the_bags() -> None:
    random = np.random.default_rng(1)
    ids = random.integers(0, 30, (8, 12))
    ids[3, 5:] = PADDING
    weights = random.uniform(0.5, 2, 30)
    bags: list[dict[tuple[int, ...], float]] = []
    for row in ids:
        tokens = row[row != PADDING].tolist()
        bag: dict[tuple[int, ...], float] = {}
        for token in tokens:
            bag[token,] = bag.get((token,), 0) + weights[token]
        for pair in itertools.pairwise(tokens):
            bag[pair] = bag.get(pair, 0) + weights[list(pair)].mean()
        bags.append(bag)
    vectors = NgramEmbedding(weights, 1 << 18).embed(ids)
    for i, j in itertools.product(range(8), repeat=2):
        product = sum(value * bags[j].get(key, 0.0) for key, value in bags[i].items())
        lengths = [sum(value**2 for value in bag.values()) ** 0.5 for bag in (bags[i], bags[j])]
        expected = product / lengths[0] / lengths[1]  # no two n-grams share a place
        assert vectors[i] @ vectors[j] == pytest.approx(expected, abs=1e-6)


def test_rare_tokens_weigh_more() -> None:
    blocks = [np.array([[1, 1, 2], [1, 3, PADDING]]), np.array([[1, 2, 2]])]
    assert count_weights(blocks, 5) == pytest.approx(np.log(4 / np.array([1, 4, 3, 2, 1])))


def test_an_interrupted_index_is_completed(index: ChunkIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ChunkIndexSettings(chunk_tokens=8, width=256)
    monkeypatch.setattr(chunk_index, "CHUNKS_PER_BLOCK", 5)

    def stop(done: int, total: int) -> None:
        if done > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_chunk_index(tmp_path / "i", source_of(LINES), settings, on_chunks=stop)
    told: list[int] = []

    def changed() -> Iterator[str]:
        raise AssertionError("the text is encoded already")

    source = source_of(LINES)._replace(read_lines=changed)
    build_chunk_index(tmp_path / "i", source, settings, on_chunks=lambda done, total: told.append(done))
    assert told[0] == 15, "ten have a vector"
    resumed = open_chunk_index(tmp_path / "i", no_model)
    assert np.array_equal(resumed.vectors, index.vectors)
    assert resumed.about.fingerprint == index.about.fingerprint
    assert build_chunk_index(tmp_path / "i", source, settings, on_chunks=stop) == index.about.counts


def test_vectors_may_be_a_models(tmp_path: Path) -> None:
    asked: list[str] = []

    def lengths(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return np.array([[len(text), text.count("word1"), 1] for text in texts])

    settings = ChunkIndexSettings(chunk_tokens=8, embedding="my-encoder")
    build_chunk_index(tmp_path / "i", source_of(LINES), settings, lengths)
    opened = open_chunk_index(tmp_path / "i", {"my-encoder": lengths}.__getitem__)
    assert opened.vectors.shape == (len(opened), 3) and "\n".join(LINES).startswith(asked[0].strip())
    chunk = index_ids(opened, 2)
    found = opened.search(opened.embedding.embed(chunk), 1)
    assert found.scores[0, 0] == pytest.approx(1)


def index_ids(index: ChunkIndex, row: int) -> np.ndarray:
    ids: np.ndarray = index.retrieved_tokens(np.array([row]))[:, :8]
    return ids


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="no document is long enough for a chunk of 4000 tokens"):
        build_chunk_index(tmp_path / "i", source_of(LINES), ChunkIndexSettings(chunk_tokens=4000))
    build_chunk_index(tmp_path / "j", source_of(LINES), ChunkIndexSettings(chunk_tokens=8))
    about = (tmp_path / "j" / "index.json").read_text()
    (tmp_path / "j" / "index.json").write_text(about.replace('"width": 512\n', '"length": 512\n'))
    with pytest.raises(HeadwayError, match="is damaged. Build the index again"):
        open_chunk_index(tmp_path / "j", no_model)
