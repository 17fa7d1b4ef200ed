"""Which blocks of keys each block of queries needs under a mask, without looking at every pair.

A mask says which ranges of keys a range of queries may see (`Mask.visible_ranges`). From it follows a BlockPlan: for
each block of queries the blocks of keys with anything to see. Ranges that are much shorter than a block, such as
single positions that every query sees, would fill whole blocks; they are the *columns*, gathered once and cut into
blocks of their own. Under a mask of stride s, which shows positions of the query's own class modulo s only, positions
are sorted by class first, and a plan is made for the classes, all at once.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headway.nn.masks.masks import Mask

Ranges = list[tuple[int, int]]  # sorted, disjoint: first key, and the one after the last
BLOCK_TOKENS = 128
MIN_RANGE_TOKENS = 32  # of a range that is taken by blocks; a shorter one is columns


class QueryBlock(NamedTuple):
    first: int  # query, and the one after the last
    last: int
    key_blocks: tuple[int, ...]
    column_blocks: tuple[int, ...]  # blocks of the columns


class BlockPlan(NamedTuple):
    stride: int
    columns: tuple[int, ...]  # keys that are gathered
    blocks: tuple[QueryBlock, ...]
    pairs: int  # of a query and a key that are computed


def merge_ranges(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """Sorted and disjoint, without empty ones."""
    merged: Ranges = []
    for first, last in sorted(ranges):
        if first >= last:
            continue
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def intersect_ranges(one: Ranges, other: Ranges) -> Ranges:
    found: Ranges = []
    i = j = 0
    while i < len(one) and j < len(other):
        found.append((max(one[i][0], other[j][0]), min(one[i][1], other[j][1])))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return merge_ranges(found)


def plan_blocks(mask: "Mask", length: int) -> BlockPlan:
    """For self-attention of positions 0 … length - 1."""
    stride = min(mask.stride, length)
    size = -(-length // stride)  # of a class
    wanted: list[tuple[int, int, Ranges]] = []
    for first in range(0, size, BLOCK_TOKENS):
        last = min(first + BLOCK_TOKENS, size)
        ranges = mask.visible_ranges(first * stride, min(last * stride, length), length)
        # Of each class, as many as the range may hold.
        inside = merge_ranges([(begin // stride, -(-end // stride)) for begin, end in ranges])
        wanted.append((first, last, inside))
    short = merge_ranges([one for _, _, ranges in wanted for one in ranges if _is_short(one, size)])
    columns = [key for begin, end in short for key in range(begin, end)]
    blocks, pairs = [], 0
    for first, last, ranges in wanted:
        key_blocks = _covering_blocks([one for one in ranges if not _is_short(one, size)])
        indices = [tuple(bisect_left(columns, end) for end in one) for one in ranges if _is_short(one, size)]
        column_blocks = _covering_blocks(indices)
        blocks.append(QueryBlock(first, last, key_blocks, column_blocks))
        seen = _count_tokens(key_blocks, size) + _count_tokens(column_blocks, len(columns))
        pairs += (last - first) * seen * stride
    return BlockPlan(stride, tuple(columns), tuple(blocks), pairs)


def _is_short(one: tuple[int, int], size: int) -> bool:
    return one[1] - one[0] < min(MIN_RANGE_TOKENS, size)


def _covering_blocks(ranges: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The blocks in which these ranges lie."""
    covered = {block for first, last in ranges for block in range(first // BLOCK_TOKENS, -(-last // BLOCK_TOKENS))}
    return tuple(sorted(covered))


def _count_tokens(blocks: Sequence[int], size: int) -> int:
    """In these blocks, of which the last may be shorter."""
    return sum(min(BLOCK_TOKENS, size - block * BLOCK_TOKENS) for block in blocks)
