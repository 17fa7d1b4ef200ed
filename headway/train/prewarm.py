"""Warm up CUDA and torch._dynamo in a background thread, while something else takes its time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch


@contextmanager
def prewarm_torch(device: torch.device) -> Iterator[None]:
    """While the block runs, initialise the device and import torch._dynamo, which optimisers need even where nothing is
    compiled. The block must not import parts of torch itself; learning a vocabulary is such a block."""
    thread = threading.Thread(target=_prewarm, args=(device,))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _prewarm(device: torch.device) -> None:
    with suppress(Exception):  # the same error will be raised, and reported, at the first real use
        import torch._dynamo

        torch.zeros(1, device=device)
