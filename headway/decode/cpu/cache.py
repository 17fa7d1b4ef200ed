"""What a lean search remembers. Keys and values stay where they were written: where beams change places, only the table
of who wrote whose past changes.

P sentences in memory, of which B are searched    W hypotheses of each    N = B · W    L tokens at most    M source tokens


Keys and values in float32, and attention to them by PyTorch's kernels, which take sentences of one length.

P sentences in memory, of which B are searched    W hypotheses of each    N = B · W    L tokens at most    S source tokens


Keys and values in 8 bits, and attention to them by kernels of our own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops import native

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
