"""Vectors on disk, and the exact search over them in blocks."""

from pathlib import Path

import numpy as np
import pytest

from headway.errors import HeadwayError
from headway.retrieval.vector_search import normalise, open_index, rank_of, search_vectors, write_index


def test_written_blocks_are_one_array(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)
    assert write_index(tmp_path / "v.npy", [vectors[:4], vectors[4:]], {"model": "m"}) == 7
    opened = open_index(tmp_path / "v.npy")
    assert isinstance(opened.vectors, np.memmap) and np.array_equal(opened.vectors, vectors)
    assert opened.about == {"model": "m", "vectors": 7, "width": 3}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.npy", "v.npy.json"]
    (tmp_path / "v.npy.json").write_text("{")
    assert open_index(tmp_path / "v.npy").about == {}


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_search_is_exact(block: int) -> None:
    random = np.random.default_rng(2)
    vectors, queries = random.normal(size=(100, 8)), random.normal(size=(5, 8))
    vectors[50] = 3 * vectors[10]  # the same direction: the first comes first
    cosines = normalise(queries) @ normalise(vectors).T
    found = search_vectors(queries, vectors, 10, block)
    for query, row in zip(cosines, found):
        expected = np.lexsort((np.arange(100), -query))[:10]
        assert [near.score for near in row] == pytest.approx(query[expected].tolist(), abs=1e-6)
        assert {near.row for near in row} - {10, 50} == set(expected.tolist()) - {10, 50}
    assert [len(row) for row in search_vectors(queries, vectors[:3], 10, block)] == [3] * 5
    ranks = rank_of(queries, vectors, np.array([row[2].row for row in found]), 2)
    assert ranks == [3] * 5


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="there is no file"):
        open_index(tmp_path / "none.npy")
    (tmp_path / "bad.npy").write_text("text")
    with pytest.raises(HeadwayError, match=r"is not a \.npy file"):
        open_index(tmp_path / "bad.npy")
    np.save(tmp_path / "flat.npy", np.arange(3))
    with pytest.raises(HeadwayError, match=r"holds an array of int64 \(3,\)"):
        open_index(tmp_path / "flat.npy")
    np.save(tmp_path / "empty.npy", np.zeros((0, 3), np.float32))
    with pytest.raises(HeadwayError, match="holds no vectors"):
        open_index(tmp_path / "empty.npy")
    with pytest.raises(HeadwayError, match="not of the same model"):
        search_vectors(np.ones((1, 2)), np.ones((1, 3)), 1)
    with pytest.raises(HeadwayError, match="k = 0"):
        search_vectors(np.ones((1, 2)), np.ones((1, 2)), 0)
