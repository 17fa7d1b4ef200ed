"""Rows on disk are the rows that were written, and a damaged file is told from a whole one."""

from pathlib import Path

import numpy as np
import pytest

from headway.data.ragged import (
    RaggedArray,
    RaggedWriter,
    concatenate_ragged,
    iterate_ranges,
    open_ragged,
    ragged_from_arrays,
    ragged_from_lists,
)
from headway.errors import HeadwayError


def write(folder: Path, largest: int = 100) -> RaggedArray:
    with RaggedWriter(folder, "x", largest) as writer:
        writer.append(ragged_from_lists([[1, 2, 3], []]))
        writer.append(ragged_from_lists([[4]], lead=[9], tail=[8]))
    return open_ragged(folder, "x")


@pytest.mark.parametrize(("largest", "dtype"), [(100, "u2"), (65_535, "u2"), (65_536, "u4")])
def test_written_and_opened(tmp_path: Path, largest: int, dtype: str) -> None:
    rows = write(tmp_path, largest)
    assert [rows[n].tolist() for n in range(len(rows))] == [[1, 2, 3], [], [9, 4, 8]]
    assert rows.flat.dtype == np.dtype(dtype)
    assert rows.lengths().tolist() == [3, 0, 3]
    assert rows.lengths(1).tolist() == [0, 3]
    assert rows.lengths(1, 2).tolist() == [0]
    assert isinstance(rows.flat.base, np.memmap)


def test_rows_are_taken_framed_and_joined() -> None:
    lists = [[1, 2, 3], [], [4], [5, 6]]
    rows, empty = ragged_from_lists(lists), ragged_from_lists([])
    for chosen in ([3, 0, 1, 0], [1], []):
        taken = rows.take(np.array(chosen, np.int64))
        assert [taken[n].tolist() for n in range(len(taken))] == [lists[n] for n in chosen]
        framed = taken.wrap_rows([7], [8, 9])
        assert [framed[n].tolist() for n in range(len(framed))] == [[7, *lists[n], 8, 9] for n in chosen]
    both = concatenate_ragged([rows, empty, ragged_from_arrays([np.array([9, 9])])])
    assert [both[n].tolist() for n in range(len(both))] == [*lists, [9, 9]]
    assert len(concatenate_ragged([empty])) == len(ragged_from_arrays([])) == len(empty.wrap_rows([1], [2])) == 0


def test_no_rows_can_be_kept_too(tmp_path: Path) -> None:
    with RaggedWriter(tmp_path, "x", 5):
        pass
    assert len(open_ragged(tmp_path, "x")) == 0


@pytest.mark.parametrize(("file", "kept"), [("x.u2.ids", 3), ("x.u2.ids", 4), ("x.ends", 16), ("x.ends", 17)])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, file: str, kept: int) -> None:
    write(tmp_path)
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:kept])
    with pytest.raises(HeadwayError, match=r"is truncated or damaged"):
        open_ragged(tmp_path, "x")


def test_rows_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"does not hold the rows x"):
        open_ragged(tmp_path, "x")
    write(tmp_path)
    (tmp_path / "x.ends").unlink()
    with pytest.raises(HeadwayError, match=r"does not hold the rows x"):
        open_ragged(tmp_path, "x")


def test_stretches_cover_everything_once() -> None:
    assert list(iterate_ranges(0)) == []
    assert list(iterate_ranges(7, 3)) == [(0, 3), (3, 6), (6, 7)]
