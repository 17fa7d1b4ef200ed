"""What is kept is complete or absent, is made again when it is damaged, and goes when nobody uses it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.files.cache import (
    IN_USE_PREFIX,
    MAX_UNUSED_SECONDS,
    READY_FILE,
    cache_folder,
    delete_stale_entries,
    fingerprint,
    load_or_build,
)


def entries(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if not path.name.startswith(IN_USE_PREFIX)]


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
    [entry] = entries(own_cache)
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
    assert [path.name for path in entries(own_cache)] == ["thing-key"]


def test_what_nobody_used_for_a_month_goes(own_cache: Path) -> None:
    code = "from test_cache import number; number(1, []); number(2, [])"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=True)
    old, new = sorted(entries(own_cache), key=lambda path: (path / "number").read_text())
    left = own_cache / ".rows-x.4194305.partial"  # no process has this number
    left.mkdir()
    long_ago = time.time() - MAX_UNUSED_SECONDS - 5
    os.utime(old / READY_FILE, (long_ago, long_ago))
    os.utime(left, (long_ago, long_ago))
    delete_stale_entries()
    assert list(own_cache.iterdir()) == [new]


def test_a_clock_that_jumps_ahead_deletes_nothing_that_is_in_use(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what this process uses, nor what another does or builds."""
    code = "from test_cache import number; number(1, []); print(flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout and other.stdin
    other.stdout.readline()
    number(2, [])
    (own_cache / f".rows-x.{os.getpid()}.partial").mkdir()
    later = time.time() + 2 * MAX_UNUSED_SECONDS
    monkeypatch.setattr(time, "time", lambda: later)
    number(3, [])
    assert len([path for path in entries(own_cache) if path.name.startswith("number-")]) == 3
    assert (own_cache / f".rows-x.{os.getpid()}.partial").exists()
    other.communicate(b"\n")
    delete_stale_entries()
    assert len([path for path in entries(own_cache) if path.name.startswith("number-")]) == 2


def test_what_was_used_while_the_clock_was_ahead_ages_from_now_on(own_cache: Path) -> None:
    folder = own_cache / "thing-key"
    folder.mkdir(parents=True)
    (folder / READY_FILE).touch()
    ahead = time.time() + MAX_UNUSED_SECONDS
    os.utime(folder / READY_FILE, (ahead, ahead))
    delete_stale_entries()
    assert abs((folder / READY_FILE).stat().st_mtime - time.time()) < 3600


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
