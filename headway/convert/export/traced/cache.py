"""Caches of a traced decoder: keys and values are inputs and outputs of the graph."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headway.nn.context import Context
from headway.nn.sequence import TokenPositions

KeyValuePair = tuple[Tensor, Tensor]  # (B, G, S, D), (B, G, S, E)


class TracedKVCache:
    """The keys and values of earlier tokens, as they were given, and those of the new ones behind them. Nothing is
    written in place, and what a sliding window would have dropped is hidden by its mask: one graph for all lengths."""

    name = "kv"

    def __init__(self, past: KeyValuePair, positions: TokenPositions) -> None:
        self.present = past
        self.positions = positions  # of the past and the new tokens

    def append(self, k: Tensor, v: Tensor, tokens: TokenPositions) -> tuple[Tensor, Tensor, TokenPositions]:
        """The past and these."""
        keys, values = (torch.cat([past, new], 2) for past, new in zip(self.present, (k, v)))
        self.present = (keys, values)
        return keys, values, self.positions


class TracedContext(Context):
    """A context of symbolic sizes, which cannot be keys of a dict but by their names."""

    def compute_once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        return super().compute_once(tuple(str(part) if isinstance(part, torch.SymInt) else part for part in key), make)
