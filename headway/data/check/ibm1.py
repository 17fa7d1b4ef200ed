"""IBM model 1, fitted on a sample of the corpus in both directions at once by EM.

The expected count of a word pair in a sentence pair is the geometric mean of its posteriors in both directions. A few
rounds of EM make a dictionary. The counts are in one hash table of fixed size, indexed by the hashes of both words:
memory does not grow with the text."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.char_features import Hashes, Numbers, WordHashes, sum_by_index

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

EM_ROUNDS = 4
MIN_WORD_COUNT = 3  # rarer words are unknown
MAX_VOCABULARY = 1 << 16
MAX_TYPES_PER_LINE = 160  # different words of a line, beyond which words are ignored
MIN_TABLE_BITS = 12
MAX_TABLE_BITS = 24  # 64 MB while fitting, half afterwards; with 22, collisions cost much accuracy
DISCOUNT = 0.3  # subtracted from every count: words that met once may have met by chance
UNEXPLAINED_SHARE = 0.1  # of words that no word of the other side explains


class LineTypes(NamedTuple):
    """The different known words (types) of each line, as vocabulary ids."""

    counts: Numbers  # (lines,)
    ids: Numbers  # (T,)

    def of_lines(self) -> Numbers:
        """The line of each type."""  # (T,)
        return np.repeat(np.arange(len(self.counts)), self.counts)


class TypePairs(NamedTuple):
    """Every source type with every target type of its line, as indices into the two lists of types."""

    source: NDArray[np.int32]  # (C,)
    target: NDArray[np.int32]  # (C,)


class WordVocabulary(NamedTuple):
    hashes: Hashes  # (V,) in ascending order
    share: Singles  # (V,) of all words

    def types(self, words: WordHashes) -> LineTypes:
        if not len(self.hashes):
            return LineTypes(np.zeros(words.lines, np.int64), np.zeros(0, np.int64))
        ids = np.minimum(np.searchsorted(self.hashes, words.hash), len(self.hashes) - 1)
        known = self.hashes[ids] == words.hash
        keys = np.sort(words.line[known] * len(self.hashes) + ids[known])
        keys = keys[np.flatnonzero(np.diff(keys, prepend=-1))]  # np.unique takes three times as long
        counts = np.bincount(keys // len(self.hashes), minlength=words.lines)
        rank = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
        return LineTypes(np.minimum(counts, MAX_TYPES_PER_LINE), (keys % len(self.hashes))[rank < MAX_TYPES_PER_LINE])


class Ibm1Lexicon(NamedTuple):
    source: WordVocabulary
    target: WordVocabulary
    counts: NDArray[np.float16]  # (1 << bits,) expected counts of word pairs
    source_total: Singles  # (V,) summed over all target words
    target_total: Singles

    def explain(self, source: WordHashes, target: WordHashes) -> tuple[Floats, Floats, Numbers, Numbers]:
        """How much better than chance the words of each side are explained by the other's: nats a word for source and
        target, and the numbers of known words."""
        one = self.source.types(source)
        other = self.target.types(target)
        cells = pair_types(one, other)
        indices = self.indices(one, other, cells)
        counts = np.maximum(self.counts[indices].astype(np.float32) - np.float32(DISCOUNT), 0)
        of_target = sum_by_index(cells.target, counts / self.source_total[one.ids][cells.source], len(other.ids))
        of_source = sum_by_index(cells.source, counts / self.target_total[other.ids][cells.target], len(one.ids))
        return (
            _nats(of_source, self.source.share[one.ids], one, other),
            _nats(of_target, self.target.share[other.ids], other, one),
            one.counts,
            other.counts,
        )

    def indices(self, one: LineTypes, other: LineTypes, cells: TypePairs) -> NDArray[np.uint32]:
        return _table_indices(self.source, self.target, len(self.counts), one, other, cells)


def _nats(explained: Floats, share: Singles, one: LineTypes, other: LineTypes) -> Floats:
    """The mean over a line's types of log(probability given the other side / probability)."""
    lines = one.of_lines()
    given = explained / np.maximum(other.counts[lines], 1)
    nats = np.log(UNEXPLAINED_SHARE + (1 - UNEXPLAINED_SHARE) * given / share)
    return sum_by_index(lines, nats, len(one.counts)) / np.maximum(one.counts, 1)


def pair_types(one: LineTypes, other: LineTypes) -> TypePairs:
    first = np.cumsum(one.counts) - one.counts  # each line's first source type
    lines = other.of_lines()
    width = one.counts[lines]
    before = np.cumsum(width) - width
    target = np.repeat(np.arange(len(lines), dtype=np.int32), width)
    source = np.arange(width.sum(), dtype=np.int32) + np.repeat((first[lines] - before).astype(np.int32), width)
    return TypePairs(source, target)


def _table_indices(
    source: WordVocabulary, target: WordVocabulary, size: int, one: LineTypes, other: LineTypes, cells: TypePairs
) -> NDArray[np.uint32]:
    """The index of each word pair in the hash table."""
    left = source.hashes[one.ids].astype(np.uint32)
    right = (target.hashes[other.ids] >> np.uint64(32)).astype(np.uint32)
    indices: NDArray[np.uint32] = (left[cells.source] + right[cells.target]) >> np.uint32(33 - size.bit_length())
    return indices


def fit_ibm1(parts: Sequence[tuple[WordHashes, WordHashes]]) -> Ibm1Lexicon:
    """`parts`: the words of both sides, a few thousand lines at a time."""
    source = count_vocabulary([words for words, _ in parts])
    target = count_vocabulary([words for _, words in parts])
    types = [(source.types(one), target.types(other)) for one, other in parts]
    pairs = sum(float((one.counts * other.counts).sum()) for one, other in types)
    size = 1 << max(MIN_TABLE_BITS, min(MAX_TABLE_BITS, int(pairs).bit_length() + 3))
    counts = np.ones(size, np.float32)
    totals = [np.ones(len(source.hashes), np.float32), np.ones(len(target.hashes), np.float32)]
    for _ in range(EM_ROUNDS):
        new_counts = np.zeros(size, np.float32)
        new_totals = [np.zeros(len(total)) for total in totals]
        for one, other in types:
            cells = pair_types(one, other)
            indices = _table_indices(source, target, size, one, other, cells)
            found = counts[indices] + np.float32(1e-6)
            ids = (one.ids, other.ids)
            posteriors = []
            for side in (0, 1):  # of a word, over the words of the other side in its line
                given = found / totals[1 - side][ids[1 - side]][cells[1 - side]]
                total = sum_by_index(cells[side], given, len(ids[side])).astype(np.float32)
                posteriors.append(given / total[cells[side]])
            expected = np.sqrt(posteriors[0] * posteriors[1])
            np.add.at(new_counts, indices, expected)
            for side in (0, 1):
                per_type = sum_by_index(cells[side], expected, len(ids[side]))
                new_totals[side] += sum_by_index(ids[side], per_type, len(new_totals[side]))
        counts = new_counts
        totals = [np.maximum(total, 1e-9).astype(np.float32) for total in new_totals]
    return Ibm1Lexicon(source, target, np.minimum(counts, 60_000).astype(np.float16), totals[0], totals[1])


def count_vocabulary(parts: Sequence[WordHashes]) -> WordVocabulary:
    hashes, counts = np.unique(np.concatenate([words.hash for words in parts]), return_counts=True)
    frequent = np.flatnonzero(counts >= MIN_WORD_COUNT)
    if len(frequent) > MAX_VOCABULARY:
        frequent = np.sort(frequent[np.argsort(-counts[frequent], kind="stable")[:MAX_VOCABULARY]])
    kept_counts = counts[frequent]
    return WordVocabulary(hashes[frequent], (kept_counts / max(1, kept_counts.sum())).astype(np.float32))
