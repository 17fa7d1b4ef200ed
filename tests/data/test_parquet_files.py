"""Pairs in Parquet tables."""

import os
import sys
from pathlib import Path

import pytest

from headway.data.corpora import open_parallel
from headway.data.parallel_files import ParallelFiles, read_parallel, resolve_layout
from headway.errors import HeadwayError

parquet = pytest.importorskip("pyarrow.parquet")
import pyarrow  # noqa: E402

PAIRS = [(f"Line {number}.", f"{number}. Zeile") for number in range(3000)]


def put(path: Path, columns: dict[str, list[object]]) -> ParallelFiles:
    parquet.write_table(pyarrow.table(columns), path, row_group_size=1000)
    return ParallelFiles(str(path))


def test_columns_of_languages_and_a_column_translation(tmp_path: Path) -> None:
    sides = {"en": [source for source, _ in PAIRS], "de": [target for _, target in PAIRS]}
    files = put(tmp_path / "a.parquet", {"id": list(range(3000)), **sides})
    assert list(read_parallel(files)) == PAIRS
    assert resolve_layout(files)[2:4] == ("en", "de")
    assert list(read_parallel(files._replace(source_language="de", target_language="en")))[1] == PAIRS[1][::-1]
    nested = put(tmp_path / "b.parquet", {"translation": [{"en": a, "de": b} for a, b in PAIRS], "id": [1] * 3000})
    assert list(read_parallel(nested)) == PAIRS
    assert open_parallel(nested).counts.lines == 3000
    chosen = put(tmp_path / "c.parquet", {"x": ["a"], "y": ["b\nc"]})
    assert list(read_parallel(chosen._replace(columns=("y", "x")))) == [("b c", "a")]


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HeadwayError, match="c.parquet, row 1 has the keys x, y: expected texts under source and"):
        list(read_parallel(put(tmp_path / "c.parquet", {"x": ["a"], "y": ["b"]})))
    with pytest.raises(HeadwayError, match="d.parquet, row 2: what it has under en and de is not text"):
        list(read_parallel(put(tmp_path / "d.parquet", {"en": ["a", None], "de": ["b", "c"]})))
    (tmp_path / "e.parquet").write_bytes(b"PAR1 no table")
    with pytest.raises(HeadwayError, match="e.parquet is no Parquet table: "):
        list(read_parallel(ParallelFiles(str(tmp_path / "e.parquet"))))
    os.mkfifo(tmp_path / "f.parquet")
    with pytest.raises(HeadwayError, match="is read from its end, so it cannot come through a pipe"):
        open_parallel(ParallelFiles(str(tmp_path / "f.parquet")))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(HeadwayError, match=r"needs pyarrow. Install it with: pip install 'headway\[parquet\]'"):
        list(read_parallel(ParallelFiles(str(tmp_path / "c.parquet"))))


def test_a_damaged_page_is_an_error_with_the_row(tmp_path: Path) -> None:
    files = put(tmp_path / "a.parquet", {"en": [a for a, _ in PAIRS], "de": [b for _, b in PAIRS]})
    data = bytearray(Path(files.source).read_bytes())
    middle = len(data) // 3
    data[middle : middle + 4000] = bytes(4000)
    Path(files.source).write_bytes(data)
    with pytest.raises(HeadwayError, match="the table is damaged: "):
        list(read_parallel(files))
