"""Batches by number of tokens: padded (similar lengths together) or packed (one behind the other); seeded order."""

from collections.abc import Iterable, Sequence

import numpy as np

Lengths = np.ndarray  # (examples, sides), in tokens
PackedSizes = tuple[int, int]  # tokens of a packed sequence, source and target

PAD_MULTIPLE = 4  # lengths are padded to a multiple of this; long ones to a multiple of 2 or 4 times it
PACKED_MULTIPLE = 64  # the length of a packed sequence is a multiple of this
ROW_MULTIPLE = 8  # a full batch has a multiple of this many rows


def round_up_lengths(lengths: Lengths, multiple: int = PAD_MULTIPLE) -> Lengths:
    """The padded lengths. A larger multiple gives fewer different shapes, a smaller one less padding."""
    steps = np.where(lengths <= 8 * multiple, multiple, np.where(lengths <= 16 * multiple, 2 * multiple, 4 * multiple))
    padded: Lengths = np.maximum(-(-lengths // steps) * steps, multiple)
    return padded


def fit_rows(length: int, budget: int) -> int:
    """How many rows of this length have at most `budget` tokens together; at least one."""
    rows = max(1, budget // length)
    return rows // ROW_MULTIPLE * ROW_MULTIPLE if rows >= ROW_MULTIPLE else rows


def make_padded_batches(
    lengths: Lengths, budget: int, seed: Sequence[int], multiple: int = PAD_MULTIPLE
) -> list[np.ndarray]:
    """The examples of each padded batch, in a seeded order: at most `budget` tokens a side, padding included.

    Similar lengths come together. The number of rows follows from the shape of a batch alone, except in the last one.
    """
    random = np.random.default_rng(seed)
    padded = round_up_lengths(lengths, multiple)
    widest = padded.max(axis=1)
    order = random.permutation(len(lengths))
    order = order[np.lexsort(padded[order].T)]  # by the last side first; random within a shape
    batches = []
    start = 0
    while start < len(order):
        batch = order[start : start + fit_rows(int(widest[order[start]]), budget)]
        while len(batch) > (rows := fit_rows(int(widest[batch].max()), budget)):
            batch = batch[:rows]
        batches.append(batch)
        start += len(batch)
    return [batches[index] for index in random.permutation(len(batches))]


def choose_packed_sizes(lengths: Lengths, budget: int, max_tokens: int) -> PackedSizes:
    """The lengths of the packed sequences of both sides, so that both fill up together: `budget` tokens for the longer
    side, less for the other in proportion to their totals, and at least one text of max_tokens."""
    totals = lengths.sum(axis=0)
    shares = -(-64 * totals // max(int(totals.max()), 1)) / 64  # coarse: the same for every shard of a corpus
    # A small corpus gets one sequence for all of it, with space for epochs in which words split into more tokens.
    capacity = np.maximum(np.minimum(budget * shares, totals * 1.1), max_tokens + 1)
    source, target = (int(-(-size // PACKED_MULTIPLE) * PACKED_MULTIPLE) for size in capacity)
    return source, target


def make_packed_batches(lengths: Lengths, sizes: PackedSizes, seed: Sequence[int]) -> list[np.ndarray]:
    """The examples of each packed sequence, in a seeded order: as many as fit one behind the other."""
    order = np.random.default_rng(seed).permutation(len(lengths))
    ends = np.cumsum(lengths[order], axis=0)  # (examples, sides)
    sequences = []
    start = 0
    before = np.zeros(lengths.shape[1], ends.dtype)
    while start < len(order):
        stop = min(int(np.searchsorted(ends[:, side], before[side] + size, "right")) for side, size in enumerate(sizes))
        if stop == start:
            raise ValueError(
                f"a text of {lengths[order[start]].tolist()} tokens does not fit a packed sequence of {sizes}"
            )
        sequences.append(order[start:stop])
        start = stop
        before = ends[stop - 1]
    return sequences


def split_micro_batches(
    batch: np.ndarray, lengths: Lengths, budget: int, multiple: int = PAD_MULTIPLE
) -> list[np.ndarray]:
    """A batch in micro-batches of at most `budget` tokens, whose gradients are added up."""
    rows = fit_rows(int(round_up_lengths(lengths[batch], multiple).max()), budget)
    return [batch[start : start + rows] for start in range(0, len(batch), rows)]


def measure_padding(batches: Iterable[np.ndarray], lengths: Lengths, multiple: int = PAD_MULTIPLE) -> float:
    """The share of padding among all tokens."""
    real = computed = 0
    for batch in batches:
        real += int(lengths[batch].sum())
        computed += int(round_up_lengths(lengths[batch], multiple).max(axis=0).sum()) * len(batch)
    return 1 - real / computed if computed else 0.0


def draw_chunk_starts(tokens: int, length: int, seed: int, epoch: int) -> np.ndarray:
    """Where the chunks of a long text begin: length + 1 tokens each, overlapping by one. The first offset is random in
    each epoch."""
    if tokens <= length + 1:
        return np.zeros(1, np.int64)
    spare = (tokens - 1) % length
    offset = int(np.random.default_rng([seed, epoch]).integers(spare + 1))
    return np.arange(offset, tokens - length, length)
