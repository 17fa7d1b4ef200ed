"""What each side's language looks like, three letters at a time, learned from the corpus itself."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.char_features import TRIPLE_BITS, Triples, letters_of, sums, triples_of

Floats = NDArray[np.float64]
Table = NDArray[np.float32]

OVERLAP = 3  # each letter is part of three triples, which therefore are no three independent witnesses
SURE = 6.0  # nats that a line must speak for the other side's language


class Sides(NamedTuple):
    """The logarithm of the probability of every triple, in the source and in the target."""

    source: Table  # (1 << TRIPLE_BITS,)
    target: Table

    def source_rather(self, triples: Triples) -> Floats:
        """Nats by which each line reads like the source rather than the target."""
        return sums(triples.line, (self.source - self.target)[triples.key], triples.lines) / OVERLAP


def learn_sides(source: Sequence[str], target: Sequence[str]) -> Sides:
    return Sides(_learn(source), _learn(target))


def _learn(lines: Sequence[str]) -> Table:
    counts = np.full(1 << TRIPLE_BITS, 0.5)
    counts += np.bincount(triples_of(letters_of(lines)).key, minlength=len(counts))
    table: Table = np.log(counts / counts.sum()).astype(np.float32)
    return table


def ordinary(table: Table, triples: Triples) -> Floats:
    """How usual the triples of each line are in a language, as a mean of logarithms."""
    counts = np.bincount(triples.line, minlength=triples.lines)
    return sums(triples.line, table[triples.key], triples.lines) / np.maximum(counts, 1)
