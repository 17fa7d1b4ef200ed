"""What a check has found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.faults import BITS, KINDS, Kind
from headway.data.check.raw_lines import Faults
from headway.data.parallel_files import ParallelFiles

if TYPE_CHECKING:
    from headway.data.check.examples import Example


class Place(NamedTuple):
    corpus: int
    line: int  # counted from 1


class MovedRun(NamedTuple):
    """Lines in a row whose two sides do not belong together."""

    corpus: int
    first: int  # counted from 1
    last: int
    offset: int = 0  # so many lines further down stand the translations; 0 where none of the next ones fits


class Duplicates(NamedTuple):
    numbers: NDArray[np.int64]  # of pairs that an earlier one equals, in ascending order
    originals: NDArray[np.int64]  # the first pair that is like each


class Finding(NamedTuple):
    kind: Kind
    pairs: int
    share: float


@dataclass(frozen=True)
class Report:
    corpora: Sequence[ParallelFiles]
    lines: Sequence[int]  # of each corpus
    languages: tuple[str, str]
    faults: Faults  # (pairs,) bits, of all corpora behind each other
    duplicates: Duplicates
    runs: list[MovedRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def pairs(self) -> int:
        return len(self.faults)

    def findings(self) -> list[Finding]:
        """Every kind that was found. A pair with several faults counts for each."""
        counts = [(kind, int(np.count_nonzero(self.faults & BITS[kind.name]))) for kind in KINDS]
        return [Finding(kind, count, count / self.pairs) for kind, count in counts if count]

    def numbers(self, kind: str) -> NDArray[np.int64]:
        """Which pairs have a fault, counted from 0 over all corpora."""
        return np.flatnonzero(self.faults & BITS[kind])

    def place(self, number: int) -> Place:
        ends = np.cumsum(self.lines)
        corpus = int(np.searchsorted(ends, number, side="right"))
        return Place(corpus, int(number - (ends[corpus] - self.lines[corpus])) + 1)

    def name(self, place: Place) -> str:
        """line 17; and of which file, where there are several."""
        return f"line {place.line:,}{self.of_file(place.corpus)}"

    def of_file(self, corpus: int) -> str:
        return f" of {Path(self.corpora[corpus].source).name}" if len(self.corpora) > 1 else ""

    def lines_of(self, kind: str) -> dict[str, list[int]]:
        """Every line with a fault, by the corpus."""
        numbers, first = self.numbers(kind), 0
        found: dict[str, list[int]] = {}
        for files, count in zip(self.corpora, self.lines):
            inside = numbers[(numbers >= first) & (numbers < first + count)]
            if len(inside):
                found[str(files)] = (inside - first + 1).tolist()
            first += count
        return found

    def original(self, number: int) -> int:
        """The first pair that is like a duplicate."""
        return int(self.duplicates.originals[np.searchsorted(self.duplicates.numbers, number)])

    def clean(self, keep: Sequence[str] = ()) -> NDArray[np.bool_]:
        """The pairs without faults, or with none but those to keep."""  # (pairs,)
        allowed = sum(BITS[name] for name in keep)
        clean: NDArray[np.bool_] = (self.faults & ~np.uint16(allowed)) == 0
        return clean

    def removed(self, keep: Sequence[str] = ()) -> Iterator[tuple[Kind, int]]:
        """How many pairs go for each kind of fault: each pair for the first that it has."""
        rest = ~self.clean(keep)
        for kind in KINDS:
            if kind.name not in keep:
                gone = rest & ((self.faults & BITS[kind.name]) != 0)
                rest &= ~gone
                if gone.any():
                    yield kind, int(gone.sum())


def as_object(
    report: Report, examples: Mapping[str, list["Example"]], keep: Sequence[str], clean: str
) -> dict[str, Any]:
    """Everything, for programs."""
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
                    {**_place(report, e.place), "source": e.source, "target": e.target, "detail": e.detail}
                    for e in examples.get(finding.kind.name, [])
                ],
            }
            for finding in report.findings()
        ],
        "runs": [
            {**_place(report, Place(run.corpus, run.first)), "last": run.last, "offset": run.offset}
            for run in report.runs
        ],
        "notes": report.notes,
    }


def _place(report: Report, place: Place) -> dict[str, Any]:
    return {"file": str(report.corpora[place.corpus]), "line": place.line}
