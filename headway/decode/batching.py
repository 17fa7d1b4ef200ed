"""Items of like sizes together, so that little is padding. Nothing here imports torch."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


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
