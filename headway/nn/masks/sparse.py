"""Sparse attention masks for long texts: each position sees few others, and a few layers still connect all of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.masks.masks import Mask

FLEX_BLOCK = 128  # positions that FlexAttention computes or skips together
MAX_DRAW_COST = 1 << 24  # pairs of blocks among which random ones are drawn: a second or two
MIN_DRAW_COST = 512  # of one drawing, counted so


def strided(stride: int) -> Mask:
    """Every `stride`-th position, counted from the query."""
    return Mask(f"strided({stride})", lambda b, h, q, k: (q - k) % stride == 0, broadcasts=True)


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

    return Mask(f"fixed({block}, {summary}, {groups})", allows)


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

    return Mask(name or f"bigbird({block})", allows, keys_per_query=(5 + random) * max(block, FLEX_BLOCK))


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
