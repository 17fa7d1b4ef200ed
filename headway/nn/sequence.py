"""Token positions and padding: where each token of a batch stands, and which tokens are real.

Also what layers exchange: the encoder output (`Memory`), keys and values (`KeyValues`), and texts packed one after
another into a single row (`PackedPositions`).

Shapes everywhere in nn: B rows, T queries, S keys, H heads, G key groups, D head width, d model width.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class PackedTexts(NamedTuple):
    """Which text each token of a packed row belongs to. All int32."""

    text_index: Tensor  # (1, T)
    starts: Tensor  # (texts,) offset in the row at which each text begins,
    ends: Tensor  # (texts,) and the offset after its last token


class PackedPositions(NamedTuple):
    """Several texts packed into one row, instead of a padded row for each: only the end of the row is padding."""

    positions: Tensor  # (1, T) each counted from the start of its text
    valid: Tensor  # (1, T) false after the last text
    texts: PackedTexts
    max_length: int  # no text is longer; known without a device sync


class TokenPositions(NamedTuple):
    positions: Tensor  # (B or 1, T) absolute, counted from 0
    valid: Tensor | None  # (B, T) false on padding; None: every token is real
    end: int  # upper bound, exclusive, of all positions; known without a device sync
    in_order: bool = False  # positions are 0, 1, 2 …; likewise
    texts: PackedTexts | None = None  # packed texts, which do not attend to each other
    ranks: Tensor | None = None  # (B or 1, T) place in a factorisation order, by which masks decide; None: by position

    @property
    def length(self) -> int:
        return self.positions.shape[1]

    @property
    def mask_positions(self) -> Tensor:
        """What masks compare: positions, or ranks where the order of factorisation is another one."""
        return self.positions if self.ranks is None else self.ranks


class FactorisationOrder(NamedTuple):
    """In which order a permutation language model predicts the tokens of each row, and which of them (XLNet)."""

    valid: Tensor  # (B, T) false on padding
    ranks: Tensor  # (B, T) a token sees those of its own rank and of lower ones; counted from 0
    predicted: Tensor  # (B, K) index of each token that is predicted, from those of lower rank; 0 on padding


class Memory(NamedTuple):
    """Encoder output, or any other sequence of vectors that layers attend to, and the positions of its tokens."""

    values: Tensor  # (B, S, d)
    positions: TokenPositions


class InsertedVectors(NamedTuple):
    """Vectors in the place of the embeddings of some ids: those of a picture or a sound in a stream of tokens."""

    values: Tensor  # (N, d)
    rows: Tensor  # (N,) in which row of the batch,
    columns: Tensor  # (N,) and at which of its ids


class Neighbours(NamedTuple):
    """Tokens that were retrieved for each chunk of a text that is complete: K neighbours of R tokens (RETRO)."""

    ids: Tensor  # (B, C, K, R)
    valid: Tensor  # (B, C, K, R) false on padding, and where there is no neighbour


class EmbeddedNeighbours(NamedTuple):
    """The same as vectors."""

    values: Tensor  # (B, C, K, R, d)
    valid: Tensor  # (B, C, K, R)

    def take(self, count: int) -> "EmbeddedNeighbours":
        """Those of the first chunks, for which there must be some."""
        if self.values.shape[1] < count:
            raise ValueError(f"{count} chunks are complete, and there are neighbours of {self.values.shape[1]}")
        return EmbeddedNeighbours(self.values[:, :count], self.valid[:, :count])


class KeyValues(NamedTuple):
    """Keys and values of attention."""

    k: Tensor  # (B, G, S, D)
    v: Tensor  # (B, G, S, E)
    positions: TokenPositions
    owner: str  # names the positions: layers that attend to the same ones share one bound mask


class LastToken:
    """Selects the last real token of each row."""

    def __init__(self, valid: Tensor | None) -> None:
        self.index = None if valid is None else (valid * torch.arange(valid.shape[1], device=valid.device)).amax(1)

    def select(self, x: Tensor) -> Tensor:
        """(B, T, …) -> (B, 1, …)"""
        if self.index is None:
            return x[:, -1:]
        return x[torch.arange(len(x), device=x.device), self.index][:, None]

    def select_positions(self, tokens: TokenPositions) -> TokenPositions:
        valid = tokens.valid
        positions = tokens.positions if valid is None else tokens.positions.expand_as(valid)
        ranks = tokens.ranks if valid is None or tokens.ranks is None else tokens.ranks.expand_as(valid)
        return TokenPositions(
            self.select(positions),
            None if valid is None else self.select(valid),
            tokens.end,
            ranks=None if ranks is None else self.select(ranks),
        )


def positions_from_start(length: int, valid: Tensor | PackedPositions | None, device: torch.device) -> TokenPositions:
    """Positions 0, 1, 2 … in each row, where `valid` is false on padding; or in each text of a packed row."""
    if isinstance(valid, PackedPositions):
        return TokenPositions(valid.positions, valid.valid, valid.max_length, texts=valid.texts)
    return TokenPositions(torch.arange(length, device=device)[None], valid, length, in_order=True)


def positions_after(lengths: Tensor, end: int, length: int, valid: Tensor | None, uniform: bool) -> TokenPositions:
    """Positions of tokens that follow `lengths` (B,) earlier ones; padding between real tokens takes no position.
    `uniform`: all lengths are equal."""
    if valid is None:
        start = lengths[:1] if uniform else lengths
        return TokenPositions(start[:, None] + torch.arange(length, device=lengths.device), None, end + length)
    offsets = (valid.long().cumsum(1) - 1).clamp(min=0)
    return TokenPositions(lengths[:, None] + offsets, valid, end + length)
