"""Translated files: found by names that nobody can guess, and gone when they are no longer needed."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from event_loops import run_async

from headway.serve.downloads import Downloads, hold_folder, remove_leftovers, select_excess
from headway.serve.errors import ApiError
from headway.serve.settings import Limits
from serve.conftest import Running, running, until

BODY = {"source": "en", "target": "qtx"}


def store(files: Downloads, client: str = "a", size: int = 1, age: float = 0.0) -> Path:
    path = files.new_path(".txt", client)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def make_downloads(tmp_path: Path, **limits: Any) -> Downloads:
    (tmp_path / "files").mkdir(exist_ok=True)
    return Downloads(str(tmp_path / "files"), Limits(**limits))


def test_files_are_found_by_names_that_nobody_can_guess(served: Running, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("x")
    files = make_downloads(tmp_path, stored_seconds=100.0)
    one = store(files)
    assert files.find(one.name) == one
    assert len({files.new_path(".txt", "a") for _ in range(100)}) == 100
    for name in ("../secret.txt", "..%2fsecret.txt", "/etc/passwd", f"{one.stem}", f"x{one.name}", "", "lock"):
        with pytest.raises(ApiError, match="Invalid filename"):
            files.find(name)
    with pytest.raises(ApiError, match="no such file"):
        files.find("0" * 32 + ".txt")
    os.utime(one, (0, 0))
    with pytest.raises(ApiError, match="no such file"):
        files.find(one.name)
    files.make_room()
    assert not one.exists()
    assert served.get("/download_file/..%2f..%2fetc%2fpasswd").status_code in (400, 404)
    assert served.get("/download_file/passwd").json() == {"error": "Invalid filename"}
    files.close()


def test_nobody_is_refused_because_of_others(tmp_path: Path) -> None:
    """Beyond the limit, the oldest file of the client with the most goes."""
    files = make_downloads(tmp_path, stored_files=10, client_stored_files=8)
    mine = store(files, "me", age=50)
    theirs = [store(files, "they", age=40 - n) for n in range(30)]
    files.make_room()
    assert mine.exists()
    assert [path.exists() for path in theirs] == [False] * 22 + [True] * 8
    others = [store(files, f"client {n}") for n in range(20)]
    files.make_room()
    assert len(list(files.folder.glob("*.txt"))) == 10
    assert sum(path.exists() for path in others) > 5
    files.close()


def test_stored_bytes_are_bounded() -> None:
    sizes = [("a", 5), ("a", 5), ("b", 1), ("a", 5)]
    files = [(Path(str(n)), client, size) for n, (client, size) in enumerate(sizes)]
    assert select_excess(list(files), Limits(stored_bytes=12)) == [Path("0")]
    assert select_excess(list(files), Limits(stored_bytes=0)) == [Path("0"), Path("1"), Path("3"), Path("2")]
    assert select_excess(list(files), Limits()) == []


def test_uploads_are_never_in_the_way_and_never_found(tmp_path: Path) -> None:
    files = make_downloads(tmp_path, stored_files=1, request_seconds=10.0)
    upload = files.new_upload(".txt")
    upload.write_text("x")
    left = files.new_upload(".txt")
    left.write_text("x")
    os.utime(left, (0, 0))
    done = store(files)
    files.make_room()
    assert upload.exists() and done.exists()
    assert not left.exists()  # by a worker that was killed
    with pytest.raises(ApiError, match="Invalid filename"):
        files.find(upload.name)
    files.close()


def translate(server: Running) -> str:
    made = server.post("/translate_file", data=BODY, files={"file": ("a.txt", b"A dog.")}).json()
    return str(made["translatedFileUrl"]).removeprefix(server.url)


def test_a_file_goes_soon_after_it_was_downloaded(translator_dir: Path) -> None:
    with running(translator_dir, limits={"downloaded_seconds": 1.0}) as server:
        address = translate(server)
        assert server.get(address).status_code == 200
        assert server.get(address, headers={"Range": "bytes=0-1"}).status_code == 206  # a client that asks again
        until(lambda: not list(server.state.downloads.folder.glob("*.txt")))
        assert server.get(address).status_code == 404


def test_looking_is_not_downloading(translator_dir: Path) -> None:
    import httpx

    with running(translator_dir, limits={"downloaded_seconds": 0.1}) as server:
        address = translate(server)
        assert httpx.head(server.url + address).status_code == 200
        time.sleep(0.5)
        assert server.get(address).status_code == 200


def test_more_files_than_there_is_room_for(translator_dir: Path) -> None:
    with running(translator_dir, limits={"stored_files": 3}) as server:
        addresses = [translate(server) for _ in range(5)]
        assert [server.get(address).status_code for address in addresses] == [404, 404, 200, 200, 200]


def test_leftovers_of_killed_servers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    hold = "import sys, time; from pathlib import Path; from headway.serve.downloads import hold_folder; "
    hold += "kept = hold_folder(Path(sys.argv[1])); print(flush=True); time.sleep(60)"
    folders = {name: tmp_path / f"headway-files-{name}" for name in ("killed", "alive", "new", "old")}
    for folder in folders.values():
        folder.mkdir()
        (folder / "x.txt").write_text("x")
    os.utime(folders["old"], (0, 0))
    processes = {}
    for name in ("killed", "alive"):
        processes[name] = subprocess.Popen(
            [sys.executable, "-c", hold, str(folders[name])], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert processes[name].stdout.readline()  # type: ignore[union-attr]
    processes["killed"].kill()
    processes["killed"].wait()
    try:
        files = Downloads(None, Limits())
        assert sorted(path.name.split("-")[2] for path in tmp_path.iterdir() if path != files.folder) == [
            "alive",
            "new",
        ]
        files.close()
        assert not files.folder.exists()
    finally:
        processes["alive"].kill()
        processes["alive"].wait()
        for process in processes.values():
            process.stdout.close()  # type: ignore[union-attr]


def test_processes_of_one_server_hold_its_folder_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = tmp_path / "headway-serve-shared"
    (root / "files").mkdir(parents=True)
    one, two = hold_folder(root / "files"), hold_folder(root / "files")
    one.close()
    remove_leftovers()
    assert root.exists()
    two.close()
    remove_leftovers()
    assert not root.exists()


def test_a_download_that_is_repeated_starts_the_time_again(tmp_path: Path) -> None:
    async def act() -> None:
        files = make_downloads(tmp_path, downloaded_seconds=0.4)
        path = store(files)
        for _ in range(3):
            files.delete_later(path)
            await asyncio.sleep(0.2)
            assert path.exists()
        await asyncio.sleep(1)
        assert not path.exists()
        files.delete_later(path)
        files.close()

    run_async(act())
