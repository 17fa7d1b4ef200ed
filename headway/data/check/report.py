"""CheckReport: the faults found in a corpus, by kind and by line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.faults import FAULT_BITS, FAULT_KINDS, FaultKind
from headway.data.check.raw_lines import Faults, count_header_lines, is_by_line
from headway.data.parallel_files import ParallelFiles

if TYPE_CHECKING:
    from headway.data.check.examples import FaultExample


class PairLocation(NamedTuple):
    corpus: int
    line: int  # counted from 1


class MisalignedRun(NamedTuple):
    """Consecutive lines whose two sides do not match."""

    corpus: int
    first: int  # counted from 1
    last: int
    offset: int = 0  # the translations are this many lines further down; 0 if no offset matches


class DuplicatePairs(NamedTuple):
    numbers: NDArray[np.int64]  # of the repeated pairs, in ascending order
    originals: NDArray[np.int64]  # the first pair equal to each


class Finding(NamedTuple):
    kind: FaultKind
    pairs: int
    share: float


@dataclass(frozen=True)
class CheckReport:
    corpora: Sequence[ParallelFiles]
    lines: Sequence[int]  # of each corpus
    languages: tuple[str, str]
    faults: Faults  # (pairs,) bits, over all corpora
    duplicates: DuplicatePairs
    runs: list[MisalignedRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def pairs(self) -> int:
        return len(self.faults)

    def findings(self) -> list[Finding]:
        """Every kind of fault that was found. A pair with several faults counts for each."""
        counts = [(kind, int(np.count_nonzero(self.faults & FAULT_BITS[kind.name]))) for kind in FAULT_KINDS]
        return [Finding(kind, count, count / self.pairs) for kind, count in counts if count]

    def numbers(self, kind: str) -> NDArray[np.int64]:
        """The pairs with a fault, counted from 0 over all corpora."""
        return np.flatnonzero(self.faults & FAULT_BITS[kind])

    def locate(self, number: int) -> PairLocation:
        ends = np.cumsum(self.lines)
        corpus = int(np.searchsorted(ends, number, side="right"))
        return PairLocation(corpus, int(number - (ends[corpus] - self.lines[corpus])) + self.first_line(corpus))

    def first_line(self, corpus: int) -> int:
        """The line of the first pair: a header comes before it. Rows that may have several lines are counted by
        themselves."""
        files = self.corpora[corpus]
        return 1 + (count_header_lines(files) if is_by_line(files) else 0)

    def format_location(self, location: PairLocation) -> str:
        """line 17, or with several corpora: line 17 of FILE."""
        unit = "line" if is_by_line(self.corpora[location.corpus]) else "row"
        return f"{unit} {location.line:,}{self.of_file(location.corpus)}"

    def located_runs(self) -> list[MisalignedRun]:
        """The misaligned runs, by the lines of their files."""
        headers = [self.first_line(run.corpus) - 1 for run in self.runs]
        return [run._replace(first=run.first + h, last=run.last + h) for run, h in zip(self.runs, headers)]

    def of_file(self, corpus: int) -> str:
        return f" of {Path(self.corpora[corpus].source).name}" if len(self.corpora) > 1 else ""

    def lines_of(self, kind: str) -> dict[str, list[int]]:
        """The lines with a fault, by corpus."""
        numbers = self.numbers(kind)
        first = 0
        found: dict[str, list[int]] = {}
        for corpus, (files, count) in enumerate(zip(self.corpora, self.lines)):
            inside = numbers[(numbers >= first) & (numbers < first + count)]
            if len(inside):
                found[str(files)] = (inside - first + self.first_line(corpus)).tolist()
            first += count
        return found

    def original(self, number: int) -> int:
        """The first pair equal to a duplicate."""
        return int(self.duplicates.originals[np.searchsorted(self.duplicates.numbers, number)])

    def clean(self, keep: Sequence[str] = ()) -> NDArray[np.bool_]:
        """The pairs without faults other than those to keep."""  # (pairs,)
        allowed = sum(FAULT_BITS[name] for name in keep)
        clean: NDArray[np.bool_] = (self.faults & ~np.uint16(allowed)) == 0
        return clean

    def removed(self, keep: Sequence[str] = ()) -> Iterator[tuple[FaultKind, int]]:
        """The number of pairs removed for each kind of fault; a pair with several counts for the first."""
        remaining = ~self.clean(keep)
        for kind in FAULT_KINDS:
            if kind.name not in keep:
                removed = remaining & ((self.faults & FAULT_BITS[kind.name]) != 0)
                remaining &= ~removed
                if removed.any():
                    yield kind, int(removed.sum())


def report_to_json(
    report: CheckReport, examples: Mapping[str, list["FaultExample"]], keep: Sequence[str], clean: str
) -> dict[str, Any]:
    """The whole report for --json."""
    left_out = {kind.name: count for kind, count in report.removed(keep)}
    return {
        "files": [str(files) for files in report.corpora],
        "lines": list(report.lines),
        "languages": {"source": report.languages[0], "target": report.languages[1]},
        "pairs": report.pairs,
        "remains": int(report.clean(keep).sum()),
        "clean": clean or None,
        "findings": [
            {
                "name": finding.kind.name,
                "title": finding.kind.title,
                "meaning": finding.kind.meaning,
                "pairs": finding.pairs,
                "share": finding.share,
                "left_out": left_out.get(finding.kind.name, 0),
                "lines": report.lines_of(finding.kind.name),
                "examples": [
                    {
                        **_location_to_json(report, e.location),
                        "source": e.source,
                        "target": e.target,
                        "detail": e.detail,
                    }
                    for e in examples.get(finding.kind.name, [])
                ],
            }
            for finding in report.findings()
        ],
        "runs": [
            {
                **_location_to_json(report, PairLocation(run.corpus, run.first)),
                "last": run.last,
                "offset": run.offset,
            }
            for run in report.located_runs()
        ],
        "notes": report.notes,
    }


def _location_to_json(report: CheckReport, location: PairLocation) -> dict[str, Any]:
    return {"file": str(report.corpora[location.corpus]), "line": location.line}
