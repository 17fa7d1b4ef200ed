"""Keys and values in 8 bits, and attention to them by kernels of our own."""

from typing import Any

import torch
from torch import Tensor

from headway.decode.past import Past, Words
from headway.nn.ops import native


class Kept:
    """Of sentences that stay as they are, keys and values (M, G · D)."""

    def __init__(self, words: Words, c: Any) -> None:
        """c: the settings of attention."""
        self.c = c
        self.past = torch.empty(2, words.total * c.groups, c.d_k, dtype=torch.int8, device="cpu")
        self.scales = torch.empty(2, words.total * c.groups, dtype=torch.float32, device="cpu")

    def keep(self, words: Words, keys: Tensor, values: Tensor) -> "Kept":
        c = self.c
        native.call(
            "hw_keep", keys, values, keys.stride(0), words.first, words.end, len(words.first), 0, words.total, c.groups,
            c.d_k, self.past, self.scales,
        )  # fmt: skip
        return self

    def hear(self, q: Tensor, words: Words, each: int, live: Tensor | None = None) -> Tensor:
        """What queries (N, H · D) hear, `each` of them of a sentence. live: which of the sentences ask."""
        c, out = self.c, q.new_empty(len(q), self.c.heads * self.c.d_k)
        native.call(
            "hw_hear", q, q.stride(0), each, self.past, self.scales, live, words.first, words.end,
            len(words.first if live is None else live), words.total, c.heads, c.groups, c.d_k, c.scale, out,
        )  # fmt: skip
        return out


def converse(words: Words, q: Tensor, k: Tensor, v: Tensor, c: Any) -> Tensor:
    """Words listen to those of their sentence: q (M, H · D), k and v (M, G · D), parts of the same rows -> (M, H · D)"""
    out = q.new_empty(len(q), c.heads * c.d_k)
    native.call(
        "hw_converse", q, k, v, q.stride(0), words.first, words.end, len(words.first), 0, c.heads, c.groups, c.d_k,
        c.scale, out,
    )  # fmt: skip
    return out


class WholePast(Past):
    def __init__(self, words: Words, sources: list[Kept]) -> None:
        """sources: what each layer listens to."""
        super().__init__(words)
        self.sources = sources

    def listen(self, layer: int, q: Tensor, k: Tensor, v: Tensor, c: Any) -> Tensor:
        """q (N, H · D), k and v (N, G · D), which are remembered -> (N, H · D)"""
        self.room(layer, c)
        out = q.new_empty(len(q), c.heads * c.d_k)
        native.call(
            "hw_listen", q, q.stride(0), k, v, k.stride(0), *self.own[layer], self.owners, self.live, self.sentences,
            len(self.live), self.width, self.width, self.owners.shape[2], self.length, c.heads, c.groups, c.d_k, c.scale, out,
        )  # fmt: skip
        return out

    def room(self, layer: int, c: Any) -> list[Tensor]:
        """What keys and values are kept in, and their scales."""
        if layer not in self.own:
            size = (2, self.sentences, c.groups, self.owners.shape[2], self.width)
            self.own[layer] = [native.zeros((*size, c.d_k), torch.int8), native.zeros(size, torch.float32)]
        return self.own[layer]

    def listen_across(self, layer: int, q: Tensor, c: Any) -> Tensor:
        """q (N, H · D) -> (N, H · D)"""
        return self.sources[layer].hear(q, self.words, self.width, self.live)
