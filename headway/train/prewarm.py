"""What takes seconds before a first step and can be done while something else is."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch


@contextmanager
def warming(device: torch.device) -> Iterator[None]:
    """Meanwhile the GPU is woken, and PyTorch's compiler is loaded, which its optimisers ask for even where nothing is
    compiled. For blocks that import nothing of PyTorch themselves, as learning a vocabulary."""
    thread = threading.Thread(target=_warm, args=(device,))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _warm(device: torch.device) -> None:
    with suppress(Exception):  # whoever needs it will be told
        import torch._dynamo

        torch.zeros(1, device=device)
