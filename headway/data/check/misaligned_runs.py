"""Misaligned runs: consecutive lines whose sides do not match, though no single line is proof enough, and their offset.

Runs are found by a Viterbi search over the log-odds of the lines; then the shift of the target that matches best."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.pair_classifier import PairClassifier, SentencePairs
from headway.data.check.raw_lines import read_pairs_at
from headway.data.check.report import MisalignedRun
from headway.data.check.scan import count_characters, extract_features, half_numbers
from headway.data.parallel_files import ParallelFiles

ENTER_NATS = 8.0  # cost of the start of a run
LEAVE_NATS = 2.0  # cost of its end
MIN_RUN_LINES = 3
MAX_LINE_NATS = 6.0  # evidence that one line can give
MAX_OFFSET = 3  # lines by which a run may be shifted
MAX_EXAMINED_RUNS = 100  # for which an offset is looked for
MAX_EXAMINED_LINES = 100  # of a run
MIN_OFFSET_GAIN = 2.0  # nats a line, for an offset to be reported
MIN_ALIGNED_GAIN = 0.5  # nats a line, by which lines that belong together are better than at any offset


class LineRun(NamedTuple):
    start: int
    stop: int  # exclusive


def find_misaligned_runs(evidence: Sequence[float], min_lines: int = MIN_RUN_LINES) -> list[LineRun]:
    """The most likely division into aligned and misaligned lines, by a Viterbi search with two states.

    `evidence`: log-odds, in nats, that a line is misaligned."""
    good = 0.0
    moved = -math.inf
    begins = bytearray(len(evidence))
    ends = bytearray(len(evidence))
    for number, value in enumerate(evidence):
        value = max(-MAX_LINE_NATS, min(MAX_LINE_NATS, value))
        ends[number] = moved - LEAVE_NATS > good
        begins[number] = good - ENTER_NATS > moved
        good, moved = max(good, moved - LEAVE_NATS), max(moved, good - ENTER_NATS) + value
    runs: list[LineRun] = []
    stop = len(evidence)
    inside = moved > good
    for number in range(len(evidence) - 1, -1, -1):
        if inside and begins[number]:
            if stop - number >= min_lines:
                runs.append(LineRun(number, stop))
            inside = False
        elif not inside and ends[number]:
            inside = True
            stop = number
    return runs[::-1]


def find_offsets(
    runs: Sequence[MisalignedRun], corpora: Sequence[ParallelFiles], lines: Sequence[int], classifier: PairClassifier
) -> list[MisalignedRun]:
    """The runs, the first MAX_EXAMINED_RUNS of them with their offsets, and without those that match best as they
    are: free translations, one after the other."""
    before = np.cumsum([0, *lines])
    spans = []
    for run in runs[:MAX_EXAMINED_RUNS]:
        first = max(0, run.first - 1 - MAX_OFFSET)
        last = min(run.last, run.first + MAX_EXAMINED_LINES, lines[run.corpus] - MAX_OFFSET) + MAX_OFFSET
        spans.append(range(before[run.corpus] + first, before[run.corpus] + last))
    texts = dict(read_pairs_at(corpora, sorted({number for span in spans for number in span})))
    found = []
    for run, span in zip(runs, spans):
        half = half_numbers(span.start - int(before[run.corpus]), len(span))
        offset = _best_offset([texts[number] for number in span], half, classifier)
        if offset is not None:
            found.append(run._replace(offset=offset))
    return [*found, *runs[MAX_EXAMINED_RUNS:]]


def _best_offset(pairs: Sequence[tuple[str, str]], half: NDArray[np.int64], classifier: PairClassifier) -> int | None:
    """The offset at which the lines look most like translations; 0 if none is clearly better than no offset, None if
    every one is clearly worse."""
    log_odds = {
        offset: _mean_log_odds(pairs, half, classifier, offset) for offset in range(-MAX_OFFSET, MAX_OFFSET + 1)
    }
    best = min(log_odds, key=log_odds.__getitem__)
    if best == 0 and sorted(log_odds.values())[1] > log_odds[0] + MIN_ALIGNED_GAIN:
        return None
    return best if log_odds[best] < log_odds[0] - MIN_OFFSET_GAIN else 0


def _mean_log_odds(
    pairs: Sequence[tuple[str, str]], half: NDArray[np.int64], classifier: PairClassifier, offset: int
) -> float:
    sources = [source for source, _ in pairs]
    targets = [target for _, target in pairs]
    count = len(pairs) - abs(offset)
    first = max(0, -offset)
    source = extract_features(sources[first : first + count])
    target = extract_features(targets[max(0, offset) :][:count])
    sentences = SentencePairs(
        source.words, target.words, count_characters(source.lines), count_characters(target.lines)
    )
    return float(np.mean(classifier.log_odds(sentences, half[first : first + count])))
