"""Pieces of the validation text for a probe to read, and what the layers of a model record of them."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from headway.nn.context import ForwardReport, Trace
from headway.nn.transformer import Transformer

TRACED_TOKENS = 1024  # in one forward pass: attention that is traced has all its weights in memory


def cut_windows(stream: np.ndarray, length: int, tokens: int) -> Tensor:
    """The beginning of the text, about `tokens` ids of it, in windows of this length: (windows, length)."""
    length = min(length, len(stream))
    count = max(1, min(tokens, len(stream)) // length)
    return torch.from_numpy(stream[: count * length].astype(np.int64)).view(count, length)


def trace_windows(model: Transformer, windows: Tensor) -> Iterator[Trace]:
    """What a language model, causal or masked, records of a few windows at a time."""
    run = model.decode if model.config.sides == ["decoder"] else model.encode
    for part in windows.split(max(1, TRACED_TOKENS // windows.shape[1])):
        trace: Trace = {}
        run(part.to(model.device), report=ForwardReport(trace=trace))
        yield trace
