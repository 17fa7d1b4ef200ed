"""PairClassifier: whether two sentences are translations of each other.

A logistic regression, fitted on the corpus itself: its pairs against the same lines shifted by one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.char_features import Numbers, WordHashes, hash_sentences
from headway.data.check.ibm1 import Ibm1Lexicon, fit_ibm1

Floats = NDArray[np.float64]

HALVES = 2
BLOCK_LINES = 64  # consecutive lines that are sampled together
MIN_PAIRS_PER_HALF = 200  # to fit a classifier
MIN_BAD_SHARE = 0.002  # of pairs that are not translations, as far as an estimate is trusted
MAX_BAD_SHARE = 0.5
REWEIGHTING_ROUNDS = 4
RATIO_FEATURE = 0  # column of the length-ratio feature


class SentencePairs(NamedTuple):
    """Both sides of some lines."""

    source: WordHashes
    target: WordHashes
    source_lengths: Numbers  # (lines,) in characters
    target_lengths: Numbers

    def select(self, chosen: NDArray[np.bool_]) -> "SentencePairs":
        """Only the chosen lines."""
        return SentencePairs(
            _select_lines(self.source, chosen),
            _select_lines(self.target, chosen),
            self.source_lengths[chosen],
            self.target_lengths[chosen],
        )

    def shift_targets(self) -> "SentencePairs":
        """Every source beside the next line's target."""
        target = self.target._replace(line=(self.target.line - 1) % self.target.lines)
        return self._replace(target=target, target_lengths=np.roll(self.target_lengths, -1))


class LogisticModel(NamedTuple):
    mean: Floats  # (features,)
    scale: Floats
    weights: Floats

    def log_odds(self, values: Floats) -> Floats:
        return ((values - self.mean) / self.scale) @ self.weights


class PairClassifier(NamedTuple):
    """A pair is classified with the lexicon of the other half: the one fitted on it would trust it too much."""

    lexicons: tuple[Ibm1Lexicon, Ibm1Lexicon]
    centre: float  # median of log(target length / source length)
    model: LogisticModel
    bad_share: float  # estimated share of pairs that are not translations

    def log_odds(self, sentences: SentencePairs, half: Numbers) -> Floats:
        """Log-odds, in nats, that each pair is a random pair of lines rather than a translation."""
        log_odds = np.zeros(len(half))
        for number in range(HALVES):
            chosen = half == number
            if chosen.any():
                values = extract_pair_features(self.lexicons[1 - number], sentences.select(chosen), self.centre)
                log_odds[chosen] = self.model.log_odds(values)
        return log_odds

    def doubt(self, log_odds: Floats) -> Floats:
        """The probability that a pair is not a translation, with bad_share as the prior."""
        return _probability(log_odds, self.bad_share)


def fit_pair_classifier(
    halves: Sequence[Sequence[SentencePairs]], centre: float, max_ratio: float
) -> PairClassifier | None:
    """`halves`: the sentences of both halves, a few thousand lines at a time. None if there are too few."""
    if min(sum(len(part.source_lengths) for part in half) for half in halves) < MIN_PAIRS_PER_HALF:
        return None
    lexicons = [fit_ibm1([(part.source, part.target) for part in half]) for half in halves]
    pairs = []
    shifted = []
    for half, lexicon in zip(halves, reversed(lexicons)):
        for part in half:
            pairs.append(extract_pair_features(lexicon, part, centre))
            hashes = hash_sentences(part.target)
            different = hashes != np.roll(hashes, -1)  # an equal next target would be a translation, too
            shifted.append(extract_pair_features(lexicon, part.shift_targets(), centre)[different])
    good, bad = np.concatenate(pairs), np.concatenate(shifted)
    bad = bad[bad[:, RATIO_FEATURE] <= np.log(max_ratio)]  # the others are found by their lengths alone
    if len(bad) < MIN_PAIRS_PER_HALF:
        return None
    return PairClassifier((lexicons[0], lexicons[1]), centre, *_separate(good, bad))


def extract_pair_features(lexicon: Ibm1Lexicon, sentences: SentencePairs, centre: float) -> Floats:
    """How well the words explain each other, how well the lengths match, and how many words are equal."""
    in_source, in_target, source_types, target_types = lexicon.explain(sentences.source, sentences.target)
    words = np.sqrt(np.minimum(source_types, target_types) + 1.0)  # the mean of more words is more reliable
    ratio = np.abs(np.log((sentences.target_lengths + 8.0) / (sentences.source_lengths + 8.0)) - centre)
    length = np.sqrt(sentences.source_lengths + sentences.target_lengths)
    shared = np.minimum(_count_shared_words(sentences.source, sentences.target), 5)
    columns = (
        ratio, in_source, in_target, np.minimum(in_source, in_target), in_source * words, in_target * words, words,
        np.minimum(ratio * length, 30.0), shared, shared / np.sqrt(sentences.target.counts() + 1.0),
        np.ones(len(words)),
    )  # fmt: skip
    return np.stack(columns, axis=1)


def _count_shared_words(source: WordHashes, target: WordHashes) -> Numbers:
    """The number of target words that are also in the source of their line: mostly numbers and names."""
    spread = np.uint64(0x9E3779B97F4A7C15)
    left = source.hash ^ (source.line.astype(np.uint64) * spread)
    right = target.hash ^ (target.line.astype(np.uint64) * spread)
    return np.bincount(target.line[np.isin(right, left)], minlength=target.lines)


def _select_lines(words: WordHashes, chosen: NDArray[np.bool_]) -> WordHashes:
    number = np.cumsum(chosen) - 1
    kept = chosen[words.line]
    return WordHashes(number[words.line[kept]], words.hash[kept], int(chosen.sum()))


def _separate(good: Floats, bad: Floats) -> tuple[LogisticModel, float]:
    """A model that separates good pairs from bad ones, and the share of bad ones among the good.

    Those would teach the model that bad pairs are good, so each is weighted by its probability of being good so far."""
    model = _fit_logistic(good, bad, np.ones(len(good)))
    share = _max_bad_share(model.log_odds(good), model.log_odds(bad))
    for _ in range(REWEIGHTING_ROUNDS):
        doubt = _probability(model.log_odds(good), share)
        model = _fit_logistic(good, bad, 1 - doubt)
        share = float(np.clip(doubt.mean(), MIN_BAD_SHARE, MAX_BAD_SHARE))
    return model, share


def _fit_logistic(good: Floats, bad: Floats, weights: Floats) -> LogisticModel:
    """Logistic regression by Newton's method. Both classes have the same total weight."""
    values = np.concatenate([good, bad])
    mean = values.mean(axis=0)
    scale = values.std(axis=0)
    constant = scale < 1e-9
    mean[constant] = 0.0
    scale[constant] = 1.0
    values = (values - mean) / scale
    importance = np.concatenate([weights / (2 * weights.sum()), np.full(len(bad), 0.5 / len(bad))])
    is_bad = np.repeat([0.0, 1.0], [len(good), len(bad)])
    coefficients = np.zeros(values.shape[1])
    ridge = max(1e-5, 1 / len(values)) * np.eye(len(coefficients))
    for _ in range(15):
        chance = _probability(values @ coefficients)
        gradient = values.T @ (importance * (chance - is_bad)) + ridge @ coefficients
        hessian = (values * (importance * chance * (1 - chance))[:, None]).T @ values + ridge
        coefficients -= np.linalg.solve(hessian, gradient)
    return LogisticModel(mean, scale, coefficients)


def _probability(log_odds: Floats, prior: float = 0.5) -> Floats:
    probability: Floats = 1 / (1 + np.exp(-np.clip(log_odds + np.log(prior / (1 - prior)), -30, 30)))
    return probability


def _max_bad_share(good: Floats, bad: Floats) -> float:
    """An upper bound of the share of bad pairs among the good: at no threshold may they be more than all above it."""
    thresholds = np.quantile(bad, np.linspace(0.1, 0.8, 15))
    shares = [(good > threshold).mean() / (bad > threshold).mean() for threshold in thresholds]
    return float(np.clip(min(shares), MIN_BAD_SHARE, MAX_BAD_SHARE))
