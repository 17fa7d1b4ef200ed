"""Examples into batches: counted in tokens, like lengths together, in an order fixed by seed and epoch."""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

T = TypeVar("T")
Lengths = np.ndarray  # (examples, sides), in tokens


def rounded(lengths: Lengths, multiple: int = 8) -> Lengths:
    """Lengths as they are padded: up to a multiple, so that few shapes occur."""
    padded: Lengths = np.maximum(-(-lengths // multiple) * multiple, multiple)
    return padded


def token_batches(lengths: Lengths, budget: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Which examples make each batch of one epoch: at most `budget` tokens a side, padding counted."""
    random = np.random.default_rng([seed, epoch])
    padded = rounded(lengths)
    order = random.permutation(len(lengths))
    order = order[np.lexsort(padded[order].T)]  # the last side first; chance within a shape
    cuts, start, longest = [], 0, 0
    widest = padded.max(axis=1)
    for place, example in enumerate(order):
        longest = max(longest, int(widest[example]))
        if place > start and (place - start + 1) * longest > budget:
            cuts.append(place)
            start, longest = place, int(widest[example])
    batches = [batch for batch in np.split(order, cuts) if len(batch)]
    return [batches[index] for index in random.permutation(len(batches))]


def micro_batches(batch: np.ndarray, lengths: Lengths, budget: int) -> list[np.ndarray]:
    """One batch in pieces that fit the device; their gradients are added up."""
    rows = max(1, budget // int(rounded(lengths[batch]).max()))
    return [batch[start : start + rows] for start in range(0, len(batch), rows)]


def padding_share(batches: Iterable[np.ndarray], lengths: Lengths) -> float:
    """How much of what is computed is padding."""
    real = computed = 0
    for batch in batches:
        real += int(lengths[batch].sum())
        computed += int(rounded(lengths[batch]).max(axis=0).sum()) * len(batch)
    return 1 - real / computed if computed else 0.0


def blocks(stream: np.ndarray, length: int, seed: int, epoch: int) -> list[np.ndarray]:
    """A long text cut into pieces of length + 1 that share one token, from another place in each epoch."""
    if len(stream) <= length + 1:
        return [stream]
    spare = (len(stream) - 1) % length
    offset = int(np.random.default_rng([seed, epoch]).integers(spare + 1))
    return [stream[start : start + length + 1] for start in range(offset, len(stream) - length, length)]


def prefetch(items: Iterable[T], depth: int = 8) -> Iterator[T]:
    """The same items, made ahead of time by a thread. What goes wrong there is raised here."""
    waiting: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(depth)
    stopped = threading.Event()

    def offer(kind: str, value: T | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                return waiting.put((kind, value), timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                offer("item", item)
                if stopped.is_set():
                    return
            offer("end", None)
        except BaseException as error:
            offer("error", error)

    threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            kind, value = waiting.get()
            if kind == "item":
                yield value  # type: ignore[misc]
            elif kind == "error":
                raise value  # type: ignore[misc]
            else:
                return
    finally:
        stopped.set()
