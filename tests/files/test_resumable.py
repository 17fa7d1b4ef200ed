"""A file that grows by whole groups: stopped anywhere, it goes on from the last group that was sound."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.files.resumable import ResumableFile
from headway.files.text_files import read_lines

OPTIONS = {"--tag": "<BT>", "--text": ("a", "b")}


def opened(path: Path, begin: str = "new", options: dict[str, object] = OPTIONS) -> ResumableFile:
    return ResumableFile(path, begin, options, {"lines": 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.tsv.xz", "a.tsv.zst"])
def test_groups_become_one_file_that_is_there_only_at_the_end(tmp_path: Path, name: str) -> None:
    with opened(tmp_path / "new" / name) as file:
        file.add("ä\tb\n", {"lines": 1})
        file.add("", {"lines": 2})
        file.add("c\td\n", {"lines": 3})
        assert sorted(entry.name for entry in (tmp_path / "new").iterdir()) == [f"{name}.partial", f"{name}.progress"]
        file.finish()
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == [name]
    assert list(read_lines(tmp_path / "new" / name)) == ["ä\tb", "c\td"]


def stopped_after_one(path: Path) -> None:
    """As a killed process leaves it: the second group is half written, and FILE.progress does not know of it."""
    with opened(path) as file:
        file.add("one\n", {"lines": 7})
        file.file.write(b"tw")


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_what_a_killed_process_wrote_last_is_cut_off(tmp_path: Path, name: str) -> None:
    stopped_after_one(tmp_path / name)
    with opened(tmp_path / name, "resume") as file:
        assert file.counts == {"lines": 7}
        file.add("", {"lines": 8})
    with opened(tmp_path / name, "resume") as file:
        assert file.counts == {"lines": 8}
        file.add("two\n", {"lines": 9})
        file.finish()
    assert list(read_lines(tmp_path / name)) == ["one", "two"]
    if name.endswith(".gz"):
        assert (tmp_path / name).read_bytes() == gzip.compress(b"one\n", mtime=0) + gzip.compress(b"two\n", mtime=0)


def test_killed_before_the_first_group(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.partial").write_bytes(b"half a gro")
    with opened(tmp_path / "a.tsv", "resume") as file:
        assert file.counts == {"lines": 0}
        file.add("one\n", {"lines": 1})
        file.finish()
    assert (tmp_path / "a.tsv").read_text() == "one\n"


def test_nothing_is_written_over_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("mine\n")
    with pytest.raises(HeadwayError, match=r"a\.tsv already exists\. Choose another --out, or .* --overwrite\."):
        opened(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tsv"]
    with opened(path, "overwrite") as file:
        file.add("new\n", {"lines": 1})
        assert path.read_text() == "mine\n"  # until all of it is there
        file.finish()
    assert path.read_text() == "new\n"


def test_a_stopped_run_is_not_lost_unasked(tmp_path: Path) -> None:
    stopped_after_one(tmp_path / "a.tsv")
    with pytest.raises(HeadwayError, match=r"a\.tsv\.partial is left over from an interrupted run\. .* --resume"):
        opened(tmp_path / "a.tsv")
    with opened(tmp_path / "a.tsv", "overwrite") as file:
        assert file.counts == {"lines": 0}
        assert not (tmp_path / "a.tsv.progress").exists()
        file.finish()
    assert (tmp_path / "a.tsv").read_bytes() == b""


def test_two_runs_cannot_write_to_one_file(tmp_path: Path) -> None:
    with opened(tmp_path / "a.tsv") as file:
        file.add("one\n", {"lines": 1})
        for begin in ("resume", "overwrite"):
            with pytest.raises(HeadwayError, match=r"another run is writing to .*a\.tsv\. Wait until it ends"):
                opened(tmp_path / "a.tsv", begin)
        file.add("two\n", {"lines": 2})
        file.finish()
    assert (tmp_path / "a.tsv").read_text() == "one\ntwo\n"


def test_other_options_do_not_go_on(tmp_path: Path) -> None:
    stopped_after_one(tmp_path / "a.tsv")
    with pytest.raises(HeadwayError, match=r"was started with --tag '<BT>', not ''\. Give the same value, or start"):
        opened(tmp_path / "a.tsv", "resume", {**OPTIONS, "--tag": ""})
    with opened(tmp_path / "a.tsv", "resume", dict(OPTIONS)) as file:
        assert file.counts == {"lines": 7}


def change(**values: object) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps({**json.loads(content), **values}).encode()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: b"\x80\x04\x95 a pickle, say",
        lambda content: b"[" * 100_000,
        lambda content: b"[]",
        lambda content: b"{}",
        change(bytes="4"),
        change(bytes=-1),
        change(bytes=10**30),
        change(bytes=5000),
        change(bytes=float("nan")),
        change(counts=[]),
        change(counts={"lines": None}),
        change(counts={}),
        change(options=[]),
    ],
)
def test_a_damaged_progress_file_is_told(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    stopped_after_one(tmp_path / "a.tsv")
    progress = tmp_path / "a.tsv.progress"
    progress.write_bytes(spoil(progress.read_bytes()))
    before = (tmp_path / "a.tsv.partial").read_bytes()
    with pytest.raises(HeadwayError, match=r"progress does not match .*a\.tsv\.partial\. Start over with --over"):
        opened(tmp_path / "a.tsv", "resume")
    assert (tmp_path / "a.tsv.partial").read_bytes() == before
