"""Learning a score between 0 and 1: how likely a translation is good, by what the search says of it.

Lines with a reference are translated; good is what comes near its reference, by chrF. A logistic regression learns from
two lines in three which of them are, and is measured on the third."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headway.errors import HeadwayError
from headway.translate.confidence import Calibration, features, length_ratio
from headway.translate.results import Joined

if TYPE_CHECKING:
    from headway.translate.translator import Translator

HELD_OUT = 3  # every so many lines one is kept for measuring
LEAST = 100  # lines from which something can be learned
BINS = 10
RIDGE = 1.0  # keeps weights small, where few lines say little
ROUNDS = 50


class Bin(NamedTuple):
    """Lines with about the same score."""

    lines: int
    score: float  # on average
    good: float  # the share that is


class Reliability(NamedTuple):
    bins: list[Bin]
    error: float  # expected: |score - share| over the bins, by their lines
    ranked: float  # how often, of a good and a bad line, the good one has the higher score; 0.5 is chance
    lines: int
    good: float


class Judged(NamedTuple):
    """Lines that were translated and compared."""

    values: np.ndarray  # (lines, features), their ratio still without what is usual
    good: np.ndarray  # (lines,)
    usual: float


def calibrate(
    translator: "Translator", source: Sequence[str], target: Sequence[str], *, threshold: float = 50.0, to: str = ""
) -> tuple[Calibration, Reliability]:
    """From validation text: what the model was trained on says nothing of what it has not seen.

    threshold: the chrF from which on a translation is good"""
    judged = judge(translator, source, target, threshold, to)
    held = np.arange(len(judged.good)) % HELD_OUT == HELD_OUT - 1
    for part in (~held, held):
        share = judged.good[part].mean() if part.any() else 0.0
        if part.sum() < LEAST / HELD_OUT or not 0 < share < 1:
            raise HeadwayError(
                f"{len(judged.good):,} lines, {judged.good.mean() if len(judged.good) else 0:.0%} of them with a chrF of "
                f"{threshold:g} or more, are no text to learn from: give {LEAST} lines or more, good and bad ones, or "
                "another --threshold."
            )
    means, scales, weights, bias = fitted(judged.values[~held], judged.good[~held])
    plain = Calibration(means.tolist(), scales.tolist(), weights.tolist(), bias, judged.usual, {})
    scores = np.array([plain.score(row) for row in judged.values[held].tolist()])
    measured = reliability(scores, judged.good[held])
    told = measured._asdict() | {"bins": [one._asdict() for one in measured.bins]}
    about = {"threshold": threshold, "lines": int((~held).sum()), "held_out": told}
    return Calibration(plain.means, plain.scales, plain.weights, plain.bias, plain.usual, about), measured


def judge(translator: "Translator", source: Sequence[str], target: Sequence[str], threshold: float, to: str) -> Judged:
    """Blank lines are left out."""
    from headway.text.metrics import check_side_by_side, sentence_chrf

    check_side_by_side(source, target, "sources")
    pairs = [(a, b) for a, b in zip(source, target) if a.strip() and b.strip()]
    made = [result.guesses[0] for result in translator.translate([a for a, _ in pairs], to=to)]
    read = [guess.line.tokens for guess in made if isinstance(guess, Joined)]  # as a translation will be judged later
    ratios = [length_ratio(count, guess.token_logps) for count, guess in zip(read, made)]
    usual = float(np.median(ratios)) if ratios else 0.0
    values = [features(a, n, g.text, g.token_logps, usual) for (a, _), n, g in zip(pairs, read, made)]
    good = sentence_chrf([guess.text for guess in made], [b for _, b in pairs]) >= threshold
    return Judged(np.array(values).reshape(len(pairs), -1), good, usual)


def fitted(values: np.ndarray, good: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Means, scales, weights and bias of a logistic regression, by Newton's method."""
    means, scales = values.mean(0), np.maximum(values.std(0), 1e-6)
    x = np.column_stack([(values - means) / scales, np.ones(len(values))])  # (N, F + 1)
    ridge = np.diag([RIDGE] * (x.shape[1] - 1) + [0.0])
    w = np.zeros(x.shape[1])
    for _ in range(ROUNDS):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        slope = x.T @ (p - good) + ridge @ w
        step = np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]) + ridge + 1e-9 * np.eye(len(w)), slope)
        w -= step
        if np.abs(step).max() < 1e-9:
            break
    return means, scales, w[:-1], float(w[-1])


def reliability(scores: np.ndarray, good: np.ndarray) -> Reliability:
    """How well scores keep their word: of lines with a score of 0.7, seven in ten should be good."""
    places = np.minimum((scores * BINS).astype(int), BINS - 1)
    bins = []
    for place in range(BINS):
        own = places == place
        count = int(own.sum())
        bins.append(Bin(count, float(scores[own].mean()), float(good[own].mean())) if count else Bin(0, 0.0, 0.0))
    error = sum(one.lines * abs(one.score - one.good) for one in bins) / len(scores)
    return Reliability(bins, float(error), ranking(scores, good), len(scores), float(good.mean()))


def ranking(scores: np.ndarray, good: np.ndarray) -> float:
    """By ranks, of which equal scores share the mean: pairs of lines are too many to look at each."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # (N,), from 1
    high, low = int(good.sum()), int((~good).sum())
    return float((ranks[good].sum() - high * (high + 1) / 2) / (high * low))
