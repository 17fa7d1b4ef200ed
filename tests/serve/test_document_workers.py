"""Document workers: few at a time, in turns, and gone when nobody waits for them."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from documents.office_files import docx, run
from event_loops import run_async

from headway.documents.segments import SegmentRequest, SegmentResult
from headway.errors import HeadwayError
from headway.serve.document_workers import MAX_WAITING, MAX_WORKERS, DocumentWorkers, document_limits
from headway.serve.errors import ApiError
from headway.serve.memory import MemoryBudget
from headway.serve.settings import Limits
from serve.conftest import running, until

BODY = {"source": "en", "target": "qtx"}


def act(work: Callable[[DocumentWorkers], Awaitable[Any]], **limits: Any) -> Any:
    async def run() -> Any:
        return await work(DocumentWorkers(Limits(**limits), MemoryBudget(None)))

    return run_async(run())


def test_what_a_document_may_take_follows_from_the_limits_of_the_server() -> None:
    usual = document_limits(Limits())
    assert usual.characters == 50_000
    assert usual.elements == 100_000
    assert usual.unpacked_bytes == 80 << 20
    large = document_limits(Limits(file_characters=10**7, file_bytes=1 << 20))
    assert large.characters == 10**7
    assert large.elements > 10**7
    assert large.part_bytes >= 10**7
    small = DocumentWorkers(Limits(), MemoryBudget(900 << 20))
    assert small.worker_bytes * MAX_WORKERS < 450 << 20


def test_a_document_is_read_and_written(tmp_path: Path) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("one dog\ntwo dogs\n")

    async def work(workers: DocumentWorkers) -> Any:
        segments = await workers.extract(source, "file.txt", "me")
        assert segments == [SegmentRequest("one dog"), SegmentRequest("two dogs")]
        return await workers.write(source, target, "file.txt", "me", [SegmentResult(s.text.upper()) for s in segments])

    counts = act(work)
    assert (counts.segments, counts.translated) == (2, 2)
    assert target.read_text() == "ONE DOG\nTWO DOGS\n"


def test_a_worker_that_dies_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(HeadwayError, match="file.txt cannot be read: it takes too much memory or time"):
        act(lambda workers: workers.extract(tmp_path / "a.txt", "file.txt", "me"))


def test_a_full_disk_is_no_fault_of_the_client(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("one dog")
    target = Path("/dev/full") if os.path.exists("/dev/full") else tmp_path
    with pytest.raises(ApiError, match="the translated file cannot be stored: ") as error:
        act(lambda workers: workers.write(source, target, "file.txt", "me", [SegmentResult("x")]))
    assert error.value.status == 503


def test_places_go_to_clients_in_turn() -> None:
    order: list[str] = []

    async def work(workers: DocumentWorkers) -> None:
        gates = {name: asyncio.Event() for name in ("a1", "a2", "a3", "a4", "b1", "c1")}

        async def hold(name: str) -> None:
            async with workers._place(name[0]):
                order.append(name)
                await gates[name].wait()

        tasks = {}
        for name in gates:
            tasks[name] = asyncio.create_task(hold(name))
            await asyncio.sleep(0.01)
        assert order == ["a1", "a2"][:MAX_WORKERS]
        tasks["a3"].cancel()
        for name in ("a1", "b1", "a2", "c1", "a4"):
            gates[name].set()
            await asyncio.sleep(0.01)
        assert order == ["a1", "a2", "b1", "c1", "a4"]
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert not workers._running.total()

    act(work)


def test_in_little_memory_there_is_one_at_a_time() -> None:
    async def act() -> None:
        workers = DocumentWorkers(Limits(), MemoryBudget(1 << 20))
        assert workers._has_place()
        async with workers._place("a"):
            assert not workers._has_place()

    run_async(act())


def test_who_waits_with_the_most_is_refused_first() -> None:
    async def work(workers: DocumentWorkers) -> None:
        end = asyncio.Event()

        async def hold(client: str) -> None:
            async with workers._place(client):
                await end.wait()

        greedy = [asyncio.create_task(hold("greedy")) for _ in range(MAX_WORKERS + MAX_WAITING)]
        await asyncio.sleep(0.01)
        with pytest.raises(ApiError, match="Slowdown"):
            await hold("greedy")
        other = asyncio.create_task(hold("other"))
        await asyncio.sleep(0.01)
        refused = [task for task in greedy if task.done()]
        assert len(refused) == 1
        assert isinstance(refused[0].exception(), ApiError)
        greedy[MAX_WORKERS].cancel()
        end.set()
        await other
        await asyncio.gather(*greedy, return_exceptions=True)
        assert not workers._running.total() and not workers._waiting

    act(work)


def test_a_place_is_not_lost_when_its_turn_comes_too_late() -> None:
    async def work(workers: DocumentWorkers) -> None:
        async def hold() -> None:
            async with workers._place("a"):
                await asyncio.sleep(0.05)

        running = [asyncio.create_task(hold()) for _ in range(MAX_WORKERS)]
        waiting = asyncio.create_task(hold())
        await asyncio.sleep(0)
        for task in running:
            task.cancel()
        while not workers._waiting[0].turn.done() if workers._waiting else False:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(*running, waiting, return_exceptions=True)
        assert not workers._running.total()

    act(work)


def test_a_client_that_leaves_takes_its_worker_along(translator_dir: Path, tmp_path: Path) -> None:
    """The document is still being read when the time is up: its process is killed."""
    content = docx(f"<w:p>{run('a')}</w:p>" * 15_000)
    with running(translator_dir, limits={"request_seconds": 0.3}) as server:
        began = time.monotonic()
        answer = server.post("/translate_file", data=BODY, files={"file": ("a.docx", content)})
        assert answer.status_code == 504
        assert time.monotonic() - began < 5
        until(lambda: not server.state.memory._workers, 5)
        until(lambda: not [path for path in server.state.downloads.folder.iterdir() if path.name != "lock"], 5)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.txt", b"A dog. " * 20, "the file has more than 100 characters of text"),
        ("a.docx", docx("<w:p/>" * 110_000), "more than 100,000 elements"),
    ],
)
def test_files_obey_the_limits(translator_dir: Path, name: str, content: bytes, told: str) -> None:
    with running(translator_dir, limits={"file_characters": 100}) as server:
        status, error = server.error("/translate_file", data=BODY, files={"file": (name, content)})
        assert status == 400
        assert told in error
        assert server.state.pool.models[0].loaded is None  # refused before anything is translated
