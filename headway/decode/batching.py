"""Batches of items of similar size (length bucketing), so that little is padding. Nothing here imports torch."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batch_by_size(items: Sequence[T], size: Callable[[T], int], budget: int) -> Iterator[list[T]]:
    """Batches of `budget` tokens each, padding counted, or of one item that is larger; the largest first, so that
    running out of memory fails at once."""
    batch: list[T] = []
    for item in sorted(items, key=size, reverse=True):
        if batch and (len(batch) + 1) * size(batch[0]) > budget:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
