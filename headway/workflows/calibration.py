"""Fit the confidence of a translator: the probability, from 0 to 1, that a translation is good.

Lines with a reference are translated; good is a chrF of `threshold` or more against the reference. A logistic
regression is fitted to two lines in three, and its reliability is measured on the third."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headway.errors import HeadwayError
from headway.storage.calibration import Calibration
from headway.translate.confidence import features, length_ratio
from headway.translate.options import TranslateOptions
from headway.translate.results import LazyGuess

if TYPE_CHECKING:
    from headway.translate.translator import Translator

HELD_OUT_EVERY = 3  # one line in so many is held out for measuring
MIN_LINES = 100
BIN_COUNT = 10
RIDGE = 1.0  # regularisation: keeps weights small where there are few lines
MAX_NEWTON_STEPS = 50


class ReliabilityBin(NamedTuple):
    """Lines with about the same score."""

    lines: int
    score: float  # mean
    good: float  # share of good ones


class Reliability(NamedTuple):
    """How far scores are probabilities: of lines with a score of 0.7, seven in ten should be good."""

    bins: list[ReliabilityBin]
    error: float  # expected calibration error: |score - share of good| over the bins, weighted by lines
    ranked: float  # AUC: how often, of a good and a bad line, the good one has the higher score; 0.5 is chance
    lines: int
    good: float


class JudgedLines(NamedTuple):
    """Lines that were translated and compared with their references."""

    values: np.ndarray  # (lines, features)
    good: np.ndarray  # (lines,) bool
    usual_ratio: float  # median log(output / source) of lengths in tokens


def calibrate(
    translator: "Translator",
    sources: Sequence[str],
    references: Sequence[str],
    *,
    threshold: float = 50.0,
    target: str = "",
) -> tuple[Calibration, Reliability]:
    """Fit to validation text: the text a model was trained on says nothing about other text.

    threshold: the chrF from which a translation is good; target: language, where the model has several"""
    judged = judge_lines(translator, sources, references, threshold, target)
    held_out = np.arange(len(judged.good)) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
    for part in (~held_out, held_out):
        share = judged.good[part].mean() if part.any() else 0.0
        if part.sum() < MIN_LINES / HELD_OUT_EVERY or not 0 < share < 1:
            total_share = judged.good.mean() if len(judged.good) else 0
            raise HeadwayError(
                f"{len(judged.good):,} lines, {total_share:.0%} of them with a chrF of {threshold:g} or more, are not "
                f"enough to fit: give {MIN_LINES} lines or more, with good and bad ones, or another --threshold."
            )
    means, scales, weights, bias = fit_logistic_regression(judged.values[~held_out], judged.good[~held_out])
    fitted = Calibration(means.tolist(), scales.tolist(), weights.tolist(), bias, judged.usual_ratio, {})
    scores = np.array([fitted.score(row) for row in judged.values[held_out].tolist()])
    measured = measure_reliability(scores, judged.good[held_out])
    report = measured._asdict() | {"bins": [one._asdict() for one in measured.bins]}
    about = {"threshold": threshold, "lines": int((~held_out).sum()), "held_out": report}
    return Calibration(fitted.means, fitted.scales, fitted.weights, fitted.bias, fitted.usual, about), measured


def judge_lines(
    translator: "Translator", sources: Sequence[str], references: Sequence[str], threshold: float, target: str
) -> JudgedLines:
    """Translate the lines and judge them by their references, without blank ones."""
    from headway.text.metrics import check_line_counts, compute_sentence_chrf

    check_line_counts(sources, references, "sources")
    pairs = [
        (source, reference) for source, reference in zip(sources, references) if source.strip() and reference.strip()
    ]
    results = translator.translate([source for source, _ in pairs], TranslateOptions(target=target))
    guesses = [result.guesses[0] for result in results]
    tokens = [guess.line.tokens for guess in guesses if isinstance(guess, LazyGuess)]  # as for a confidence, later
    ratios = [length_ratio(count, guess.token_logps) for count, guess in zip(tokens, guesses)]
    usual_ratio = float(np.median(ratios)) if ratios else 0.0
    values = [
        features(source, count, guess.text, guess.token_logps, usual_ratio)
        for (source, _), count, guess in zip(pairs, tokens, guesses)
    ]
    good = compute_sentence_chrf([guess.text for guess in guesses], [reference for _, reference in pairs]) >= threshold
    return JudgedLines(np.array(values).reshape(len(pairs), -1), good, usual_ratio)


def fit_logistic_regression(values: np.ndarray, good: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Means, scales, weights and bias, by Newton's method."""
    means = values.mean(0)
    scales = np.maximum(values.std(0), 1e-6)
    x = np.column_stack([(values - means) / scales, np.ones(len(values))])  # (N, F + 1)
    ridge = np.diag([RIDGE] * (x.shape[1] - 1) + [0.0])
    w = np.zeros(x.shape[1])
    for _ in range(MAX_NEWTON_STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        gradient = x.T @ (p - good) + ridge @ w
        hessian = x.T @ (x * (p * (1 - p))[:, None]) + ridge + 1e-9 * np.eye(len(w))
        step = np.linalg.solve(hessian, gradient)
        w -= step
        if np.abs(step).max() < 1e-9:
            break
    return means, scales, w[:-1], float(w[-1])


def measure_reliability(scores: np.ndarray, good: np.ndarray) -> Reliability:
    """Compare scores with the share of good lines, in bins of like scores."""
    indices = np.minimum((scores * BIN_COUNT).astype(int), BIN_COUNT - 1)
    bins = []
    for index in range(BIN_COUNT):
        own = indices == index
        count = int(own.sum())
        if count:
            bins.append(ReliabilityBin(count, float(scores[own].mean()), float(good[own].mean())))
        else:
            bins.append(ReliabilityBin(0, 0.0, 0.0))
    error = sum(one.lines * abs(one.score - one.good) for one in bins) / len(scores)
    return Reliability(bins, float(error), rank_auc(scores, good), len(scores), float(good.mean()))


def rank_auc(scores: np.ndarray, good: np.ndarray) -> float:
    """Area under the ROC curve, by ranks (Mann-Whitney U): equal scores share their mean rank."""
    _, indices, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[indices]  # (N,), from 1
    positive = int(good.sum())
    negative = int((~good).sum())
    return float((ranks[good].sum() - positive * (positive + 1) / 2) / (positive * negative))
