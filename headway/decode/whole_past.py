"""Keys and values in 8 bits, and attention to them by kernels of our own."""

from typing import Any

import torch
from torch import Tensor

from headway import native
from headway.decode.past import Past, Words


class Kept:
    """Of sentences that stay as they are, keys and values (M, G · D)."""

    def __init__(self, words: Words, keys: Tensor, values: Tensor, c: Any) -> None:
        """c: the settings of attention."""
        self.c = c
        self.past = torch.empty(2, words.total * c.groups, c.d_k, dtype=torch.int8, device="cpu")
        self.scales = torch.empty(2, words.total * c.groups, dtype=torch.float32, device="cpu")
        native.call(
            "hw_keep", keys, values, keys.stride(0), words.first, words.end, len(words.first), words.total, c.groups,
            c.d_k, self.past, self.scales,
        )  # fmt: skip

    def hear(self, q: Tensor, first: Tensor, words: Words) -> Tensor:
        """What queries (N, H · D) hear, those of sentence b from first[b] up to first[b + 1]."""
        c, out = self.c, q.new_empty(len(q), self.c.heads * self.c.d_k)
        native.call(
            "hw_hear", q, q.stride(0), first, self.past, self.scales, words.first, words.end, len(words.first),
            words.total, c.heads, c.groups, c.d_k, c.scale, out,
        )  # fmt: skip
        return out


def hear(words: Words, q: Tensor, k: Tensor, v: Tensor, c: Any) -> Tensor:
    """Words listen to those of their sentence: (M, H · D) of each."""
    return Kept(words, k, v, c).hear(q, torch.cat([words.first, words.end[-1:]]), words)


class WholePast(Past):
    def __init__(self, words: Words, sources: list[tuple[Tensor, Tensor]], settings: list[Any]) -> None:
        """sources: of each layer, keys and values of the words. settings: of its attention to them."""
        super().__init__(words)
        self.sources = [Kept(words, *pair, c) for pair, c in zip(sources, settings)]
        self.step: tuple[Tensor, Words] | None = None  # what layers of one step have in common

    def begin(self) -> None:
        super().begin()
        self.step = torch.arange(0, len(self.live) * self.width + 1, self.width), self.words.of(self.live)

    def listen(self, layer: int, q: Tensor, k: Tensor, v: Tensor, c: Any) -> Tensor:
        """q (N, H · D), k and v (N, G · D), which are remembered -> (N, H · D)"""
        self.room(layer, c)
        out = q.new_empty(len(q), c.heads * c.d_k)
        native.call(
            "hw_listen", q, q.stride(0), k, v, k.stride(0), *self.own[layer], self.owners, self.live, self.sentences,
            len(self.live), self.width, self.owners.shape[2], self.length, c.heads, c.groups, c.d_k, c.scale, out,
        )  # fmt: skip
        return out

    def room(self, layer: int, c: Any) -> list[Tensor]:
        """What keys and values are kept in, and their scales."""
        if layer not in self.own:
            size = (2, self.sentences, c.groups, self.owners.shape[2], self.width)
            self.own[layer] = [
                torch.zeros(*size, c.d_k, dtype=torch.int8, device="cpu"),
                torch.zeros(size, dtype=torch.float32, device="cpu"),
            ]
        return self.own[layer]

    def listen_across(self, layer: int, q: Tensor, c: Any) -> Tensor:
        """q (N, H · D) -> (N, H · D)"""
        assert self.step is not None
        return self.sources[layer].hear(q, *self.step)
