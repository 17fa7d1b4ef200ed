"""Many lines at once as arrays of code points, letter triples and words, so that no line costs a loop in Python."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.text.scripts import NAMES, UNSPACED, script_table

TRIPLE_BITS = 18
NEW_LINE, SPACE = 10, 32
LONGEST = 64  # letters after which the places in a word are counted from 0 again
# Odd numbers to multiply by, so that the products of different places do not meet.
FACTORS = np.random.default_rng(64).integers(1, 1 << 63, LONGEST, dtype=np.uint64) | np.uint64(1)

Codes = NDArray[np.uint32]
Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]


class Letters(NamedTuple):
    """Lines in lower case, behind each other, with a line end before each."""

    codes: Codes  # (C,)
    line: Numbers  # (C,) the line that a character stands in
    lines: int


class Triples(NamedTuple):
    line: Numbers  # (T,)
    key: Numbers  # (T,) below 1 << TRIPLE_BITS, equal for equal triples
    lines: int


class Words(NamedTuple):
    line: Numbers  # (W,)
    hash: Hashes  # (W,) equal for equal words
    lines: int

    def counts(self) -> Numbers:
        return np.bincount(self.line, minlength=self.lines)


def sums(places: NDArray[Any], values: NDArray[Any], count: int) -> NDArray[np.float64]:
    """The sum of the values at each of `count` places."""
    return np.asarray(np.bincount(places, values, count), np.float64)


def letters_of(lines: Sequence[str]) -> Letters:
    text = "".join(f"\n{line}" for line in lines).lower()
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return Letters(codes, np.cumsum(codes == NEW_LINE) - 1, len(lines))


@cache
def _letter_table() -> NDArray[np.bool_]:
    return script_table() > 0


@cache
def _word_table() -> NDArray[np.uint8]:
    """What a character is to a word: 0 nothing, 1 a part of it, 2 a word of its own."""
    table = _letter_table().astype(np.uint8)
    for first, last in ((0x30, 0x39), (0x300, 0x36F), (0x660, 0x669), (0x6F0, 0x6F9), (0x966, 0x96F)):
        table[first : last + 1] = 1  # digits, and accents that stand alone
    table[np.isin(script_table(), [NAMES.index(name) for name in UNSPACED])] = 2
    return table


def script_counts(letters: Letters) -> Numbers:
    """How many letters of each script a line has."""  # (lines, scripts)
    scripts = len(NAMES)
    cells = letters.line * scripts + script_table()[letters.codes]
    counts = np.bincount(cells, minlength=letters.lines * scripts).reshape(letters.lines, scripts)
    counts[:, 0] = 0
    return counts


def triples_of(letters: Letters) -> Triples:
    """Every three letters in a row with a letter in their middle; what is no letter is a space."""
    codes: Codes = np.where(_letter_table()[letters.codes], letters.codes, np.uint32(SPACE))
    first, second, third = codes[:-2], codes[1:-1], codes[2:]
    spread: Codes = first * np.uint32(0x9E3779B1) + second * np.uint32(0x85EBCA77) + third * np.uint32(0xC2B2AE3D)
    spread ^= spread >> np.uint32(15)
    spread *= np.uint32(0x2C1B3C6D)
    whole = (letters.line[:-2] == letters.line[2:]) & (second != SPACE)
    keys = (spread[whole] >> np.uint32(32 - TRIPLE_BITS)).astype(np.int64)
    return Triples(letters.line[2:][whole], keys, letters.lines)


def words_of(letters: Letters) -> Words:
    """Runs of letters and digits; in scripts without spaces, each character."""
    kinds = _word_table()[letters.codes]
    begins = kinds > 0
    begins[1:] &= (kinds[:-1] != 1) | (kinds[1:] == 2)
    starts = np.flatnonzero(begins)
    if not len(starts):
        return Words(np.zeros(0, np.int64), np.zeros(0, np.uint64), letters.lines)
    lengths = np.diff(np.append(starts, len(letters.codes)))
    places = np.arange(starts[0], len(letters.codes)) - np.repeat(starts, lengths)
    values = (letters.codes[starts[0] :].astype(np.uint64) + np.uint64(1)) * FACTORS[places % LONGEST]
    values[kinds[starts[0] :] == 0] = 0
    return Words(letters.line[starts], _mixed(np.add.reduceat(values, starts - starts[0])), letters.lines)


def sentence_hashes(words: Words) -> Hashes:
    """One number a line, equal where the words are equal; 0 where there is none."""
    counts = words.counts()
    ends = np.cumsum(counts)
    places = np.arange(len(words.hash)) - np.repeat(ends - counts, counts)
    factors = _mixed(places.astype(np.uint64) + np.uint64(1)) | np.uint64(1)
    sums = np.zeros(len(words.hash) + 1, np.uint64)
    np.cumsum(words.hash * factors, out=sums[1:])
    return _mixed(sums[ends] - sums[ends - counts])


def _mixed(values: Hashes) -> Hashes:
    """Every bit of the result depends on every bit of the value. 0 stays 0."""
    values = values ^ (values >> np.uint64(29))
    values = values * np.uint64(0xBF58476D1CE4E5B9)
    return values ^ (values >> np.uint64(32))
