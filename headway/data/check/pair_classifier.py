"""Whether two sentences belong together. The corpus teaches it: its pairs, against the same lines moved by one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.char_features import Numbers, Words, sentence_hashes
from headway.data.check.ibm1 import Lexicon, learn_lexicon

Floats = NDArray[np.float64]

HALVES = 2
BLOCK = 64  # lines in a row that belong to one half
FEWEST = 200  # pairs in a half that a judge can be learned from
SMALLEST_SHARE, LARGEST_SHARE = 0.002, 0.5  # of pairs that do not belong together, as far as an estimate is believed
ROUNDS = 4
RATIO = 0  # the feature that tells how far a pair's lengths are from the usual ratio


class Sentences(NamedTuple):
    """Both sides of some lines."""

    source: Words
    target: Words
    source_letters: Numbers  # (lines,) how long each is
    target_letters: Numbers

    def of(self, chosen: NDArray[np.bool_]) -> "Sentences":
        """Only the chosen lines."""
        return Sentences(
            _chosen(self.source, chosen),
            _chosen(self.target, chosen),
            self.source_letters[chosen],
            self.target_letters[chosen],
        )

    def moved(self) -> "Sentences":
        """Every source beside the next line's target."""
        target = self.target._replace(line=(self.target.line - 1) % self.target.lines)
        return self._replace(target=target, target_letters=np.roll(self.target_letters, -1))


class Linear(NamedTuple):
    mean: Floats  # (features,)
    scale: Floats
    factors: Floats

    def odds(self, values: Floats) -> Floats:
        return ((values - self.mean) / self.scale) @ self.factors


class Judge(NamedTuple):
    """A pair is judged by the lexicon of the half that it is not in: one that has seen it would trust it too much."""

    lexicons: tuple[Lexicon, Lexicon]
    centre: float  # of the logarithms of target length / source length
    model: Linear
    share: float  # of pairs that seem to be none

    def odds(self, sentences: Sentences, half: Numbers) -> Floats:
        """Nats by which each pair looks like lines that met by chance rather than like a translation."""
        odds = np.zeros(len(half))
        for number in range(HALVES):
            chosen = half == number
            if chosen.any():
                values = features(self.lexicons[1 - number], sentences.of(chosen), self.centre)
                odds[chosen] = self.model.odds(values)
        return odds

    def doubt(self, odds: Floats) -> Floats:
        """The probability that a pair is none, given how it looks and how many there seem to be."""
        return _probability(odds, self.share)


def learn_judge(halves: Sequence[Sequence[Sentences]], centre: float, max_ratio: float) -> Judge | None:
    """From sentences of both halves, a few thousand lines at a time; None where there are too few."""
    if min(sum(len(part.source_letters) for part in half) for half in halves) < FEWEST:
        return None
    lexicons = [learn_lexicon([(part.source, part.target) for part in half]) for half in halves]
    pairs, moved = [], []
    for half, lexicon in zip(halves, reversed(lexicons)):
        for part in half:
            pairs.append(features(lexicon, part, centre))
            hashes = sentence_hashes(part.target)
            other = hashes != np.roll(hashes, -1)  # where the next line has the same target, it is a translation too
            moved.append(features(lexicon, part.moved(), centre)[other])
    good, bad = np.concatenate(pairs), np.concatenate(moved)
    bad = bad[bad[:, RATIO] <= np.log(max_ratio)]  # the others are found by their lengths
    if len(bad) < FEWEST:
        return None
    return Judge((lexicons[0], lexicons[1]), centre, *_separate(good, bad))


def features(lexicon: Lexicon, sentences: Sentences, centre: float) -> Floats:
    """What speaks for a pair or against it: how well the words explain each other, and whether the lengths fit."""
    in_source, in_target, source_types, target_types = lexicon.explained(sentences.source, sentences.target)
    words = np.sqrt(np.minimum(source_types, target_types) + 1.0)  # the more there are, the more their mean says
    ratio = np.abs(np.log((sentences.target_letters + 8.0) / (sentences.source_letters + 8.0)) - centre)
    length = np.sqrt(sentences.source_letters + sentences.target_letters)
    shared = np.minimum(_shared(sentences.source, sentences.target), 5)
    columns = (
        ratio, in_source, in_target, np.minimum(in_source, in_target), in_source * words, in_target * words, words,
        np.minimum(ratio * length, 30.0), shared, shared / np.sqrt(sentences.target.counts() + 1.0),
        np.ones(len(words)),
    )  # fmt: skip
    return np.stack(columns, axis=1)


def _shared(source: Words, target: Words) -> Numbers:
    """How many words of a line's target stand in its source as they are: numbers and names, above all."""
    spread = np.uint64(0x9E3779B97F4A7C15)
    left = source.hash ^ (source.line.astype(np.uint64) * spread)
    right = target.hash ^ (target.line.astype(np.uint64) * spread)
    return np.bincount(target.line[np.isin(right, left)], minlength=target.lines)


def _chosen(words: Words, chosen: NDArray[np.bool_]) -> Words:
    number = np.cumsum(chosen) - 1
    kept = chosen[words.line]
    return Words(number[words.line[kept]], words.hash[kept], int(chosen.sum()))


def _separate(good: Floats, bad: Floats) -> tuple[Linear, float]:
    """What tells good pairs from bad ones, and the share of bad ones among those that pass for good.

    These would teach that bad pairs are good, so each counts only as far as it is good by what is known already."""
    weights = np.ones(len(good))
    model = _regression(good, bad, weights)
    share = _largest_share(model.odds(good), model.odds(bad))
    for _ in range(ROUNDS):
        doubt = _probability(model.odds(good), share)
        model = _regression(good, bad, 1 - doubt)
        share = float(np.clip(doubt.mean(), SMALLEST_SHARE, LARGEST_SHARE))
    return model, share


def _regression(good: Floats, bad: Floats, weights: Floats) -> Linear:
    """Logistic regression by Newton's method. However many there are of each kind, both count the same."""
    values = np.concatenate([good, bad])
    mean, scale = values.mean(axis=0), values.std(axis=0)
    constant = scale < 1e-9
    mean[constant], scale[constant] = 0.0, 1.0
    values = (values - mean) / scale
    importance = np.concatenate([weights / (2 * weights.sum()), np.full(len(bad), 0.5 / len(bad))])
    is_bad = np.repeat([0.0, 1.0], [len(good), len(bad)])
    factors = np.zeros(values.shape[1])
    smooth = max(1e-5, 1 / len(values)) * np.eye(len(factors))
    for _ in range(15):
        chance = _probability(values @ factors)
        slope = values.T @ (importance * (chance - is_bad)) + smooth @ factors
        curve = (values * (importance * chance * (1 - chance))[:, None]).T @ values + smooth
        factors -= np.linalg.solve(curve, slope)
    return Linear(mean, scale, factors)


def _probability(odds: Floats, share: float = 0.5) -> Floats:
    probability: Floats = 1 / (1 + np.exp(-np.clip(odds + np.log(share / (1 - share)), -30, 30)))
    return probability


def _largest_share(good: Floats, bad: Floats) -> float:
    """Of lines like the bad ones that can be among the good: above no threshold may there be more than there are."""
    thresholds = np.quantile(bad, np.linspace(0.1, 0.8, 15))
    shares = [(good > threshold).mean() / (bad > threshold).mean() for threshold in thresholds]
    return float(np.clip(min(shares), SMALLEST_SHARE, LARGEST_SHARE))
