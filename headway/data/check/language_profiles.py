"""Language profiles: character-trigram models of both sides, fitted on the corpus itself."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.char_features import TRIGRAM_BITS, Trigrams, extract_trigrams, sum_by_index, to_code_points

Floats = NDArray[np.float64]
Table = NDArray[np.float32]

TRIGRAM_OVERLAP = 3  # each letter is in three trigrams, so their evidence is divided by three
MIN_LANGUAGE_NATS = 6.0  # evidence needed that a line is in the other side's language


class LanguageProfiles(NamedTuple):
    """Log-probabilities of every trigram in the source and in the target."""

    source: Table  # (1 << TRIGRAM_BITS,)
    target: Table

    def source_log_odds(self, trigrams: Trigrams) -> Floats:
        """Log-odds, in nats, that each line is in the source rather than the target language."""
        return sum_by_index(trigrams.line, (self.source - self.target)[trigrams.key], trigrams.lines) / TRIGRAM_OVERLAP


def fit_language_profiles(source: Sequence[str], target: Sequence[str]) -> LanguageProfiles:
    return LanguageProfiles(_fit_profile(source), _fit_profile(target))


def _fit_profile(lines: Sequence[str]) -> Table:
    counts = np.full(1 << TRIGRAM_BITS, 0.5)
    counts += np.bincount(extract_trigrams(to_code_points(lines)).key, minlength=len(counts))
    table: Table = np.log(counts / counts.sum()).astype(np.float32)
    return table


def mean_log_probability(table: Table, trigrams: Trigrams) -> Floats:
    """The mean log-probability of the trigrams of each line."""
    counts = np.bincount(trigrams.line, minlength=trigrams.lines)
    return sum_by_index(trigrams.line, table[trigrams.key], trigrams.lines) / np.maximum(counts, 1)
