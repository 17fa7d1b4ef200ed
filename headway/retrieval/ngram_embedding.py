"""Chunks of token ids as vectors, without a model: a hashed bag of n-grams.

Each token and each pair of neighbouring tokens adds its weight, with a sign, to one of the numbers of the vector: both
the number and the sign are a hash. Products of such vectors are those of the bags themselves, up to noise of about
1 / √width. Rare tokens weigh more: log(chunks / chunks that have it); a pair weighs as much as the mean of its two.
"""

from collections.abc import Iterable

import numpy as np

from headway.retrieval.vector_search import normalise

PADDING = -1  # in the place of an id
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
MIXER = np.uint64(0xBF58476D1CE4E5B9)


class NgramEmbedding:
    def __init__(self, weights: np.ndarray, width: int) -> None:
        self.weights = np.asarray(weights, np.float64)  # (vocabulary,)
        self.width = width

    def embed(self, ids: np.ndarray) -> np.ndarray:
        """ids (n, length), PADDING at the end of short ones -> (n, width), of length 1"""
        ids = np.asarray(ids, np.int64)
        known = ids != PADDING
        vocabulary = len(self.weights)
        own = np.where(known, self.weights[np.where(known, ids, 0)], 0.0)
        pairs = known[:, :-1] & known[:, 1:]
        total = np.zeros(len(ids) * self.width)
        for keys, weights in (
            (ids, own),
            ((ids[:, :-1] + 1) * vocabulary + ids[:, 1:], np.where(pairs, (own[:, :-1] + own[:, 1:]) / 2, 0.0)),
        ):
            numbers, signs = self.hash(np.maximum(keys, 0))
            flat = numbers + np.arange(len(ids))[:, None] * self.width
            total += np.bincount(flat.ravel(), (signs * weights).ravel(), minlength=len(total))
        return normalise(total.reshape(len(ids), self.width))

    def hash(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which number of the vector each key adds to, and its sign."""
        mixed = keys.astype(np.uint64) * MULTIPLIER
        mixed = (mixed ^ (mixed >> np.uint64(31))) * MIXER
        mixed ^= mixed >> np.uint64(29)
        signs = 1.0 - 2.0 * (mixed & np.uint64(1)).astype(np.float64)
        return ((mixed >> np.uint64(8)) % np.uint64(self.width)).astype(np.int64), signs


def count_weights(blocks: Iterable[np.ndarray], vocabulary: int) -> np.ndarray:
    """(vocabulary,) the weight of each token, from blocks of chunks (n, length) with PADDING."""
    found, total = np.zeros(vocabulary, np.int64), 0
    for block in blocks:
        ids = np.asarray(block, np.int64)
        rows, columns = (ids != PADDING).nonzero()
        seen = np.unique(rows * vocabulary + ids[rows, columns])
        found += np.bincount(seen % vocabulary, minlength=vocabulary)
        total += len(ids)
    weights: np.ndarray = np.log((1 + total) / (1 + found))
    return weights
