"""Which words stand for which, learned from a sample of the corpus: IBM's first model, agreed on from both sides.

For each pair of words that meet in a sentence pair, it counts how often one is taken to be the translation of the
other. A word's counts are shared out among the words that it meets in proportion to what they already explain, in
either direction, and the two shares are multiplied (their root is taken); a few rounds of this make a dictionary.
The counts lie in one table of fixed size, at a place given by both words' hashes: memory does not grow with text."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.char_features import Hashes, Numbers, Words, sums

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

ROUNDS = 4
RAREST = 3  # times that a word must occur to be learned
MOST_WORDS = 1 << 16
MOST_TYPES = 160  # different words of a line that are compared with those of the other side
FEWEST_BITS, MOST_BITS = 12, 24  # of the table: 64 MB while learning, half afterwards; with 22, collisions cost much
DISCOUNT = 0.3  # taken from every count: what met once has met by chance
BY_ITSELF = 0.1  # share of words that nothing on the other side explains


class Types(NamedTuple):
    """The different known words of each line, by their numbers in a vocabulary."""

    counts: Numbers  # (lines,)
    ids: Numbers  # (T,)

    def of_lines(self) -> Numbers:
        """The line of each type."""  # (T,)
        return np.repeat(np.arange(len(self.counts)), self.counts)


class Cells(NamedTuple):
    """Every source type beside every target type of its line, as places in the two lists of types."""

    source: NDArray[np.int32]  # (C,)
    target: NDArray[np.int32]  # (C,)


class Vocabulary(NamedTuple):
    hashes: Hashes  # (V,) in ascending order
    share: Singles  # (V,) of all words

    def types(self, words: Words) -> Types:
        if not len(self.hashes):
            return Types(np.zeros(words.lines, np.int64), np.zeros(0, np.int64))
        ids = np.minimum(np.searchsorted(self.hashes, words.hash), len(self.hashes) - 1)
        known = self.hashes[ids] == words.hash
        keys = np.sort(words.line[known] * len(self.hashes) + ids[known])
        keys = keys[np.flatnonzero(np.diff(keys, prepend=-1))]  # np.unique takes three times as long
        counts = np.bincount(keys // len(self.hashes), minlength=words.lines)
        rank = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
        return Types(np.minimum(counts, MOST_TYPES), (keys % len(self.hashes))[rank < MOST_TYPES])


class Lexicon(NamedTuple):
    source: Vocabulary
    target: Vocabulary
    together: NDArray[np.float16]  # (1 << bits,) how often two words are each other's translation
    source_total: Singles  # (V,) the sum of it over all target words
    target_total: Singles

    def explained(self, source: Words, target: Words) -> tuple[Floats, Floats, Numbers, Numbers]:
        """How much better than chance each side's words are explained by the other's: nats a word for source and
        target, and the numbers of known words."""
        one, other = self.source.types(source), self.target.types(target)
        cells = cells_of(one, other)
        places = self.places(one, other, cells)
        counts = np.maximum(self.together[places].astype(np.float32) - np.float32(DISCOUNT), 0)
        of_target = sums(cells.target, counts / self.source_total[one.ids][cells.source], len(other.ids))
        of_source = sums(cells.source, counts / self.target_total[other.ids][cells.target], len(one.ids))
        return (
            _nats(of_source, self.source.share[one.ids], one, other),
            _nats(of_target, self.target.share[other.ids], other, one),
            one.counts,
            other.counts,
        )

    def places(self, one: Types, other: Types, cells: Cells) -> NDArray[np.uint32]:
        return _places(self.source, self.target, len(self.together), one, other, cells)


def _nats(explained: Floats, share: Singles, one: Types, other: Types) -> Floats:
    """The mean over a line's types of log(probability given the other side / probability)."""
    lines = one.of_lines()
    given = explained / np.maximum(other.counts[lines], 1)
    nats = np.log(BY_ITSELF + (1 - BY_ITSELF) * given / share)
    return sums(lines, nats, len(one.counts)) / np.maximum(one.counts, 1)


def cells_of(one: Types, other: Types) -> Cells:
    first = np.cumsum(one.counts) - one.counts  # each line's first source type
    lines = other.of_lines()
    width = one.counts[lines]
    before = np.cumsum(width) - width
    target = np.repeat(np.arange(len(lines), dtype=np.int32), width)
    source = np.arange(width.sum(), dtype=np.int32) + np.repeat((first[lines] - before).astype(np.int32), width)
    return Cells(source, target)


def _places(
    source: Vocabulary, target: Vocabulary, size: int, one: Types, other: Types, cells: Cells
) -> NDArray[np.uint32]:
    """Where in the table each cell's count lies."""
    left = source.hashes[one.ids].astype(np.uint32)
    right = (target.hashes[other.ids] >> np.uint64(32)).astype(np.uint32)
    places: NDArray[np.uint32] = (left[cells.source] + right[cells.target]) >> np.uint32(33 - size.bit_length())
    return places


def learn_lexicon(parts: Sequence[tuple[Words, Words]]) -> Lexicon:
    """From the words of both sides, a few thousand lines at a time."""
    source = learn_vocabulary([one for one, _ in parts])
    target = learn_vocabulary([other for _, other in parts])
    types = [(source.types(one), target.types(other)) for one, other in parts]
    meetings = sum(float((one.counts * other.counts).sum()) for one, other in types)
    size = 1 << max(FEWEST_BITS, min(MOST_BITS, int(meetings).bit_length() + 3))
    together = np.ones(size, np.float32)
    totals = [np.ones(len(source.hashes), np.float32), np.ones(len(target.hashes), np.float32)]
    for _ in range(ROUNDS):
        counted = np.zeros(size, np.float32)
        new_totals = [np.zeros(len(total)) for total in totals]
        for one, other in types:
            cells = cells_of(one, other)
            places = _places(source, target, size, one, other, cells)
            counts = together[places] + np.float32(1e-6)
            ids = (one.ids, other.ids)
            shares = []
            for side in (0, 1):  # a word shares itself out among those of the other side that meet it
                given = counts / totals[1 - side][ids[1 - side]][cells[1 - side]]
                whole = sums(cells[side], given, len(ids[side])).astype(np.float32)
                shares.append(given / whole[cells[side]])
            taken = np.sqrt(shares[0] * shares[1])
            np.add.at(counted, places, taken)
            for side in (0, 1):
                per_type = sums(cells[side], taken, len(ids[side]))
                new_totals[side] += sums(ids[side], per_type, len(new_totals[side]))
        together, totals = counted, [np.maximum(total, 1e-9).astype(np.float32) for total in new_totals]
    return Lexicon(source, target, np.minimum(together, 60_000).astype(np.float16), totals[0], totals[1])


def learn_vocabulary(parts: Sequence[Words]) -> Vocabulary:
    hashes, counts = np.unique(np.concatenate([words.hash for words in parts]), return_counts=True)
    often = np.flatnonzero(counts >= RAREST)
    if len(often) > MOST_WORDS:
        often = np.sort(often[np.argsort(-counts[often], kind="stable")[:MOST_WORDS]])
    chosen = counts[often]
    return Vocabulary(hashes[often], (chosen / max(1, chosen.sum())).astype(np.float32))
