"""One budget of memory: work that does not fit is refused, and what is free is given back."""

import asyncio
import ctypes
import os
import time
from pathlib import Path
from typing import Any

import pytest
from event_loops import run_async

from headway.serve import memory
from headway.serve.errors import ApiError
from headway.serve.memory import MemoryBudget
from serve.conftest import running, until

BODY = {"q": "A dog.", "source": "en", "target": "qtx"}


def short_of(budget: MemoryBudget, monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    monkeypatch.setattr(budget, "resident_bytes", lambda: int(share * budget.limit))


def test_work_is_refused_while_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = MemoryBudget(1000)
    given: list[str] = []
    budget.release_memory = lambda: given.append("models")
    monkeypatch.setattr(memory, "trim_heap", lambda: given.append("heap"))
    short_of(budget, monkeypatch, 0.5)
    budget.check(heavy=True)
    short_of(budget, monkeypatch, 0.9)
    budget.check()
    until(lambda: given == ["models", "heap"])
    with pytest.raises(ApiError, match="short of memory") as error:
        budget.check(heavy=True)
    assert error.value.status == 503
    assert int(error.value.headers["Retry-After"]) > 0
    assert given == ["models", "heap"]  # not at every request
    short_of(budget, monkeypatch, 1.1)
    with pytest.raises(ApiError):
        budget.check()


def test_reservations_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = MemoryBudget(1000)
    short_of(budget, monkeypatch, 0.5)
    with budget.reserve(400):
        with pytest.raises(ApiError), budget.reserve(200):
            pass
        with budget.reserve(100):
            assert budget.reserved_bytes == 500
    assert budget.reserved_bytes == 0
    with pytest.raises(ApiError), budget.reserve(501):
        pass
    assert budget.reserved_bytes == 0


def test_workers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = MemoryBudget(None)
    alone = budget.resident_bytes()
    assert alone > 10 << 20
    with budget.count_worker(os.getpid()):
        assert budget.resident_bytes() > 1.5 * alone
    assert memory.read_resident(2**30) == 0


def test_the_limit_is_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    files = [tmp_path / "none", tmp_path / "max", tmp_path / "group"]
    files[1].write_text("max\n")
    files[2].write_text("1000000\n")
    monkeypatch.setattr(memory, "cgroup_limit_files", lambda: iter(files[:2]))
    assert memory.available_bytes() == machine
    monkeypatch.setattr(memory, "cgroup_limit_files", lambda: iter(files))
    assert MemoryBudget(None).limit == 900_000
    assert MemoryBudget(5000).limit == 5000


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("0::/a/b\n", ["a/b/memory.max", "memory.max"]),
        ("4:cpu,memory:/a\n5:pids:/\n", ["memory/a/memory.limit_in_bytes", "memory/memory.limit_in_bytes"]),
        (None, []),
    ],
)
def test_control_groups(lines: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> str:
        if lines is None:
            raise OSError
        return lines

    monkeypatch.setattr(Path, "read_text", read)
    found = [str(path.relative_to(memory.CGROUP_ROOT)) for path in memory.cgroup_limit_files()]
    assert found == expected


def test_freed_memory_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Library:
        def malloc_trim(self, keep: int) -> None:
            calls.append("trim")

        def mallopt(self, name: int, value: int) -> None:
            calls.append((name, value))

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    memory.trim_heap()
    memory.limit_arenas()
    assert calls == ["trim", (-8, memory.MAX_ARENAS)]

    def missing(name: Any) -> Any:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", missing)
    memory.trim_heap()
    memory.limit_arenas()
    assert len(calls) == 2


def test_a_server_returns_memory_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = MemoryBudget(1000)
    trimmed: list[bool] = []
    monkeypatch.setattr(memory, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(memory, "trim_heap", lambda collect: trimmed.append(collect))

    async def act() -> None:
        watching = asyncio.create_task(budget.watch())
        end = time.monotonic() + 10
        while len(trimmed) < memory.WATCHES_PER_COLLECTION and time.monotonic() < end:
            await asyncio.sleep(0.01)
        watching.cancel()

    run_async(act())
    assert trimmed[0] is False
    assert trimmed[memory.WATCHES_PER_COLLECTION - 1] is True


def test_requests_while_memory_is_short(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(translator_dir) as server:
        short_of(server.state.memory, monkeypatch, 0.9)
        assert server.post("/translate", BODY).status_code == 200
        assert server.post("/api/translate", BODY).status_code == 503
        html = server.post("/translate", {**BODY, "format": "html"})
        assert html.status_code == 503
        upload = {"file": ("a.txt", b"A dog.")}
        refused = server.post("/translate_file", data={"source": "en", "target": "qtx"}, files=upload)
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        short_of(server.state.memory, monkeypatch, 1.1)
        assert server.post("/translate", BODY).status_code == 503
        assert server.get("/health").status_code == 200
        assert server.state.memory.reserved_bytes == 0
        assert server.state.open_streams == 0
