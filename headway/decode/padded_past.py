"""Keys and values in float32, and attention to them by PyTorch's kernels, which take sentences of one length.

P sentences in memory, of which B are searched    W hypotheses of each    N = B · W    L tokens at most    S source tokens
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.decode.past import Past, Words

CROWDED = 0.75  # of the sentences in memory: with fewer the rest is moved
BLOCK = 16  # numbers that a processor sums at once


class Padding:
    """Where words one behind the other stand in (P, S)."""

    def __init__(self, words: Words) -> None:
        lengths = words.end - words.first
        size = -(-int(lengths.max()) // BLOCK) * BLOCK  # so that a row is summed alike whatever its neighbours' lengths
        real = torch.arange(size) < lengths[:, None]  # (P, S)
        self.shape, self.index = real.shape, real.flatten().nonzero()[:, 0]
        self.heard = torch.where(real, 0.0, -torch.inf)[:, None, None]  # (P, 1, 1, S)

    def spread(self, x: Tensor, size: int) -> Tensor:
        """(M, H · D) -> (P, H, S, D)"""
        whole = x.new_zeros(self.shape[0] * self.shape[1], x.shape[1]).index_copy_(0, self.index, x)
        return whole.view(*self.shape, -1, size).transpose(1, 2)

    def hear(self, q: Tensor, k: Tensor, v: Tensor, c: Any) -> Tensor:
        """Words listen to those of their sentence: (M, H · D) of each."""
        q, k, v = (self.spread(part, c.d_k) for part in (q, k, v))
        heard = attend(q, k, v, self.heard, c.scale)
        return heard.transpose(1, 2).reshape(-1, c.heads * c.d_k).index_select(0, self.index)


class PaddedPast(Past):
    def __init__(self, words: Words, sources: list[tuple[Tensor, Tensor]], settings: list[Any]) -> None:
        """sources: of each layer, keys and values of the words. settings: of its attention to them."""
        super().__init__(words)
        padding = Padding(words)
        self.heard = padding.heard
        self.sources = [[padding.spread(part, c.d_k) for part in pair] for pair, c in zip(sources, settings)]
        self.bias: Tensor | None = None  # (P, 1, W, L' · W) of the step that is being made

    def begin(self) -> None:
        super().begin()
        if self.width > 1:
            mine = self.owners[:, :, : self.length, None] == torch.arange(self.width)  # (P, W, L', W)
            self.bias = torch.where(mine, 0.0, -torch.inf).flatten(2)[:, None]

    def listen(self, layer: int, q: Tensor, k: Tensor, v: Tensor, c: Any) -> Tensor:
        """q (N, H · D), k and v (N, G · D), which are remembered -> (N, H · D)"""
        if layer not in self.own:
            self.own[layer] = [torch.zeros(2, self.sentences, c.groups, self.owners.shape[2], self.width, c.d_k)]
        past = self.own[layer][0]
        q, k, v = (self._spread(part, c.d_k) for part in (q, k, v))  # (P, H or G, W, D)
        past[0, :, :, self.length - 1] = k
        past[1, :, :, self.length - 1] = v
        keys, values = past[:, :, :, : self.length].flatten(3, 4)  # (P, G, L' · W, D)
        return self._gathered(attend(q, keys, values, self.bias, c.scale))

    def listen_across(self, layer: int, q: Tensor, c: Any) -> Tensor:
        """q (N, H · D) -> (N, H · D)"""
        keys, values = self.sources[layer]
        return self._gathered(attend(self._spread(q, c.d_k), keys, values, self.heard, c.scale))

    def _spread(self, x: Tensor, size: int) -> Tensor:
        """(N, H · D) -> (P, H, W, D), nothing for sentences that are done."""
        whole = x.new_zeros(self.sentences, self.width, x.shape[1] // size, size)
        return whole.index_copy_(0, self.live, x.reshape(len(self.live), *whole.shape[1:])).transpose(1, 2)

    def _gathered(self, x: Tensor) -> Tensor:
        """(P, H, W, D) -> (N, H · D)"""
        x = x.transpose(1, 2)
        return x.index_select(0, self.live).reshape(-1, x.shape[2] * x.shape[3])

    def select(self, rows: Tensor) -> None:
        super().select(rows)
        self.heard = self.heard.index_select(0, rows)
        self.sources = [[part.index_select(0, rows) for part in pair] for pair in self.sources]

    def follow(self, rows: Tensor, parents: Tensor) -> None:
        super().follow(rows, parents)
        if len(self.live) <= CROWDED * self.sentences:
            live = self.live
            self._change(lambda part: part.index_select(1, live))
            self.select(live)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """q (P, H, W, D), k and v (P, G, N, D), bias (P, 1, W or 1, N) -> (P, H, W, D). Heads that share keys ask together, as
    if they were hypotheses. This kernel sums a row alike whatever its neighbours are, which matrix products do not."""
    sentences, heads, width, size = q.shape
    groups = k.shape[1]
    if groups < heads:
        q = q.reshape(sentences, groups, -1, size)
        if bias is not None and bias.shape[2] > 1:
            bias = bias.repeat(1, 1, heads // groups, 1)
    if bias is not None:
        bias = bias.expand(-1, -1, q.shape[2], -1)
    heard = F.scaled_dot_product_attention(q, k, v, bias, scale=scale)
    return heard.reshape(sentences, heads, width, size)
