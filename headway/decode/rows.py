"""Rows of ids as a model takes them: padded to one length, and grouped so that little is padding."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from headway.nn.transformer import valid_places

T = TypeVar("T")


def padded(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Ids (B, S), and which of them are real (B, S), or None where all are."""
    lengths = torch.tensor([len(row) for row in rows])
    longest = int(lengths.max())
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], dtype=torch.long).to(device)
    return ids, None if bool((lengths == longest).all()) else valid_places(lengths, longest).to(device)


def batches(items: Sequence[T], size: Callable[[T], int], budget: int) -> Iterator[list[T]]:
    """Like sizes together, `budget` tokens each, padding counted; the largest first, so that what does not fit in
    memory fails at once."""
    batch: list[T] = []
    for item in sorted(items, key=size, reverse=True):
        if batch and (len(batch) + 1) * size(batch[0]) > budget:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
