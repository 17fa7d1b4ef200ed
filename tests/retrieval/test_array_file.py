"""Arrays that grow on disk, and are mapped into memory."""

from pathlib import Path

import numpy as np
import pytest

from headway.errors import HeadwayError
from headway.retrieval.array_file import ArrayWriter, map_array, write_array


def test_an_interrupted_array_goes_on_behind_its_last_complete_row(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    with ArrayWriter(tmp_path / "a", 3, "<f4") as writer:
        writer.append(rows[:2])
    with (tmp_path / "a.partial").open("ab") as file:
        file.write(b"12345")  # of a row that a killed process did not finish
    with ArrayWriter(tmp_path / "a", 3, "<f4") as writer:
        assert writer.rows == 2
        writer.append(rows[2:])
        writer.finish()
    assert np.array_equal(map_array(tmp_path / "a", 3, "<f4", 4), rows) and not (tmp_path / "a.partial").exists()


def test_what_is_damaged_is_refused(tmp_path: Path) -> None:
    write_array(tmp_path / "a", np.zeros((3, 2)), "<i8")
    assert map_array(tmp_path / "a", 2, "<i8", 3).tolist() == [[0, 0]] * 3
    for rows in (2, 4):
        with pytest.raises(HeadwayError, match="truncated or damaged"):
            map_array(tmp_path / "a", 2, "<i8", rows)
    with pytest.raises(HeadwayError, match="cannot be read"):
        map_array(tmp_path / "b", 2, "<i8")
    write_array(tmp_path / "c", np.zeros((0, 2)), "<i8")
    assert map_array(tmp_path / "c", 2, "<i8").shape == (0, 2)
