"""Labelled pictures from folders, tables and memory: what is left out is counted and named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data.pictures.drawn import draw, make_rows, write_folder
from PIL import Image

from headway.data.labelled_files import hold_out
from headway.data.pictures.labelled import collect_pictures, read_labelled_pictures
from headway.errors import HeadwayError


def test_a_folder_for_each_label(tmp_path: Path) -> None:
    write_folder(tmp_path, 8)
    (tmp_path / "left" / "deeper").mkdir()
    Image.fromarray(draw("left", 99)).convert("L").save(tmp_path / "left" / "deeper" / "one.PNG")
    data, report = read_labelled_pictures([str(tmp_path)])
    assert data.label_counts() == {"bottom": 2, "left": 3, "right": 2, "top": 2} and report.messages == []
    assert data.task == "classify" and len(data.pictures) == data.lines == 9 and data.count_words() == 0
    assert {(p.size, p.is_grey) for p in data.pictures} == {((12, 12), False), ((12, 12), True)}


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    write_folder(tmp_path, 4)
    for number in range(5):
        (tmp_path / "left" / f"bad{number}.png").write_bytes(b"" if number else b"nothing")
    (tmp_path / "left" / "notes.txt").write_text("x")
    (tmp_path / ".DS_Store").write_text("x")
    Image.fromarray(draw("top", 1)).save(tmp_path / "beside.png")
    data, report = read_labelled_pictures([str(tmp_path)])
    assert data.lines == 4
    unreadable, unlabelled, others = report.messages
    assert (
        unreadable.startswith("5 pictures could not be read and were left out: ")
        and "bad0.png is no picture" in unreadable
    )
    assert "bad1.png is empty" in unreadable and "bad4" not in unreadable and unreadable.endswith(", …")
    assert unlabelled.startswith("1 pictures were left out: they lie beside") and others.startswith("1 files that")


def test_a_table(tmp_path: Path) -> None:
    write_folder(tmp_path / "all", 4)
    table = tmp_path / "labels.tsv"
    table.write_text("path\tlabel\nall/left/1.png\tdark\n\nall/top/3.png\tlight\nall/missing.png\tlight\n")
    data, report = read_labelled_pictures([str(table), str(tmp_path / "all")])
    assert data.label_counts() == {"bottom": 1, "dark": 1, "left": 1, "light": 1, "right": 1, "top": 1}
    assert "there is no file" in report.messages[0] and "missing.png" in report.messages[0]
    for line in ("one.png", "one.png\t", "\tx", "a.png\tb\tc"):
        table.write_text(f"{line}\n")
        with pytest.raises(HeadwayError, match=r"labels.tsv, line 1: give the path of a picture and its label"):
            read_labelled_pictures([str(table)])


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="there is no folder or file .*nowhere"):
        read_labelled_pictures([str(tmp_path / "nowhere")])
    with pytest.raises(HeadwayError, match=r"there is no picture with a label\. Give a folder with a folder for each"):
        read_labelled_pictures([str(tmp_path)])
    Image.fromarray(draw("top", 1)).save(tmp_path / "beside.png")
    with pytest.raises(HeadwayError, match="1 pictures were left out: they lie beside"):
        read_labelled_pictures([str(tmp_path)])


def test_rows_in_memory(tmp_path: Path) -> None:
    path = write_folder(tmp_path, 4) / "left" / "1.png"
    rows = [*make_rows(3), (path, "left"), (str(path), "left"), (Image.open(path), 7)]
    data = collect_pictures(rows)
    assert data.label_counts() == {"7": 1, "bottom": 1, "left": 3, "right": 1}
    assert len({picture.digest for picture in data.pictures}) == 4  # the same pixels in memory are alike, and a file's
    wrong: list[tuple[Any, str]] = [
        ([draw("left", 1)], r"data\[0\] is a ndarray: give tuples of a picture and its label"),
        ([(draw("left", 1), " ")], r"data\[0\]: the label is empty"),
        ([(np.zeros(3), "x")], "is no picture: give uint8"),
        ([(tmp_path / "no.png", "x")], "data: there is no file .*no.png"),
        ([], "data holds no picture"),
    ]
    for rows_given, message in wrong:
        with pytest.raises(HeadwayError, match=message):
            collect_pictures(rows_given)


def test_copies_are_not_in_both_parts(tmp_path: Path) -> None:
    """Whatever they are called."""
    for label in ("left", "right"):
        for number in range(10):
            (tmp_path / label).mkdir(exist_ok=True)
            Image.fromarray(draw(label, number // 2)).save(tmp_path / label / f"{number}.png")
    data, _ = read_labelled_pictures([str(tmp_path)])
    training, valid, copies = hold_out(data)
    assert valid.lines == 2 and copies == 2 and training.lines == 16
    assert not {p.digest for p in training.pictures} & {p.digest for p in valid.pictures}
    renamed = tmp_path / "renamed"
    renamed.mkdir()
    for label in ("left", "right"):
        (tmp_path / label).rename(renamed / label)
    assert read_labelled_pictures([str(renamed)])[0].identity == data.identity
