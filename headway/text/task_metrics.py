"""Metrics of tasks on top of an encoder, with 95 % confidence intervals by the bootstrap: accuracy, macro-F1, span and
tag F1, Spearman's and Pearson's correlation, recall at k."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

BOOTSTRAP_SAMPLES = 1000
CONFIDENCE = 0.95
OUTSIDE = "O"

Span = tuple[int, int, str]  # first word, the one after the last, type
Statistic = Callable[[np.ndarray], float]  # of the rows drawn


class TaskScore(NamedTuple):
    """A metric on all examples, and the interval in which 95 % of its resamples lie."""

    name: str
    value: float
    low: float
    high: float


def bootstrap(
    name: str, statistic: Statistic, count: int, samples: int = BOOTSTRAP_SAMPLES, seed: int = 1
) -> TaskScore:
    """The percentile bootstrap over `count` examples. `statistic` computes the metric of the rows it is given."""
    value = statistic(np.arange(count))
    random = np.random.default_rng(seed)
    drawn = [statistic(random.integers(count, size=count)) for _ in range(samples)] if samples else [value]
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(np.asarray(drawn), [tail, 100 - tail])
    return TaskScore(name, float(value), float(low), float(high))


def score_classes(gold: Sequence[str], predicted: Sequence[str], samples: int = BOOTSTRAP_SAMPLES) -> list[TaskScore]:
    """Accuracy, and the mean F1 of the labels that occur in either list, each counted alike."""
    true, guess = number_labels(gold, predicted)

    def accuracy(rows: np.ndarray) -> float:
        return float((true[rows] == guess[rows]).mean())

    def macro_f1(rows: np.ndarray) -> float:
        return mean_f1(true[rows], guess[rows])

    return [bootstrap(name, one, len(true), samples) for name, one in (("accuracy", accuracy), ("macro_f1", macro_f1))]


def number_labels(gold: Sequence[str], predicted: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Both lists as numbers of the labels that occur in either."""
    index = {name: number for number, name in enumerate(sorted({*gold, *predicted}))}
    true, guess = (np.array([index[name] for name in names], np.int64) for names in (gold, predicted))
    return true, guess


def mean_f1(true: np.ndarray, guess: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The mean F1 of the labels that occur. `weights`: how often each example counts."""
    count = 1 + int(max(true.max(), guess.max()))
    same = true == guess
    hits = np.bincount(true[same], None if weights is None else weights[same], count)
    total = np.bincount(true, weights, count) + np.bincount(guess, weights, count)
    present = total > 0
    return float((2 * hits[present] / total[present]).mean())


def find_spans(tags: Sequence[str]) -> list[Span]:
    """The spans of BIO, IOB or BIOES tags, as CoNLL's conlleval reads them: a change of type begins a new one."""
    spans: list[Span] = []
    start, kind = 0, ""
    for number, tag in enumerate([*tags, OUTSIDE]):
        mark, _, own = tag.partition("-")
        inside = tag != OUTSIDE and mark in ("I", "E", "M", "L") and own == kind
        if kind and not inside:
            spans.append((start, number, kind))
            kind = ""
        if tag != OUTSIDE and not inside:
            start, kind = number, own
        if kind and mark in ("E", "S", "L", "U"):
            spans.append((start, number + 1, kind))
            kind = ""
    return spans


def uses_spans(tags: Sequence[str]) -> bool:
    """Whether tags mark spans: O, and others that begin with B-, I- and the like."""
    marks = {tag.partition("-")[0] for tag in tags if tag != OUTSIDE}
    return OUTSIDE in tags and bool(marks) and all("-" in t for t in tags if t != OUTSIDE) and marks <= set("BIESMLU")


def score_tags(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], samples: int = BOOTSTRAP_SAMPLES
) -> list[TaskScore]:
    """F1 of spans where tags mark such, and the accuracy of tags; else their accuracy and mean F1. Texts are
    resampled, not words: those of one text are not independent."""
    correct = np.array([sum(a == b for a, b in zip(one, other)) for one, other in zip(gold, predicted)])
    words = np.array([len(one) for one in gold])
    scores = [bootstrap("accuracy", lambda rows: float(correct[rows].sum() / words[rows].sum()), len(words), samples)]
    if uses_spans(sorted({tag for tags in gold for tag in tags})):
        found = [(set(find_spans(one)), set(find_spans(other))) for one, other in zip(gold, predicted)]
        counts = np.array([(len(one & other), len(one), len(other)) for one, other in found])

        def span_f1(rows: np.ndarray) -> float:
            both, true, guess = counts[rows].sum(0)
            return float(2 * both / max(true + guess, 1))

        return [bootstrap("span_f1", span_f1, len(words), samples), *scores]
    true, guess = number_labels([t for one in gold for t in one], [t for one in predicted for t in one])

    def macro_f1(rows: np.ndarray) -> float:
        return mean_f1(true, guess, np.bincount(rows, minlength=len(words)).repeat(words))

    return [*scores, bootstrap("macro_f1", macro_f1, len(words), samples)]


def rank(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, of equal values their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: np.ndarray = (ends - (counts - 1) / 2)[inverse]
    return means


def correlate(one: np.ndarray, other: np.ndarray) -> float:
    """Pearson's correlation; 0 where one side does not vary."""
    a, b = one - one.mean(), other - other.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum() / scale) if scale else 0.0


def score_numbers(
    gold: Sequence[float], predicted: Sequence[float], samples: int = BOOTSTRAP_SAMPLES
) -> list[TaskScore]:
    """Spearman's and Pearson's correlation."""
    true, guess = np.array(gold, float), np.array(predicted, float)
    return [
        bootstrap("spearman", lambda rows: correlate(rank(true[rows]), rank(guess[rows])), len(true), samples),
        bootstrap("pearson", lambda rows: correlate(true[rows], guess[rows]), len(true), samples),
    ]


def score_ranks(ranks: Sequence[int], samples: int = BOOTSTRAP_SAMPLES, at: Sequence[int] = (1, 10)) -> list[TaskScore]:
    """Of the rank of the right text among all candidates, from 1: recall at k, and the mean reciprocal rank."""
    found = np.array(ranks)

    def recall_at(k: int) -> Statistic:
        return lambda rows: float((found[rows] <= k).mean())

    scores = [bootstrap(f"recall@{k}", recall_at(k), len(found), samples) for k in at]
    return [*scores, bootstrap("mrr", lambda rows: float((1 / found[rows]).mean()), len(found), samples)]
