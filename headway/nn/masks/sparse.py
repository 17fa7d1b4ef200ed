"""Sparse attention masks for long texts: each position sees few others, and a few layers still connect all of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.masks.block_plan import merge_ranges
from headway.nn.masks.masks import MAX_POSITION, Mask

FLEX_BLOCK = 128  # positions that FlexAttention computes or skips together
MAX_DRAW_COST = 1 << 24  # pairs of blocks among which random ones are drawn: a second or two
MIN_DRAW_COST = 512  # of one drawing, counted so


def strided(stride: int) -> Mask:
    """Every `stride`-th position, counted from the query."""
    return Mask(f"strided({stride})", lambda b, h, q, k: (q - k) % stride == 0, broadcasts=True, stride=stride)


def atrous(rate: int, window: int) -> Mask:
    """Dilated sliding window: of the positions less than `window` away, every `rate`-th, counted from the query."""

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return ((q - k).abs() < window) & ((q - k) % rate == 0)

    return Mask(
        f"atrous({rate}, {window})",
        allows,
        lookback=window,
        keys_per_query=window,
        broadcasts=True,
        key_ranges=lambda first, last, keys: [(first - window + 1, last - 1 + window)],
        stride=rate,
    )


def longformer(window: int, global_tokens: tuple[int, ...]) -> Mask:
    """Positions less than `window` away, and global tokens, which see every position and are seen by it."""
    runs = merge_ranges([(position, position + 1) for position in global_tokens])

    def is_global(position: Tensor) -> Tensor:
        found = (position >= runs[0][0]) & (position < runs[0][1])
        for first, last in runs[1:]:
            found = found | ((position >= first) & (position < last))
        return found

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        near = (q - k).abs() < window
        return near | is_global(q) | is_global(k) if runs else near

    def key_ranges(first: int, last: int, keys: int) -> list[tuple[int, int]]:
        if any(begin < last and first < end for begin, end in runs):
            return [(0, keys)]
        return [(first - window + 1, last - 1 + window), *runs]

    return Mask(
        f"longformer({window}, {global_tokens})",
        allows,
        keys_per_query=window + FLEX_BLOCK * len(runs),
        broadcasts=True,
        key_ranges=key_ranges,
        global_tokens=tuple(position for first, last in runs for position in range(first, last)),
    )


def segments(length: int, memory: int) -> Mask:
    """The query's own segment, and `memory` positions before it: what a layer sees that processes a text segment by
    segment and caches the end of the previous one (Transformer-XL)."""

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        start = q // length * length
        return (k >= start - memory) & (k < start + length)

    def interval(q: Tensor) -> tuple[Tensor, Tensor]:
        start = q // length * length
        return start - memory, start + length

    lookback = length + memory
    return Mask(
        f"segments({length}, {memory})",
        allows,
        lookback=lookback,
        keys_per_query=lookback,
        broadcasts=True,
        interval=interval,
    )


def fixed(block: int, summary: int = 1, groups: int = 1) -> Mask:
    """The query's own block, and the last `summary` positions of every other one. With several groups, head h takes
    the columns of group h mod groups, counted from the end of a block."""

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        last = block - (h % groups) * summary
        column = k % block
        return (q // block == k // block) | ((column >= last - summary) & (column < last))

    def key_ranges(first: int, last: int, keys: int) -> list[tuple[int, int]]:
        own = (first // block * block, -(-last // block) * block)
        return [own, *((end - groups * summary, end) for end in range(block, keys + block, block))]

    return Mask(f"fixed({block}, {summary}, {groups})", allows, broadcasts=groups == 1, key_ranges=key_ranges)


def bigbird(block: int, plan: Tensor, name: str = "") -> Mask:
    """Block-sparse: the first and the last block see all and are seen by all; the others see their neighbours and, by
    head, the random blocks of plan (H or 1, N, R). After N blocks the plan is repeated."""
    heads, blocks, random = plan.shape
    plans = {plan.device: _mark_static(plan)}  # kernels need it on their own device

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        query, key = q // block, k // block
        seen = (query == 0) | (key == 0) | (query == blocks - 1) | (key == blocks - 1) | ((query - key).abs() <= 1)
        if q.device not in plans:
            plans[q.device] = _mark_static(plan.to(q.device))
        for i in range(random):
            seen = seen | (plans[q.device][h % heads, query % blocks, i] == key)
        return seen

    drawn = [sorted({*plan[:, query].flatten().tolist()}) for query in range(blocks)]

    def key_ranges(first: int, last: int, keys: int) -> list[tuple[int, int]]:
        queries = range(first // block, -(-last // block))
        if 0 in queries or blocks - 1 in queries:
            return [(0, keys)]
        near = [(query - 1, query + 2) for query in queries]
        far = [(key, key + 1) for query in queries for key in (0, blocks - 1, *drawn[query % blocks])]
        return [(begin * block, end * block) for begin, end in near + far]

    return Mask(
        name or f"bigbird({block})",
        allows,
        keys_per_query=(5 + random) * max(block, FLEX_BLOCK),
        broadcasts=heads == 1,
        key_ranges=key_ranges,
    )


def _mark_static(table: Tensor) -> Tensor:
    """Make its shape a constant of the kernel: the CPU compiler cannot handle it as a variable."""
    torch._dynamo.mark_static(table)
    return table


def draw_random_blocks(blocks: int, random: int, heads: int, seed: int) -> Tensor:
    """For each head and block, `random` others, drawn from those that it does not see anyway: (heads, blocks,
    random)."""
    generator = torch.Generator("cpu").manual_seed(seed)
    plan = torch.zeros(heads, blocks, random, dtype=torch.long, device="cpu")
    for head in range(heads):
        for block in range(blocks):
            near = range(max(1, block - 1), min(blocks - 2, block + 1) + 1)  # the others are 1 to blocks - 2
            order = torch.randperm(max(blocks - 2, 0) - len(near), generator=generator, device="cpu")[:random] + 1
            plan[head, block, : len(order)] = torch.where(order < near.start, order, order + len(near))
    return plan


class SegmentsMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "segments"
        length: int = number(256, low=1)
        memory: int = number(256, low=0)

        def mask(self) -> Mask:
            return segments(self.length, self.memory)


class AtrousMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "atrous"
        rate: int = number(4, low=1)
        window: int = number(512, low=1)

        def mask(self) -> Mask:
            return atrous(self.rate, self.window)


class LongformerMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "longformer"
        window: int = number(256, low=1)
        global_tokens: tuple[int, ...] = (0,)

        def mask(self) -> Mask:
            wrong = [position for position in self.global_tokens if not 0 <= position <= MAX_POSITION]
            if wrong:
                raise ConfigError(
                    f"global_tokens are positions, counted from 0, and {wrong[0]} is none. Give others.", "mask"
                )
            return longformer(self.window, self.global_tokens)


class StridedMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "strided"
        stride: int = number(16, low=1)

        def mask(self) -> Mask:
            return strided(self.stride)


class FixedMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "fixed"
        block: int = number(128, low=1)
        summary: int = number(8, low=1)
        groups: int = number(1, low=1)

        def mask(self) -> Mask:
            if self.summary * self.groups > self.block:
                raise ConfigError(
                    f"groups · summary = {self.groups} · {self.summary} does not fit into block = {self.block}. Lower "
                    "groups or summary, or raise block.",
                    "mask",
                )
            return fixed(self.block, self.summary, self.groups)


class BigBirdMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "bigbird"
        block: int = number(64, low=1)
        random: int = number(3, low=0)  # random blocks that each block sees
        max_positions: int = number(4096, low=1)  # positions that the plan covers before it is repeated
        heads: int = number(1, low=1)  # with random blocks of their own each
        seed: int = 0

        def mask(self) -> Mask:
            blocks = -(-self.max_positions // self.block)
            left = max(blocks - 5, 0)
            if self.random > left:
                raise ConfigError(
                    f"random = {self.random}, but {self.max_positions} positions in blocks of {self.block} leave "
                    f"{left} to draw from: a block always sees the first, the last, itself and its neighbours. Lower "
                    "random or block, or raise max_positions.",
                    "mask",
                )
            if self.heads * blocks * max(blocks, MIN_DRAW_COST) > MAX_DRAW_COST:
                raise ConfigError(
                    f"random blocks for {self.heads:,} heads and {blocks:,} blocks ({self.max_positions:,} positions "
                    f"in blocks of {self.block:,}) are too many to draw. Lower heads or max_positions, or raise block.",
                    "mask",
                )
            plan = draw_random_blocks(blocks, self.random, self.heads, self.seed)
            settings = ", ".join(
                str(value) for value in (self.block, self.random, self.max_positions, self.heads, self.seed)
            )
            return bigbird(self.block, plan, f"bigbird({settings})")
