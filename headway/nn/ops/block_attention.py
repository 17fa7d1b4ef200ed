"""Attention that skips what its mask hides, in plain PyTorch: block by block of queries, each with the blocks of keys
that it may see. Linear in the length of the text under a sliding window, in time and memory, with gradients, without
compilation. It equals `attend` by any other kernel."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.masks.block_plan import BLOCK_TOKENS, BlockPlan
from headway.nn.masks.masks import BoundMask

# Of one block: q (N, H, T, D), k (N, G, S, D), v (N, G, S, E), what is allowed (N or 1, H or 1, T, S), and the
# positions of queries and keys (N or 1, T), (N or 1, S) -> (N, H, T, E)
AttendBlock = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class KeyBlocks(NamedTuple):
    """Keys, values, positions and validity in blocks."""

    k: tuple[Tensor, ...]
    v: tuple[Tensor, ...]
    positions: tuple[Tensor, ...]  # (N or 1, S)
    valid: tuple[Tensor, ...]  # (N or 1, S)

    @classmethod
    def cut(cls, k: Tensor, v: Tensor, positions: Tensor, valid: Tensor) -> "KeyBlocks":
        # split and cat, not slices: the gradient of a slice is as large as what it was cut from
        return cls(k.split(BLOCK_TOKENS, 2), v.split(BLOCK_TOKENS, 2), positions.split(BLOCK_TOKENS, 1),
                   valid.split(BLOCK_TOKENS, 1))  # fmt: skip


def attend_blocks(q: Tensor, k: Tensor, v: Tensor, mask: BoundMask, plan: BlockPlan, attend: AttendBlock) -> Tensor:
    """q (B, H, T, D), k (B, G, T, D), v (B, G, T, E) -> (B, H, T, E). `attend` computes each block."""
    rows, _, length, _ = q.shape
    stride = plan.stride
    positions = torch.arange(-(-length // stride) * stride, device=q.device)[None]
    valid = positions < length
    if mask.keys.valid is not None:
        valid = valid & F.pad(mask.keys.valid, (0, positions.shape[1] - length))
    q, k, v = (_sort_by_class(x, stride) for x in (q, k, v))  # (B·s, H, T / s, D)
    classes = _sort_by_class(positions[:, None, :, None], stride)[:, 0, :, 0]  # (s, T / s)
    valid = _sort_by_class(valid[:, None, :, None], stride)[:, 0, :, 0]  # (B·s or s, T / s)
    if stride > 1:
        classes, valid = classes.repeat(rows, 1), valid if len(valid) > stride else valid.repeat(rows, 1)
    keys = KeyBlocks.cut(k, v, classes, valid)
    columns = torch.tensor(plan.columns, dtype=torch.long, device=q.device)
    gathered = KeyBlocks.cut(k[:, :, columns], v[:, :, columns], classes[:, columns], valid[:, columns])
    rule = _rule_of(mask, rows, stride, q.device)
    outputs = []
    for queries, block in zip(q.split(BLOCK_TOKENS, 2), plan.blocks):
        if not block.key_blocks and not block.column_blocks:
            outputs.append(q.new_zeros(*queries.shape[:3], v.shape[3]))
            continue
        own = classes[:, block.first : block.last]
        chosen = [*(_at(keys, i) for i in block.key_blocks), *(_at(gathered, i) for i in block.column_blocks)]
        some_k, some_v, places, real = (torch.cat(parts, dim=axis) for parts, axis in zip(zip(*chosen), (2, 2, 1, 1)))
        if block.column_blocks:  # a column that lies in one of the blocks of keys counts once
            first = sum(keys.positions[i].shape[1] for i in block.key_blocks)
            held = torch.tensor(block.key_blocks, dtype=torch.long, device=q.device)
            index = torch.cat([columns.split(BLOCK_TOKENS)[i] for i in block.column_blocks])
            real[:, first:] &= ~torch.isin(index // BLOCK_TOKENS, held)
        allowed = rule(own, places) & real[:, None, None]
        outputs.append(attend(queries, some_k, some_v, allowed, own, places))
    output = torch.cat(outputs, dim=2)
    if stride > 1:
        output = output.unflatten(0, (rows, stride)).permute(0, 2, 3, 1, 4).flatten(2, 3)[:, :, :length]
    return output


def _at(blocks: KeyBlocks, index: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return blocks.k[index], blocks.v[index], blocks.positions[index], blocks.valid[index]


def _sort_by_class(x: Tensor, stride: int) -> Tensor:
    """(B, H, T, D) -> (B · stride, H, T / stride, D): positions of the same class modulo `stride` together."""
    if stride == 1:
        return x
    x = F.pad(x, (0, 0, 0, -x.shape[2] % stride))
    by_class: Tensor = x.unflatten(2, (-1, stride)).permute(0, 3, 1, 2, 4).flatten(0, 1)
    return by_class


def _rule_of(mask: BoundMask, rows: int, stride: int, device: torch.device) -> Callable[[Tensor, Tensor], Tensor]:
    """What the mask allows for queries and keys at these positions (N or 1, T), (N or 1, S)."""
    b = torch.arange(rows, device=device).repeat_interleave(stride)[:, None, None, None]
    h = torch.arange(mask.heads, device=device)[None, :, None, None]
    if mask.mask.broadcasts:
        b, h = b[:1], h[:, :1]
    return lambda q, k: mask.mask(b, h, q[:, None, :, None], k[:, None, None, :])
