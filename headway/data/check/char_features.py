"""Lines as NumPy arrays of code points, character trigrams and word hashes: no Python loop over lines."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.text.scripts import SCRIPT_NAMES, UNSPACED_SCRIPTS, script_table

TRIGRAM_BITS = 18
NEW_LINE = 10
SPACE = 32
MAX_HASHED_POSITIONS = 64  # letters of a word, after which the factors repeat
# Random odd factors, so that the same letter at different positions hashes differently.
POSITION_FACTORS = np.random.default_rng(64).integers(1, 1 << 63, MAX_HASHED_POSITIONS, dtype=np.uint64) | np.uint64(1)

Codes = NDArray[np.uint32]
Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]


class CodePoints(NamedTuple):
    """Lines in lower case, one behind the other, with a line feed before each."""

    codes: Codes  # (C,)
    line: Numbers  # (C,) the line of each character
    lines: int


class Trigrams(NamedTuple):
    line: Numbers  # (T,)
    key: Numbers  # (T,) below 1 << TRIGRAM_BITS, equal for equal trigrams
    lines: int


class WordHashes(NamedTuple):
    line: Numbers  # (W,)
    hash: Hashes  # (W,) equal for equal words
    lines: int

    def counts(self) -> Numbers:
        return np.bincount(self.line, minlength=self.lines)


def sum_by_index(indices: NDArray[Any], values: NDArray[Any], count: int) -> NDArray[np.float64]:
    """The sum of the values at each of `count` indices."""
    return np.asarray(np.bincount(indices, values, count), np.float64)


def to_code_points(lines: Sequence[str]) -> CodePoints:
    text = "".join(f"\n{line}" for line in lines).lower()
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return CodePoints(codes, np.cumsum(codes == NEW_LINE) - 1, len(lines))


@cache
def _letter_table() -> NDArray[np.bool_]:
    return script_table() > 0


@cache
def _word_table() -> NDArray[np.uint8]:
    """0: not part of a word; 1: part of a word; 2: a word by itself, in scripts without spaces."""
    table = _letter_table().astype(np.uint8)
    for first, last in ((0x30, 0x39), (0x300, 0x36F), (0x660, 0x669), (0x6F0, 0x6F9), (0x966, 0x96F)):
        table[first : last + 1] = 1  # digits, and combining accents
    table[np.isin(script_table(), [SCRIPT_NAMES.index(name) for name in UNSPACED_SCRIPTS])] = 2
    return table


def count_line_scripts(code_points: CodePoints) -> Numbers:
    """The number of letters of each script in each line."""  # (lines, scripts)
    scripts = len(SCRIPT_NAMES)
    cells = code_points.line * scripts + script_table()[code_points.codes]
    counts = np.bincount(cells, minlength=code_points.lines * scripts).reshape(code_points.lines, scripts)
    counts[:, 0] = 0
    return counts


def extract_trigrams(code_points: CodePoints) -> Trigrams:
    """Every three characters in a row with a letter in the middle; other characters count as spaces."""
    codes: Codes = np.where(_letter_table()[code_points.codes], code_points.codes, np.uint32(SPACE))
    first, second, third = codes[:-2], codes[1:-1], codes[2:]
    mixed: Codes = first * np.uint32(0x9E3779B1) + second * np.uint32(0x85EBCA77) + third * np.uint32(0xC2B2AE3D)
    mixed ^= mixed >> np.uint32(15)
    mixed *= np.uint32(0x2C1B3C6D)
    inside = (code_points.line[:-2] == code_points.line[2:]) & (second != SPACE)
    keys = (mixed[inside] >> np.uint32(32 - TRIGRAM_BITS)).astype(np.int64)
    return Trigrams(code_points.line[2:][inside], keys, code_points.lines)


def extract_words(code_points: CodePoints) -> WordHashes:
    """Runs of letters and digits; in scripts without spaces, each character."""
    kinds = _word_table()[code_points.codes]
    begins = kinds > 0
    begins[1:] &= (kinds[:-1] != 1) | (kinds[1:] == 2)
    starts = np.flatnonzero(begins)
    if not len(starts):
        return WordHashes(np.zeros(0, np.int64), np.zeros(0, np.uint64), code_points.lines)
    lengths = np.diff(np.append(starts, len(code_points.codes)))
    positions = np.arange(starts[0], len(code_points.codes)) - np.repeat(starts, lengths)
    values = (code_points.codes[starts[0] :].astype(np.uint64) + np.uint64(1)) * POSITION_FACTORS[
        positions % MAX_HASHED_POSITIONS
    ]
    values[kinds[starts[0] :] == 0] = 0
    return WordHashes(
        code_points.line[starts], _mix_bits(np.add.reduceat(values, starts - starts[0])), code_points.lines
    )


def hash_sentences(words: WordHashes) -> Hashes:
    """One hash a line, equal for equal words; 0 for a line without words."""
    counts = words.counts()
    ends = np.cumsum(counts)
    positions = np.arange(len(words.hash)) - np.repeat(ends - counts, counts)
    factors = _mix_bits(positions.astype(np.uint64) + np.uint64(1)) | np.uint64(1)
    sums = np.zeros(len(words.hash) + 1, np.uint64)
    np.cumsum(words.hash * factors, out=sums[1:])
    return _mix_bits(sums[ends] - sums[ends - counts])


def _mix_bits(values: Hashes) -> Hashes:
    """Every bit of the result depends on every bit of the value. 0 stays 0."""
    values = values ^ (values >> np.uint64(29))
    values = values * np.uint64(0xBF58476D1CE4E5B9)
    return values ^ (values >> np.uint64(32))
