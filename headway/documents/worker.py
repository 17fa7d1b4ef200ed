"""A process that reads or writes one document, for a server: what a hostile file takes is bounded by the system.

    server ── job: extract ──▶ worker 1     the file, its name for messages, and the limits
           ◀─ segments | error ─
    server translates the segments: meanwhile nothing but their text is held
           ── job: write ────▶ worker 2     the same, where to write, and the results
           ◀─ counts | error ─

Both parse the document; the second finds the same segments. Messages are JSON on standard input and output. A worker
ends with its job, so all of its memory goes back."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from headway.documents.files import translate_file
from headway.documents.limits import DocumentLimits, format_bytes
from headway.documents.segments import SegmentRequest, SegmentResult
from headway.errors import HeadwayError

GROUP_SEGMENTS = 64  # that are queued for translation at a time
GROUP_CHARACTERS = 8000  # likewise, unless one segment alone has more
NICENESS = 5  # translating comes first
CPU_SECONDS = 60  # for one job


@dataclass(frozen=True, kw_only=True)
class WorkerJob:
    source: str
    name: str  # of the file, for messages and for its type
    limits: DocumentLimits
    memory: int | None = None  # bytes, for the process
    target: str | None = None  # where to write the translation; None: extract the segments
    results: Sequence[SegmentResult] = ()  # for all segments, in order
    language: str = ""  # of the translation

    def to_json(self) -> bytes:
        return json.dumps({**vars(self), "limits": vars(self.limits)}, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "WorkerJob":
        table = json.loads(data)
        results = [SegmentResult(*result) for result in table["results"]]
        return cls(**{**table, "limits": DocumentLimits(**table["limits"]), "results": results})


def group_segments(requests: Sequence[SegmentRequest]) -> list[list[SegmentRequest]]:
    """Groups of bounded size, in order."""
    groups: list[list[SegmentRequest]] = []
    characters = 0
    for request in requests:
        characters += len(request.text)
        if not groups or len(groups[-1]) == GROUP_SEGMENTS or characters > GROUP_CHARACTERS:
            groups.append([])
            characters = len(request.text)
        groups[-1].append(request)
    return groups


def run_job(job: WorkerJob) -> dict[str, Any]:
    """The answer: segments, counts, or an error."""
    if job.memory:
        bound_process(job.memory)
    try:
        if job.target is None:
            return {"segments": extract_segments(job.source, job.name, job.limits)}
        results = iter(job.results)

        def look_up(requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
            return list(islice(results, len(requests)))

        return {"counts": asdict(translate_file(job.source, job.target, look_up, job.name, job.limits, job.language))}
    except HeadwayError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"failure": error.strerror or str(error)}
    except (MemoryError, RecursionError):
        allowed = format_bytes(job.memory or 0)
        return {
            "error": f"{job.name} takes more than the {allowed} of memory that a document may take. Split it into "
            "smaller files."
        }


def extract_segments(source: str, name: str, limits: DocumentLimits) -> list[SegmentRequest]:
    """All segments of a document, in order."""
    segments: list[SegmentRequest] = []

    def collect(requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
        segments.extend(requests)
        return [SegmentResult(request.text) for request in requests]

    translate_file(source, os.devnull, collect, name, limits)
    return segments


def bound_process(memory: int) -> None:
    """Limit what this process may allocate and compute; should memory end all the same, it is the first to go."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICENESS)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:  # not Linux
        return


def main() -> None:
    writer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    answer = run_job(WorkerJob.from_json(sys.stdin.buffer.read()))
    writer.write(json.dumps(answer, separators=(",", ":")).encode())
    writer.close()


if __name__ == "__main__":
    main()
