"""What a lean search remembers. Keys and values stay where they were written: where beams change places, only the table
of who wrote whose past changes.

P sentences in memory, of which B are searched    W hypotheses of each    N = B · W    L tokens at most    M source tokens
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

ROOM = 32  # tokens, at first


class Words(NamedTuple):
    """Sentences one behind the other, without padding: sentence b is the rows first[b] up to end[b]."""

    first: Tensor  # (B,)
    end: Tensor  # (B,)
    total: int

    @property
    def places(self) -> Tensor:
        """(M,) counted from the start of the sentence"""
        return torch.arange(self.total) - self.first.repeat_interleave(self.end - self.first)

    def of(self, rows: Tensor) -> "Words":
        """Some of the sentences, which stay where they are."""
        return Words(self.first[rows], self.end[rows], self.total)


def words_of(lengths: Tensor) -> Words:
    end = lengths.cumsum(0)
    return Words(end - lengths, end, int(end[-1]))


class Past:
    """Who wrote whose past. What was written is for those to keep who listen to it."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.sentences, self.width, self.length = len(words.first), 1, 0
        self.live = torch.arange(self.sentences)  # (B,) which of the sentences are searched
        self.owners = torch.zeros(self.sentences, 1, ROOM, dtype=torch.long)  # (P, W, L) which slot wrote it
        self.allowed: Tensor | None = None  # (P, U) which words each sentence may say; see cut.py
        self.own: dict[int, list[Tensor]] = {}  # of each layer what its keys and values are kept in, (2, P, G, L, W, …)

    def begin(self) -> None:
        """A step: one more token for each."""
        self.make_room()
        self.owners[:, :, self.length] = torch.arange(self.width)
        self.length += 1

    def make_room(self) -> None:
        """For another token."""
        if self.length == self.owners.shape[2]:
            self.owners = F.pad(self.owners, (0, self.length))
            self._change(lambda part: F.pad(part, (0, 0) * (part.dim() - 4) + (0, self.length)))

    def widen(self, width: int) -> None:
        """From one hypothesis of each to several, which have all of the past in common."""
        self._change(lambda part: _widened(part, width))
        self.owners, self.width = self.owners.expand(-1, width, -1).contiguous(), width

    def select(self, rows: Tensor) -> None:
        """Put row rows[i] in place i, before the first step: several are drawn for one."""
        self.words, self.owners = self.words.of(rows), self.owners[rows]
        self.allowed = None if self.allowed is None else self.allowed[rows]
        self.sentences, self.live = len(rows), torch.arange(len(rows))

    def follow(self, rows: Tensor, parents: Tensor) -> None:
        """Go on with these of the sentences that were searched, (B',), slot j of each with the past of parents (B', W')."""
        width = parents.shape[1]
        if width != self.width:
            self.widen(width)
        self.live = self.live[rows]
        index = parents[:, :, None].expand(-1, -1, self.owners.shape[2])
        self.owners[self.live] = self.owners[self.live].gather(1, index)

    def _change(self, how: Callable[[Tensor], Tensor]) -> None:
        self.own = {layer: [how(part) for part in parts] for layer, parts in self.own.items()}


def _widened(past: Tensor, width: int) -> Tensor:
    wide = past.new_zeros(*past.shape[:4], width, *past.shape[5:])
    wide[:, :, :, :, :1] = past
    return wide
