"""Masks for long texts, where each place sees few others and everything still reaches everything in a few layers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.masks.masks import Mask

KERNEL_BLOCK = 128  # places that FlexAttention takes or leaves together


def strided(stride: int) -> Mask:
    """Every `stride`-th place, counted from oneself."""
    return Mask(f"strided({stride})", lambda b, h, q, k: (q - k) % stride == 0, alike=True)


def segments(length: int, memory: int) -> Mask:
    """One's own segment, and `memory` places before it: what a layer sees that reads a text in segments and remembers
    the last of what it read."""

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        start = q // length * length
        return (k >= start - memory) & (k < start + length)

    def span(q: Tensor) -> tuple[Tensor, Tensor]:
        start = q // length * length
        return start - memory, start + length

    return Mask(f"segments({length}, {memory})", allows, length + memory, length + memory, alike=True, span=span)


def fixed(stretch: int, summary: int = 1, groups: int = 1) -> Mask:
    """One's own stretch, and the last `summary` places of every other. With several groups, head h takes the columns
    of group h mod groups, counted from the end of a stretch."""

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        last = stretch - (h % groups) * summary
        column = k % stretch
        return (q // stretch == k // stretch) | ((column >= last - summary) & (column < last))

    return Mask(f"fixed({stretch}, {summary}, {groups})", allows)


def bigbird(block: int, plan: Tensor, name: str = "") -> Mask:
    """By blocks: the first and the last see all and are seen by all; others see their neighbours and, by head, the
    blocks of plan (H or 1, N, R). N blocks; what lies behind them begins the plan anew."""
    heads, blocks, random = plan.shape
    held = {plan.device: _constant(plan)}  # kernels look up what lies where they run

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        one, other = q // block, k // block
        seen = (one == 0) | (other == 0) | (one == blocks - 1) | (other == blocks - 1) | ((one - other).abs() <= 1)
        if q.device not in held:
            held[q.device] = _constant(plan.to(q.device))
        for which in range(random):
            seen = seen | (held[q.device][h % heads, one % blocks, which] == other)
        return seen

    return Mask(name or f"bigbird({block})", allows, sees=(5 + random) * max(block, KERNEL_BLOCK))


def _constant(table: Tensor) -> Tensor:
    """Its shape is one of a kernel's constants: the CPU's compiler cannot make it a variable."""
    torch._dynamo.mark_static(table)
    return table


def random_plan(blocks: int, random: int, heads: int, seed: int) -> Tensor:
    """For each head and block, so many others that it does not see anyway."""
    draw = torch.Generator("cpu").manual_seed(seed)
    plan = torch.zeros(heads, blocks, random, dtype=torch.long, device="cpu")
    for head in range(heads):
        for one in range(blocks):
            far = [other for other in range(1, blocks - 1) if abs(other - one) > 1]
            order = torch.randperm(len(far), generator=draw, device="cpu")[:random].tolist()
            plan[head, one, : len(order)] = torch.tensor(
                [far[place] for place in order], dtype=torch.long, device="cpu"
            )
    return plan


class Segments:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "segments"
        length: int = number(256, low=1)
        memory: int = number(256, low=0)

        def mask(self) -> Mask:
            return segments(self.length, self.memory)


class Strided:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "strided"
        stride: int = number(16, low=1)

        def mask(self) -> Mask:
            return strided(self.stride)


class Fixed:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "fixed"
        stretch: int = number(128, low=1)
        summary: int = number(8, low=1)
        groups: int = number(1, low=1)

        def mask(self) -> Mask:
            if self.summary * self.groups > self.stretch:
                raise ConfigError(
                    f"{self.groups} groups of {self.summary} places do not fit into a stretch of {self.stretch}. "
                    "Lower them, or raise it.",
                    "mask",
                )
            return fixed(self.stretch, self.summary, self.groups)


class BigBird:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "bigbird"
        block: int = number(64, low=1)
        random: int = number(3, low=0)  # blocks that each sees by chance
        longest: int = number(4096, low=1)  # places that the plan is made for
        heads: int = number(1, low=1)  # with a plan of their own each
        seed: int = 0

        def mask(self) -> Mask:
            blocks = -(-self.longest // self.block)
            left = max(blocks - 5, 0)
            if self.random > left:
                raise ConfigError(
                    f"random = {self.random}, but {self.longest} places in blocks of {self.block} leave {left} to draw "
                    "from: the first, the last, oneself and the neighbours are seen anyway. Lower random or block, or "
                    "raise longest.",
                    "mask",
                )
            plan = random_plan(blocks, self.random, self.heads, self.seed)
            told = ", ".join(str(value) for value in (self.block, self.random, self.longest, self.heads, self.seed))
            return bigbird(self.block, plan, f"bigbird({told})")
