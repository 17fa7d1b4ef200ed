"""Where tokens stand: their absolute positions, and which of them are real.

Shapes everywhere in nn: B rows, T queries, S keys, H heads, G key groups, D head width, d model width.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Texts(NamedTuple):
    """Which text each token of a line belongs to, where several lie one behind the other. All int32."""

    number: Tensor  # (1, T)
    first: Tensor  # (texts,) the place in the line where each begins,
    last: Tensor  # (texts,) and that behind its end


class Packed(NamedTuple):
    """Several texts in one line, instead of a row for each: nothing is padding but the end of the line."""

    positions: Tensor  # (1, T) each counted from the start of its text
    valid: Tensor  # (1, T) false behind the last text
    texts: Texts
    longest: int  # no text is longer; known without asking the device


class Places(NamedTuple):
    positions: Tensor  # (B or 1, T) absolute, counted from 0
    valid: Tensor | None  # (B, T); None: every token is real
    end: int  # no position reaches this; known without asking the device
    in_order: bool = False  # positions are 0, 1, 2 …; likewise
    texts: Texts | None = None  # which see nothing of each other

    @property
    def length(self) -> int:
        return self.positions.shape[1]


class Memory(NamedTuple):
    """Something that layers can listen to: vectors and where they stand."""

    values: Tensor  # (B, S, d)
    places: Places


class KeyValues(NamedTuple):
    """Keys and values of attention."""

    k: Tensor  # (B, G, S, D)
    v: Tensor  # (B, G, S, E)
    places: Places
    owner: str  # names the places: layers that hear the same ones share the mask laid over them


class Chosen:
    """The last real place of each row."""

    def __init__(self, valid: Tensor | None) -> None:
        self.index = None if valid is None else (valid * torch.arange(valid.shape[1], device=valid.device)).amax(1)

    def of(self, x: Tensor) -> Tensor:
        """(B, T, …) -> (B, 1, …)"""
        if self.index is None:
            return x[:, -1:]
        return x[torch.arange(len(x), device=x.device), self.index][:, None]

    def places(self, places: Places) -> Places:
        valid = places.valid
        batch = places.positions if valid is None else places.positions.expand_as(valid)
        return Places(self.of(batch), None if valid is None else self.of(valid), places.end)


def places_from(length: int, valid: Tensor | Packed | None, device: torch.device) -> Places:
    """Tokens 0, 1, 2 … of each row, some of them padding; or of each text in a line."""
    if isinstance(valid, Packed):
        return Places(valid.positions, valid.valid, valid.longest, texts=valid.texts)
    return Places(torch.arange(length, device=device)[None], valid, length, in_order=True)


def places_after(lengths: Tensor, end: int, length: int, valid: Tensor | None, uniform: bool) -> Places:
    """Tokens that follow `lengths` (B,) earlier ones; padding between real tokens takes up no position."""
    if valid is None:
        start = lengths[:1] if uniform else lengths
        return Places(start[:, None] + torch.arange(length, device=lengths.device), None, end + length)
    offsets = (valid.long().cumsum(1) - 1).clamp(min=0)
    return Places(lengths[:, None] + offsets, valid, end + length)
