"""Examples into batches: counted in tokens, like lengths together, in an order fixed by seed and epoch."""

from collections.abc import Iterable, Sequence

import numpy as np

Lengths = np.ndarray  # (examples, sides), in tokens
Sizes = tuple[int, int]  # tokens of a line, source and target

GRAIN = 4  # lengths are padded to a multiple of this, or of 2 or 4 times it where they are long
LINE_GRAIN = 64  # sizes of lines are a multiple of this
ROWS = 8  # rows of a full batch are a multiple of this


def rounded(lengths: Lengths, grain: int = GRAIN) -> Lengths:
    """Lengths as they are padded, so that few shapes occur: a coarse grain makes fewer, a fine one wastes less."""
    grains = np.where(lengths <= 8 * grain, grain, np.where(lengths <= 16 * grain, 2 * grain, 4 * grain))
    padded: Lengths = np.maximum(-(-lengths // grains) * grains, grain)
    return padded


def rows_that_fit(longest: int, budget: int) -> int:
    """How many rows of this length make at most `budget` tokens; one at least."""
    rows = max(1, budget // longest)
    return rows // ROWS * ROWS if rows >= ROWS else rows


def token_batches(lengths: Lengths, budget: int, seed: Sequence[int], grain: int = GRAIN) -> list[np.ndarray]:
    """Which examples make each batch, in an order that the seed decides: at most `budget` tokens a side, padding counted.

    Like lengths come together, and the shape of a batch alone decides how many rows it has, but for the last one.
    """
    random = np.random.default_rng(seed)
    padded = rounded(lengths, grain)
    widest = padded.max(axis=1)
    order = random.permutation(len(lengths))
    order = order[np.lexsort(padded[order].T)]  # by the last side first; chance within a shape
    batches, start = [], 0
    while start < len(order):
        batch = order[start : start + rows_that_fit(int(widest[order[start]]), budget)]
        while len(batch) > (fit := rows_that_fit(int(widest[batch].max()), budget)):
            batch = batch[:fit]
        batches.append(batch)
        start += len(batch)
    return [batches[index] for index in random.permutation(len(batches))]


def line_sizes(lengths: Lengths, budget: int, longest: int) -> Sizes:
    """How many tokens the lines of both sides hold, so that they fill up together: `budget` for the longer side, less for
    the other as their lengths are to each other, and never less than the longest text."""
    totals = lengths.sum(axis=0)
    shares = -(-64 * totals // max(int(totals.max()), 1)) / 64  # coarse: the same for every portion of a corpus
    # A small text gets a line for all of it, with room for an epoch in which words are split into more pieces.
    room = np.maximum(np.minimum(budget * shares, totals * 1.1), longest + 1)
    source, target = (int(-(-size // LINE_GRAIN) * LINE_GRAIN) for size in room)
    return source, target


def packed_batches(lengths: Lengths, sizes: Sizes, seed: Sequence[int]) -> list[np.ndarray]:
    """Which examples make each line, in an order that the seed decides: as many as fit one behind the other."""
    order = np.random.default_rng(seed).permutation(len(lengths))
    ends = np.cumsum(lengths[order], axis=0)  # (examples, sides)
    lines, start, before = [], 0, np.zeros(lengths.shape[1], ends.dtype)
    while start < len(order):
        stop = min(int(np.searchsorted(ends[:, side], before[side] + size, "right")) for side, size in enumerate(sizes))
        if stop == start:
            raise ValueError(f"a text of {lengths[order[start]].tolist()} tokens does not fit into lines of {sizes}")
        lines.append(order[start:stop])
        start, before = stop, ends[stop - 1]
    return lines


def micro_batches(batch: np.ndarray, lengths: Lengths, budget: int, grain: int = GRAIN) -> list[np.ndarray]:
    """One batch in pieces that fit the device; their gradients are added up."""
    rows = rows_that_fit(int(rounded(lengths[batch], grain).max()), budget)
    return [batch[start : start + rows] for start in range(0, len(batch), rows)]


def padding_share(batches: Iterable[np.ndarray], lengths: Lengths, grain: int = GRAIN) -> float:
    """How much of what is computed is padding."""
    real = computed = 0
    for batch in batches:
        real += int(lengths[batch].sum())
        computed += int(rounded(lengths[batch], grain).max(axis=0).sum()) * len(batch)
    return 1 - real / computed if computed else 0.0


def piece_starts(tokens: int, length: int, seed: int, epoch: int) -> np.ndarray:
    """Where the pieces of a long text begin: of length + 1, sharing one token, from another place in each epoch."""
    if tokens <= length + 1:
        return np.zeros(1, np.int64)
    spare = (tokens - 1) % length
    offset = int(np.random.default_rng([seed, epoch]).integers(spare + 1))
    return np.arange(offset, tokens - length, length)
