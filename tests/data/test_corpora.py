"""Texts are counted once, told apart by what they say, and can be read again and again, from pipes too."""

import os
import pickle
import threading
from pathlib import Path

import pytest

import headway.data.corpora
from headway.data.corpora import ensure_rereadable, open_parallel, open_text, parallel_from_memory, text_from_memory
from headway.data.parallel_files import ParallelFiles


def pairs_file(folder: Path, name: str = "a.tsv", count: int = 30) -> ParallelFiles:
    (folder / name).write_text("".join(f"source {n}\ttarget of {n}\n" for n in range(count)))
    return ParallelFiles(str(folder / name), "", "en", "de")


def test_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = pairs_file(tmp_path)
    first = open_parallel(files)
    characters = sum(len(f"source {n}") + len(f"target of {n}") for n in range(30)) // 2
    assert first.counts == (30, 75, characters, 30, 0)  # words and characters: the mean of both sides
    monkeypatch.setattr(headway.data.corpora, "read_parallel", lambda files: 1 / 0)
    assert open_parallel(files).counts == first.counts  # nothing was read
    assert first.weight == 1.0 and (first.source_language, first.target_language) == ("en", "de")


def test_the_same_text_is_the_same_wherever_it_lies(tmp_path: Path) -> None:
    one, two = open_parallel(pairs_file(tmp_path)), open_parallel(pairs_file(tmp_path, "b.tsv"))
    other = open_parallel(pairs_file(tmp_path, "c.tsv", 31))
    assert one.identity == two.identity != other.identity
    assert open_parallel(pairs_file(tmp_path)._replace(columns=("2", "1"))).identity != one.identity
    assert parallel_from_memory(["a"], ["b"]).identity != parallel_from_memory(["b"], ["a"]).identity


def test_held_out_pairs_are_apart(tmp_path: Path) -> None:
    whole = open_parallel(pairs_file(tmp_path))
    kept, held = whole.split(4)
    assert (kept.counts.lines, held.counts.lines) == (26, 4)
    assert sorted([*kept.read(), *held.read()]) == sorted(whole.read())
    assert len({whole.identity, kept.identity, held.identity}) == 3
    assert list(whole.split(4)[1].read()) == list(held.read())
    assert list(pickle.loads(pickle.dumps(kept)).read()) == list(kept.read())  # another process can read it


def test_which_pairs_are_held_out_and_under_what_name(tmp_path: Path) -> None:
    """Neither may change: runs are gone on with."""
    kept, held = open_parallel(pairs_file(tmp_path)).split(4)
    assert [source for source, _ in held.read()] == ["source 8", "source 14", "source 17", "source 22"]
    assert (kept.identity[:8], held.identity[:8]) == ("da843be4", "6d1bae0e")


def test_without_some_pairs(tmp_path: Path) -> None:
    whole = open_parallel(pairs_file(tmp_path))
    assert whole.exclude(frozenset([("source 1", "target of 2")])) is whole
    fewer = whole.exclude(frozenset([("source 1", "target of 1")]))
    assert fewer.counts.lines == 29 and fewer.identity != whole.identity
    assert ("source 1", "target of 1") not in list(pickle.loads(pickle.dumps(fewer)).read())


def test_running_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\n\nthree\n")
    (tmp_path / "b.txt").write_text("four")
    text = open_text([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])
    assert list(text.read()) == ["one two", "", "three", "four"]
    assert text.counts == (4, 4, 16, 3, 0)
    kept, held = text.split(1)
    assert (list(kept.read()), list(held.read())) == (["one two", "", "three"], ["four"])
    assert (kept.counts.lines, held.counts.lines) == (3, 1)
    assert list(text_from_memory(["x"]).read()) == ["x"]


def test_a_pipe_is_kept_so_that_it_can_be_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.en.gz"
    os.mkfifo(pipe)
    import gzip

    threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(b"one\ntwo\n"))).start()
    kept = ensure_rereadable(str(pipe))
    assert kept != str(pipe) and Path(kept).name == "pipe.en"
    assert Path(kept).read_text() == "one\ntwo\n"
    plain = tmp_path / "plain"
    plain.touch()
    assert ensure_rereadable(str(plain)) == str(plain)
