"""Document workers: what a hostile file takes is bounded, and the process that read it is gone afterwards."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from documents.office_files import docx, packed, run, unpacked
from headway.documents.limits import DocumentLimits
from headway.documents.segments import SegmentRequest, SegmentResult
from headway.documents.worker import GROUP_CHARACTERS, GROUP_SEGMENTS, WorkerJob, group_segments, run_job

MEMORY = 150 << 20
LIMITS = DocumentLimits(
    part_bytes=16 << 20, unpacked_bytes=80 << 20, elements=100_000, characters=50_000, file_bytes=10 << 20
)


def work(job: WorkerJob) -> tuple[dict[str, Any], int]:
    """The answer of a worker, and its peak size in bytes."""
    measured = (
        "import re, sys; from headway.documents import worker; worker.main(); "
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", measured], input=job.to_json(), capture_output=True, timeout=120)
    return (json.loads(done.stdout) if done.stdout else {}), 1024 * int(done.stderr.split()[-1] if done.stdout else 0)


def put(folder: Path, name: str, content: bytes) -> WorkerJob:
    (folder / name).write_bytes(content)
    return WorkerJob(source=str(folder / name), name=name, limits=LIMITS, memory=MEMORY)


def test_a_document_is_read_and_written_by_two_workers(tmp_path: Path) -> None:
    job = put(tmp_path, "a.docx", docx(f"<w:p>{run('The red house')}</w:p><w:p>{run('A dog')}</w:p>"))
    segments = work(job)[0]["segments"]
    assert segments == [["The red house", False], ["A dog", False]]
    results = [SegmentResult(text.upper(), None, ["loud"]) for text, _ in segments]
    target = tmp_path / "b.docx"
    answer, _ = work(WorkerJob(**{**vars(job), "target": str(target), "results": results}))
    assert answer["counts"] == {
        "segments": 2,
        "translated": 2,
        "warnings": ['"The red house": loud', '"A dog": loud'],
    }
    assert b"THE RED HOUSE" in unpacked(target.read_bytes())["word/document.xml"]


def bombs() -> dict[str, tuple[bytes, str]]:
    """Each with what is said about it."""
    elements = "has more than 100,000 elements"
    return {
        "tiny.docx": (docx("<w:p/>" * 1_900_000), elements),
        "runs.docx": (docx(f"<w:p>{run('a')}</w:p>" * 60_000), elements),
        "deep.docx": (docx("<w:p>" * 90_000 + "</w:p>" * 90_000), "nested more than 150 deep"),
        "text.docx": (docx(f"<w:p>{run('a' * (15 << 20))}</w:p>"), "more than 50,000 characters"),
        "parts.odt": (packed({"content.xml": "<x/>", **{f"a{n}": b"" for n in range(10_001)}}), "at most 10,000"),
        "picture.odt": (packed({"content.xml": "<x/>", "a.png": bytes(100 << 20)}), "refused as a zip bomb"),
        "tags.html": (b"<b>a</b>" * 1_000_000, elements),
        "lines.txt": (b"a\n" * 4_000_000, elements),
        "line.txt": (b"a" * (9 << 20), "more than 50,000 characters"),
        "cue.srt": (b"1\n00:00:01,000 --> 00:00:02,000\n" + b"a" * (1 << 20), "more than 50,000 characters"),
        "tags.srt": (b"1\n00:00:01,000 --> 00:00:02,000\n" + b"<i>" * (1 << 20), elements),
        "messages.po": (b'msgid "a"\nmsgstr ""\n\n' * 300_000, elements),
    }


@pytest.mark.parametrize("name", bombs())
def test_bombs_are_refused_and_take_little(name: str, tmp_path: Path) -> None:
    content, told = bombs()[name]
    answer, peak = work(put(tmp_path, name, content))
    assert told in answer["error"]
    assert 0 < peak < MEMORY + (30 << 20)  # the program itself has shared libraries


def test_the_system_bounds_what_the_limits_let_pass(tmp_path: Path) -> None:
    content = docx(f"<w:p>{run('a')}</w:p>" * 40_000)
    loose = DocumentLimits(elements=10**9)
    job = put(tmp_path, "a.docx", content)
    answer, peak = work(WorkerJob(**{**vars(job), "limits": loose, "memory": 60 << 20}))
    assert "a.docx takes more than the 60 MiB of memory that a document may take" in answer["error"]
    assert peak < 100 << 20


def test_a_target_that_cannot_be_written_is_no_fault_of_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = put(tmp_path, "a.txt", b"one")
    job = WorkerJob(**{**vars(job), "target": str(tmp_path / "b.txt"), "memory": None, "results": [SegmentResult("x")]})

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headway.documents.files.os.replace", full)
    assert run_job(job) == {"failure": "No space left on device"}
    assert sorted(os.listdir(tmp_path)) == ["a.txt"]


def test_a_process_is_bounded_and_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.documents import worker

    calls: list[Any] = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: calls.append((kind, limits[0])))
    monkeypatch.setattr(os, "nice", lambda count: calls.append(count))

    def no_file(*_: Any) -> Any:
        raise OSError

    monkeypatch.setattr("builtins.open", no_file)
    worker.bound_process(1000)
    assert (resource.RLIMIT_DATA, 1000) in calls
    assert worker.NICENESS in calls


def test_groups_are_bounded() -> None:
    def sizes(requests: Sequence[SegmentRequest]) -> list[int]:
        groups = group_segments(requests)
        assert [request for group in groups for request in group] == list(requests)
        return [len(group) for group in groups]

    assert sizes([]) == []
    assert sizes([SegmentRequest("a")] * (GROUP_SEGMENTS + 1)) == [GROUP_SEGMENTS, 1]
    assert sizes([SegmentRequest("a" * GROUP_CHARACTERS), SegmentRequest("b")]) == [1, 1]
    assert sizes([SegmentRequest("a" * (2 * GROUP_CHARACTERS))]) == [1]
