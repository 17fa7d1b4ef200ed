"""By how many lines a run of moved lines has moved.

Lines in a row that do not belong together, where each alone would not be proof enough."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.pair_classifier import Judge, Sentences
from headway.data.check.raw_lines import pairs_at
from headway.data.check.report import MovedRun
from headway.data.check.scan import half_of, letters_in, texts_of
from headway.data.parallel_files import ParallelFiles

FURTHEST = 3
MOST = 10  # runs that are looked at
LONGEST = 100  # lines of a run that are looked at
MUCH = 2.0  # nats a line


def with_offsets(
    runs: Sequence[MovedRun], corpora: Sequence[ParallelFiles], lines: Sequence[int], judge: Judge
) -> list[MovedRun]:
    """The first runs with their offsets; the others as they are."""
    before = np.cumsum([0, *lines])
    spans = []
    for run in runs[:MOST]:
        first = max(0, run.first - 1 - FURTHEST)
        last = min(run.last, run.first + LONGEST, lines[run.corpus] - FURTHEST) + FURTHEST
        spans.append(range(before[run.corpus] + first, before[run.corpus] + last))
    texts = dict(pairs_at(corpora, sorted({number for span in spans for number in span})))
    found = []
    for run, span in zip(runs, spans):
        half = half_of(span.start - int(before[run.corpus]), len(span))
        found.append(run._replace(offset=_offset([texts[number] for number in span], half, judge)))
    return [*found, *runs[MOST:]]


def _offset(pairs: Sequence[tuple[str, str]], half: NDArray[np.int64], judge: Judge) -> int:
    """The offset at which the lines look most like translations; 0 where none is much better than none at all."""
    odds = {offset: _mean_odds(pairs, half, judge, offset) for offset in range(-FURTHEST, FURTHEST + 1)}
    best = min(odds, key=odds.__getitem__)
    return best if odds[best] < odds[0] - MUCH else 0


def _mean_odds(pairs: Sequence[tuple[str, str]], half: NDArray[np.int64], judge: Judge, offset: int) -> float:
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    count = len(pairs) - abs(offset)
    first = max(0, -offset)
    source, target = texts_of(sources[first : first + count]), texts_of(targets[max(0, offset) :][:count])
    sentences = Sentences(source.words, target.words, letters_in(source.lines), letters_in(target.lines))
    return float(np.mean(judge.odds(sentences, half[first : first + count])))


ENTER, LEAVE = 8.0, 2.0  # nats against a run's beginning here, and its ending
SHORTEST = 3
CLIP = 6.0  # nats that one line can give


class Run(NamedTuple):
    start: int
    stop: int  # one behind its last line


def find_runs(evidence: Sequence[float], shortest: int = SHORTEST) -> list[Run]:
    """The likeliest division into good and moved lines (Viterbi's algorithm with two states).

    `evidence`: nats by which a line looks moved rather than good."""
    good, moved = 0.0, -math.inf
    begins, ends = bytearray(len(evidence)), bytearray(len(evidence))
    for number, value in enumerate(evidence):
        value = max(-CLIP, min(CLIP, value))
        ends[number] = moved - LEAVE > good
        begins[number] = good - ENTER > moved
        good, moved = max(good, moved - LEAVE), max(moved, good - ENTER) + value
    runs: list[Run] = []
    stop = len(evidence)
    inside = moved > good
    for number in range(len(evidence) - 1, -1, -1):
        if inside and begins[number]:
            if stop - number >= shortest:
                runs.append(Run(number, stop))
            inside = False
        elif not inside and ends[number]:
            inside, stop = True, number
    return runs[::-1]
