"""check(): first pass, fit, scan, and the faults that show only in the whole corpus: duplicates and misaligned runs."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headway.data.check.faults import FAULT_BITS
from headway.data.check.first_pass import read_first_pass
from headway.data.check.fit import fit_corpus
from headway.data.check.misaligned_runs import find_misaligned_runs, find_offsets
from headway.data.check.pool import scan_corpora
from headway.data.check.raw_lines import Faults, check_corpus_files, decode_pairs, read_groups
from headway.data.check.report import CheckReport, DuplicatePairs, MisalignedRun
from headway.data.check.scan import HeldOutHashes, SideFeatures, extract_features, hash_held_out
from headway.data.check.settings import CheckSettings
from headway.data.parallel_files import ParallelFiles, resolve_layout
from headway.errors import HeadwayError

Progress = Callable[[str, int, int], None]  # the stage, pairs done, pairs in total
Singles = NDArray[np.float32]


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Show nothing."""


def check(
    corpora: Sequence[ParallelFiles],
    settings: CheckSettings | None = None,
    *,
    valid: Sequence[ParallelFiles] = (),
    test: Sequence[ParallelFiles] = (),
    progress: Progress = ignore_progress,
) -> CheckReport:
    """Check every pair of one or more corpora in one pair of languages, as one corpus.

    Memory: at most 60 bytes a pair, half a gigabyte while fitting, and a quarter for each process."""
    settings = settings or CheckSettings()
    for files in (*corpora, *valid, *test):
        check_corpus_files(files)
    corpora, valid, test = ([resolve_layout(files) for files in part] for part in (corpora, valid, test))
    progress("reading", 0, 0)
    lines, sample = read_first_pass(corpora)
    total = sum(lines)
    if not total:
        raise HeadwayError(f"{', '.join(map(str, corpora))}: the corpus is empty.")
    progress("learning", 0, 0)
    model, notes = fit_corpus(corpora, sample, settings)
    notes = [files.layout.note for files in (*corpora, *valid, *test) if files.layout and files.layout.note] + notes
    model = model._replace(
        held_out={kind: _hash_held_out(files) for kind, files in (("valid", valid), ("test", test)) if files}
    )
    faults = np.zeros(total, np.uint16)
    hashes = np.zeros(total, np.uint64)
    log_odds = np.zeros(total, np.float32)
    novelty = np.zeros(total, np.float16)
    done = 0
    for part in scan_corpora(corpora, total, model, settings):
        here = slice(done, done + len(part.faults))
        faults[here], hashes[here], log_odds[here], novelty[here] = part
        done = here.stop
        progress("checking", done, total)
    duplicates = find_duplicates(hashes)
    faults[duplicates.numbers] |= FAULT_BITS["duplicate"]
    runs: list[MisalignedRun] = []
    if model.classifier:
        runs = find_offsets(find_runs(log_odds, novelty, lines), corpora, lines, model.classifier)
        doubt = model.classifier.doubt(np.nan_to_num(log_odds.astype(np.float64)))
        mark_misaligned(faults, log_odds, lines, runs, doubt > settings.doubt)
    languages = tuple(
        given or found.language
        for given, found in (
            (settings.source_language, model.source),
            (settings.target_language, model.target),
        )
    )
    return CheckReport(corpora, lines, (languages[0], languages[1]), faults, duplicates, runs, notes)


def find_duplicates(hashes: NDArray[np.uint64]) -> DuplicatePairs:
    """Pairs with the hash of an earlier one."""
    order = np.argsort(hashes, kind="stable")
    is_repeat = np.concatenate([[False], hashes[order[1:]] == hashes[order[:-1]]])
    first = np.maximum.accumulate(np.where(is_repeat, 0, np.arange(len(order))))  # of each group of equal pairs
    numbers, originals = order[is_repeat], order[first[is_repeat]]
    ascending = np.argsort(numbers)
    return DuplicatePairs(numbers[ascending], originals[ascending])


def find_runs(log_odds: Singles, novelty: NDArray[np.float16], lines: Sequence[int]) -> list[MisalignedRun]:
    """The misaligned runs of all corpora. In a sorted corpus, lines are like those before them, and what misleads the
    classifier in one does so in all: a line counts for a run by as much as is new in it."""
    evidence = np.nan_to_num(log_odds.astype(np.float64))
    evidence = np.where(evidence > 0, evidence * novelty, evidence)
    found: list[MisalignedRun] = []
    first = 0
    for corpus, count in enumerate(lines):
        runs = find_misaligned_runs(evidence[first : first + count].tolist())
        found += [MisalignedRun(corpus, run.start + 1, run.stop) for run in runs]
        first += count
    return found


def mark_misaligned(
    faults: Faults, log_odds: Singles, lines: Sequence[int], runs: Sequence[MisalignedRun], doubtful: NDArray[np.bool_]
) -> None:
    """Mark pairs that are doubtful by themselves, and all pairs of misaligned runs."""
    compared = ~np.isnan(log_odds)
    misaligned = compared & doubtful
    before = np.cumsum([0, *lines])
    for run in runs:
        here = slice(before[run.corpus] + run.first - 1, before[run.corpus] + run.last)
        misaligned[here] = compared[here]
    faults[misaligned] |= FAULT_BITS["misaligned"]


def _hash_held_out(corpora: Sequence[ParallelFiles]) -> HeldOutHashes:
    read_first_pass(corpora)  # raises if two files have different numbers of lines
    return hash_held_out(list(_texts(corpora)))


def _texts(corpora: Sequence[ParallelFiles]) -> Iterator[tuple[SideFeatures, SideFeatures]]:
    for group in read_groups(corpora):
        pairs = decode_pairs(corpora[group.corpus], group.first, group.lines)
        yield extract_features(pairs.source), extract_features(pairs.target)
