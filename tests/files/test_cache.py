"""What is kept is complete or absent, is made again when it is damaged, and goes when nobody uses it."""

import os
import time
from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.files.cache import (
    MAX_UNUSED_SECONDS,
    READY_FILE,
    cache_folder,
    delete_stale_entries,
    fingerprint,
    load_or_build,
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def number(value: int, built: list[int]) -> int:
    def build(folder: Path) -> None:
        built.append(value)
        (folder / "number").write_text(str(value))

    def load(folder: Path) -> int:
        return int((folder / "number").read_text())

    return load_or_build("number", fingerprint([str(value)]), build, load)


def test_built_once_and_found_again() -> None:
    built: list[int] = []
    assert [number(5, built), number(5, built), number(6, built)] == [5, 5, 6]
    assert built == [5, 6]


def test_damaged_is_built_again(own_cache: Path) -> None:
    built: list[int] = []
    number(5, built)
    [entry] = own_cache.iterdir()
    for damage in (b"not a number", b""):
        (entry / "number").write_bytes(damage)
        assert number(5, built) == 5
    (entry / "number").unlink()
    assert number(5, built) == 5
    assert built == [5] * 4


def test_a_build_that_fails_leaves_nothing(own_cache: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_or_build("thing", "key", build, lambda folder: folder)
    assert list(own_cache.iterdir()) == []


def test_another_process_may_be_faster(own_cache: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "mine").touch()
        other = own_cache / "thing-key"
        other.mkdir()
        (other / READY_FILE).touch()
        (other / "theirs").touch()

    found = load_or_build("thing", "key", build, lambda folder: sorted(path.name for path in folder.iterdir()))
    assert found == [READY_FILE, "theirs"]
    assert [path.name for path in own_cache.iterdir()] == ["thing-key"]


def test_what_nobody_used_for_a_month_goes(own_cache: Path) -> None:
    built: list[int] = []
    number(1, built)
    number(2, built)
    old, new = sorted(own_cache.iterdir(), key=lambda path: (path / "number").read_text())
    left = own_cache / ".rows-x.123.partial"
    left.mkdir()
    long_ago = time.time() - MAX_UNUSED_SECONDS - 5
    os.utime(old / READY_FILE, (long_ago, long_ago))
    os.utime(left, (long_ago, long_ago))
    delete_stale_entries()
    assert list(own_cache.iterdir()) == [new]


def test_a_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(HeadwayError, match=r"file cannot be written to: Not a directory. Tokenised text is kept there"):
        number(1, [])


def test_a_full_disk_is_named(own_cache: Path) -> None:
    def build(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(HeadwayError, match=r"cannot be written to: No space left on device"):
        load_or_build("thing", "key", build, lambda folder: folder)
    assert list(own_cache.iterdir()) == []


def test_it_lies_where_the_system_keeps_such_things(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/headway")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "headway"


def test_fingerprints_tell_parts_apart() -> None:
    assert fingerprint(["ab", "c"]) != fingerprint(["a", "bc"])
    assert fingerprint(["ab"]) == fingerprint(iter(["ab"]))
    assert fingerprint(["\ud800"])
