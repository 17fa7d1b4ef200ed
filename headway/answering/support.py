"""Whether a sentence is supported by what it cites: its words are there, its numbers are, and nothing is negated.

The share of a sentence's words, by what they say, that stand close together in the source: in a few sentences one after
another, because a passage has words enough for a claim that it does not make. A number that the source lacks, or a
negation that only one of the two has, is no support at all. This is a measure of words, not of truth: it accepts a
sentence that puts the source's words together wrongly, and rejects a free paraphrase."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from headway.answering.question import content_words
from headway.text.negation import NEGATIONS
from headway.text.numbers import find_numbers
from headway.text.search_terms import split_terms, split_words
from headway.text.segment.sentences import split_sentences

SUPPORT_THRESHOLD = 0.69  # calibrated on benchmarks/answering_support.tsv: see docs/answering.md
WINDOW = 2  # sentences of a source that support one sentence together
CITATION = re.compile(r"\s*\[\d{1,3}(?:\s*[,;]\s*\d{1,3})*\]")
NEGATING_WORDS = "|".join([*(words.certain for words in NEGATIONS.values()), "pas|jamais|nunca"])
NEGATION = re.compile(rf"(?<![^\W_])(?:{NEGATING_WORDS})(?![^\W_])|不|没|無|ない")

Idf = Callable[[str], float]


def measure_support(sentence: str, source: str, idf: Idf) -> float:
    """0 to 1: how much of a sentence its source says."""
    claim = CITATION.sub("", sentence)
    weights = {term: idf(term) for term in content_words(split_words(claim))}
    if not weights:
        return 0.0
    parts = [segment.text for segment in split_sentences(source) if segment.text.strip()]
    windows = [" ".join(parts[n : n + WINDOW]) for n in range(max(len(parts) - WINDOW + 1, 1))]
    return max((_window_support(claim, weights, window) for window in windows), default=0.0)


def _window_support(claim: str, weights: dict[str, float], window: str) -> float:
    if not set(find_numbers(claim)) <= set(find_numbers(window)):
        return 0.0
    if is_negated(claim) and not is_negated(window):
        return 0.0
    known = set(split_terms(window))
    found = sum(weight for term, weight in weights.items() if term in known)
    return found / (sum(weights.values()) or 1.0)


def is_negated(text: str) -> bool:
    return NEGATION.search(text.lower()) is not None


def calibrate_threshold(scores: Sequence[float], supported: Sequence[bool]) -> tuple[float, float]:
    """The threshold that judges most examples rightly, in the middle between two scores, and their share."""
    ordered = sorted(set(scores))
    cuts = [0.0, *((low + high) / 2 for low, high in pairwise(ordered)), 1.0]

    def accuracy(cut: float) -> float:
        return sum((score >= cut) == right for score, right in zip(scores, supported)) / max(len(scores), 1)

    best = max(cuts, key=lambda cut: (accuracy(cut), cut))
    return best, accuracy(best)
