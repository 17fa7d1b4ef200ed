"""Dequantise the blocks of GGUF. A block holds 32 or 256 values: integers of a few bits, and scales.

value = scale · integer            Q4_0 Q5_0 Q8_0 Q6_K
value = scale · integer + minimum  Q4_1 Q5_1 Q4_K Q5_K
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

CHUNK_VALUES = 2**22  # dequantised at a time, so that intermediate results stay small


class QuantisationKind(NamedTuple):
    name: str
    values: int  # of a block
    bytes: int
    dtype: torch.dtype  # of the result
    read: Callable[[Tensor], Tensor] | None = None  # (blocks, bytes) -> (blocks, values); None: stored as it is


def dequantise(raw: Tensor, kind: QuantisationKind) -> Tensor:
    """Bytes as values, one after the other."""
    if kind.read is None:
        return raw.view(kind.dtype)
    blocks = raw.view(-1, kind.bytes)
    result = torch.empty(len(blocks), kind.values)
    step = CHUNK_VALUES // kind.values
    for first in range(0, len(blocks), step):
        result[first : first + step] = kind.read(blocks[first : first + step])
    return result.flatten()


def _half(blocks: Tensor, at: int) -> Tensor:
    """The float16 at a byte of each block, as (blocks, 1)."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _nibbles(packed: Tensor) -> Tensor:
    """(blocks, n) -> (blocks, 2 n): first the low halves of all bytes, then the high ones."""
    return torch.cat([packed & 15, packed >> 4], dim=1)


def _fifth_bits(packed: Tensor) -> Tensor:
    """(blocks, 4) bytes of bits -> (blocks, 32), each 0 or 16."""
    bits = (packed[:, :, None] >> torch.arange(8, dtype=torch.uint8)) & 1  # (blocks, 4, 8)
    return bits.flatten(1) << 4


def _read_q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).float() - 8)


def _read_q4_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]).float() + _half(blocks, 2)


def _read_q5_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * ((_nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])).float() - 16)


def _read_q5_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])).float() + _half(blocks, 2)


def _read_q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * blocks[:, 2:].view(torch.int8).float()


def _read_six_bit_scales(packed: Tensor) -> tuple[Tensor, Tensor]:
    """(blocks, 12) -> scales and minima of 8 groups: four of six bits each, then four that are split."""
    low, middle, high = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = torch.cat([low & 63, (high & 15) | ((low >> 6) << 4)], dim=1)
    minima = torch.cat([middle & 63, (high >> 4) | ((middle >> 6) << 4)], dim=1)
    return scales.float(), minima.float()  # (blocks, 8) each


def _scale_groups(blocks: Tensor, integers: Tensor) -> Tensor:
    """integers: (blocks, 8, 32)."""
    scales, minima = _read_six_bit_scales(blocks[:, 4:16])
    scales, minima = _half(blocks, 0) * scales, _half(blocks, 2) * minima
    return (scales[:, :, None] * integers.float() - minima[:, :, None]).flatten(1)


def _grouped_nibbles(packed: Tensor) -> Tensor:
    """(blocks, 128) -> (blocks, 8, 32): of each 32 bytes first the low halves, then the high ones."""
    groups = packed.view(len(packed), 4, 1, 32)
    return torch.cat([groups & 15, groups >> 4], dim=2).flatten(1, 2)


def _read_q4_k(blocks: Tensor) -> Tensor:
    return _scale_groups(blocks, _grouped_nibbles(blocks[:, 16:].contiguous()))


def _read_q5_k(blocks: Tensor) -> Tensor:
    bits = (blocks[:, None, 16:48] >> torch.arange(8, dtype=torch.uint8)[:, None]) & 1  # (blocks, 8, 32)
    return _scale_groups(blocks, _grouped_nibbles(blocks[:, 48:].contiguous()) | (bits << 4))


def _read_q6_k(blocks: Tensor) -> Tensor:
    count = len(blocks)
    low = blocks[:, :128].reshape(count, 2, 1, 64)
    high = blocks[:, 128:192].reshape(count, 2, 1, 32)
    nibbles = torch.cat([low & 15, low >> 4], dim=2).view(count, 2, 4, 32)
    pairs = (high >> torch.tensor([0, 2, 4, 6], dtype=torch.uint8)[:, None]) & 3  # (blocks, 2, 4, 32)
    integers = (nibbles | (pairs << 4)).float() - 32
    scales = _half(blocks, 208) * blocks[:, 192:208].contiguous().view(torch.int8).float()  # (blocks, 16)
    return (scales[:, :, None] * integers.view(count, 16, 16)).flatten(1)


# By their numbers in GGUF.
KINDS = {
    0: QuantisationKind("F32", 1, 4, torch.float32),
    1: QuantisationKind("F16", 1, 2, torch.float16),
    2: QuantisationKind("Q4_0", 32, 18, torch.float32, _read_q4_0),
    3: QuantisationKind("Q4_1", 32, 20, torch.float32, _read_q4_1),
    6: QuantisationKind("Q5_0", 32, 22, torch.float32, _read_q5_0),
    7: QuantisationKind("Q5_1", 32, 24, torch.float32, _read_q5_1),
    8: QuantisationKind("Q8_0", 32, 34, torch.float32, _read_q8_0),
    12: QuantisationKind("Q4_K", 256, 144, torch.float32, _read_q4_k),
    13: QuantisationKind("Q5_K", 256, 176, torch.float32, _read_q5_k),
    14: QuantisationKind("Q6_K", 256, 210, torch.float32, _read_q6_k),
    30: QuantisationKind("BF16", 1, 2, torch.bfloat16),
}
