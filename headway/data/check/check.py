"""The whole check: survey, learn, scan, and what can only be told when everything has been seen."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headway.data.check.faults import BITS
from headway.data.check.first_pass import survey
from headway.data.check.fit import learn
from headway.data.check.misaligned_runs import find_runs, with_offsets
from headway.data.check.pair_classifier import Judge
from headway.data.check.pool import scan_all
from headway.data.check.raw_lines import Faults, decoded, groups, refuse_unreadable
from headway.data.check.report import Duplicates, MovedRun, Report
from headway.data.check.scan import HeldOut, Texts, held_out, texts_of
from headway.data.check.settings import Settings
from headway.data.parallel_files import ParallelFiles
from headway.errors import HeadwayError

Progress = Callable[[str, int, int], None]  # what is done, how many pairs of it, of how many
Singles = NDArray[np.float32]


def quiet(what: str, done: int, total: int) -> None:
    """Shows nothing."""


def check(
    corpora: Sequence[ParallelFiles],
    settings: Settings | None = None,
    *,
    valid: Sequence[ParallelFiles] = (),
    test: Sequence[ParallelFiles] = (),
    progress: Progress = quiet,
) -> Report:
    """Look at every pair of one or more corpora of one pair of languages, as one corpus.

    Memory: 60 bytes a pair at most, half a gigabyte while it learns, and a quarter for each process."""
    settings = settings or Settings()
    for files in (*corpora, *valid, *test):
        refuse_unreadable(files)
    progress("reading", 0, 0)
    lines, sample = survey(corpora)
    total = sum(lines)
    if not total:
        raise HeadwayError(f"{', '.join(map(str, corpora))}: there is no line in it.")
    progress("learning", 0, 0)
    knowledge, notes = learn(corpora, sample, settings)
    knowledge = knowledge._replace(
        held_out={kind: _held_out(files) for kind, files in (("valid", valid), ("test", test)) if files}
    )
    faults, hashes, odds = np.zeros(total, np.uint16), np.zeros(total, np.uint64), np.zeros(total, np.float32)
    done = 0
    for part in scan_all(corpora, total, knowledge, settings):
        here = slice(done, done + len(part.faults))
        faults[here], hashes[here], odds[here] = part
        done = here.stop
        progress("checking", done, total)
    duplicates = find_duplicates(hashes)
    faults[duplicates.numbers] |= BITS["duplicate"]
    runs: list[MovedRun] = []
    if knowledge.judge:
        runs = mark_misaligned(faults, odds, lines, knowledge.judge, settings.doubt)
        runs = with_offsets(runs, corpora, lines, knowledge.judge)
    languages = tuple(
        given or found.language
        for given, found in (
            (settings.source_language, knowledge.source),
            (settings.target_language, knowledge.target),
        )
    )
    return Report(corpora, lines, (languages[0], languages[1]), faults, duplicates, runs, notes)


def find_duplicates(hashes: NDArray[np.uint64]) -> Duplicates:
    order = np.argsort(hashes, kind="stable")
    again = np.concatenate([[False], hashes[order[1:]] == hashes[order[:-1]]])
    first = np.maximum.accumulate(np.where(again, 0, np.arange(len(order))))  # of each run of equals
    numbers, originals = order[again], order[first[again]]
    ascending = np.argsort(numbers)
    return Duplicates(numbers[ascending], originals[ascending])


def mark_misaligned(faults: Faults, odds: Singles, lines: Sequence[int], judge: Judge, doubt: float) -> list[MovedRun]:
    """Pairs that are doubtful by themselves, and those in runs, whatever each says alone."""
    compared = ~np.isnan(odds)
    evidence = np.nan_to_num(odds.astype(np.float64))
    misaligned = compared & (judge.doubt(evidence) > doubt)
    found: list[MovedRun] = []
    first = 0
    for corpus, count in enumerate(lines):
        runs = find_runs(evidence[first : first + count].tolist())
        for run in runs:
            misaligned[first + run.start : first + run.stop] = compared[first + run.start : first + run.stop]
        found += [MovedRun(corpus, run.start + 1, run.stop) for run in runs]
        first += count
    faults[misaligned] |= BITS["misaligned"]
    return found


def _held_out(corpora: Sequence[ParallelFiles]) -> HeldOut:
    survey(corpora)  # says so where files do not fit together
    return held_out(list(_texts(corpora)))


def _texts(corpora: Sequence[ParallelFiles]) -> Iterator[tuple[Texts, Texts]]:
    for group in groups(corpora):
        pairs = decoded(corpora[group.corpus], group.first, group.lines)
        yield texts_of(pairs.source), texts_of(pairs.target)
