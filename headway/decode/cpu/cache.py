"""KV caches of the CPU search: keys and values in float32 (attention by PyTorch) or int8 (attention by our C kernels).

Beams never move: keys and values stay where they were written, and a table of owners says which slot wrote the
position that a hypothesis continues. Reordering beams changes this table alone.

P sentences in memory, of which B are searched    W hypotheses of each    N = B · W    L tokens at most
M source tokens, packed    S source tokens of a sentence, padded    H heads    G groups of keys    D size of a head
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops import native

INITIAL_CAPACITY = 32  # tokens
COMPACTION_SHARE = 0.75  # when so few of the sentences in memory are still searched, the others are dropped
SUM_BLOCK = 16  # numbers that a processor sums at once


class PackedSentences(NamedTuple):
    """Sentences one after the other, without padding: sentence b is the rows first[b] up to end[b]."""

    first: Tensor  # (P,)
    end: Tensor  # (P,)
    total: int

    @property
    def positions(self) -> Tensor:
        """(M,) counted from the start of the sentence"""
        return torch.arange(self.total) - self.first.repeat_interleave(self.end - self.first)

    def select(self, rows: Tensor) -> "PackedSentences":
        """Some of the sentences; their rows stay the same."""
        return PackedSentences(self.first[rows], self.end[rows], self.total)


def pack_sentences(lengths: Tensor) -> PackedSentences:
    end = lengths.cumsum(0)
    return PackedSentences(end - lengths, end, int(end[-1]))


class PaddedSentences:
    """Packed sentences, padded to (P, S)."""

    def __init__(self, source: PackedSentences) -> None:
        lengths = source.end - source.first
        # A multiple of SUM_BLOCK, so that a row is summed in the same order whatever the lengths of the others.
        size = -(-int(lengths.max()) // SUM_BLOCK) * SUM_BLOCK
        real = torch.arange(size) < lengths[:, None]  # (P, S)
        self.shape = real.shape
        self.index = real.flatten().nonzero()[:, 0]  # (M,)
        self.mask_bias = torch.where(real, 0.0, -torch.inf)[:, None, None]  # (P, 1, 1, S)

    def pad(self, x: Tensor, size: int) -> Tensor:
        """(M, H · D) -> (P, H, S, D)"""
        rows = x.new_zeros(self.shape[0] * self.shape[1], x.shape[1]).index_copy_(0, self.index, x)
        return rows.view(*self.shape, -1, size).transpose(1, 2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, config: Any) -> Tensor:
        """Self-attention within each sentence: q (M, H · D), k and v (M, G · D) -> (M, H · D)"""
        q, k, v = (self.pad(part, config.d_k) for part in (q, k, v))
        output = attend_padded(q, k, v, self.mask_bias, config.scale)
        return output.transpose(1, 2).reshape(-1, config.heads * config.d_k).index_select(0, self.index)


class CpuKVCache:
    """The table of owners, and the buffers of each layer. What the buffers hold is for the subclasses."""

    def __init__(self, source: PackedSentences) -> None:
        self.source = source
        self.sentences = len(source.first)
        self.width = 1
        self.length = 0
        self.live = torch.arange(self.sentences)  # (B,) which of the sentences are searched
        # (P, W, L) which slot wrote the position that this one continues
        self.owners = torch.zeros(self.sentences, 1, INITIAL_CAPACITY, dtype=torch.long)
        self.buffers: dict[int, list[Tensor]] = {}  # of each layer, keys and values: (2, P, G, L, W, …)
        self.allowed: Tensor | None = None  # (P, U) the tokens of each sentence; see headway.decode.shortlist

    def begin_step(self) -> None:
        """One more token for each hypothesis."""
        self.grow()
        self.owners[:, :, self.length] = torch.arange(self.width)
        self.length += 1

    def grow(self) -> None:
        """Make sure that another token fits."""
        if self.length == self.owners.shape[2]:
            self.owners = F.pad(self.owners, (0, self.length))
            self._map_buffers(lambda part: F.pad(part, (0, 0) * (part.dim() - 4) + (0, self.length)))

    def widen(self, width: int) -> None:
        """From one hypothesis of each sentence to several, which share all tokens so far."""
        self._map_buffers(lambda part: _widen_buffer(part, width))
        self.owners = self.owners.expand(-1, width, -1).contiguous()
        self.width = width

    def select(self, rows: Tensor) -> None:
        """Replace sentence i by sentence rows[i], before the first step: several hypotheses are drawn for one."""
        self.source = self.source.select(rows)
        self.owners = self.owners[rows]
        self.allowed = None if self.allowed is None else self.allowed[rows]
        self.sentences = len(rows)
        self.live = torch.arange(len(rows))

    def reorder(self, rows: Tensor, parents: Tensor) -> None:
        """Go on with rows (B',) of the B; slot j of each continues slot parents[i, j] (B', W')."""
        width = parents.shape[1]
        if width != self.width:
            self.widen(width)
        self.live = self.live[rows]
        index = parents[:, :, None].expand(-1, -1, self.owners.shape[2])
        self.owners[self.live] = self.owners[self.live].gather(1, index)

    def _map_buffers(self, function: Callable[[Tensor], Tensor]) -> None:
        self.buffers = {layer: [function(part) for part in parts] for layer, parts in self.buffers.items()}


def _widen_buffer(buffer: Tensor, width: int) -> Tensor:
    wide = buffer.new_zeros(*buffer.shape[:4], width, *buffer.shape[5:])
    wide[:, :, :, :, :1] = buffer
    return wide


class FloatKVCache(CpuKVCache):
    """Keys and values in float32. PyTorch's attention takes sentences of one length: sources are padded."""

    def __init__(self, source: PackedSentences, cross_kv: list[tuple[Tensor, Tensor]], configs: list[Any]) -> None:
        """cross_kv: of each layer, keys and values (M, G · D) of the source. configs: of its cross-attention."""
        super().__init__(source)
        padded = PaddedSentences(source)
        self.source_bias = padded.mask_bias  # (P, 1, 1, S) 0 where the source is real, else -inf
        self.cross_kv = [[padded.pad(part, c.d_k) for part in pair] for pair, c in zip(cross_kv, configs)]
        self.owner_bias: Tensor | None = None  # (P, 1, W, L' · W) of this step: -inf where another hypothesis wrote

    def begin_step(self) -> None:
        super().begin_step()
        if self.width > 1:
            own = self.owners[:, :, : self.length, None] == torch.arange(self.width)  # (P, W, L', W)
            self.owner_bias = torch.where(own, 0.0, -torch.inf).flatten(2)[:, None]

    def self_attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, config: Any) -> Tensor:
        """q (N, H · D), k and v (N, G · D), which are added to the cache -> (N, H · D)"""
        if layer not in self.buffers:
            shape = (2, self.sentences, config.groups, self.owners.shape[2], self.width, config.d_k)
            self.buffers[layer] = [torch.zeros(shape)]
        buffer = self.buffers[layer][0]
        q, k, v = (self._to_slots(part, config.d_k) for part in (q, k, v))  # (P, H or G, W, D)
        buffer[0, :, :, self.length - 1] = k
        buffer[1, :, :, self.length - 1] = v
        keys, values = buffer[:, :, :, : self.length].flatten(3, 4)  # (P, G, L' · W, D)
        return self._from_slots(attend_padded(q, keys, values, self.owner_bias, config.scale))

    def cross_attend(self, layer: int, q: Tensor, config: Any) -> Tensor:
        """q (N, H · D) -> (N, H · D)"""
        keys, values = self.cross_kv[layer]
        q = self._to_slots(q, config.d_k)
        return self._from_slots(attend_padded(q, keys, values, self.source_bias, config.scale))

    def _to_slots(self, x: Tensor, size: int) -> Tensor:
        """(N, H · D) -> (P, H, W, D), zeros for sentences that are done."""
        slots = x.new_zeros(self.sentences, self.width, x.shape[1] // size, size)
        return slots.index_copy_(0, self.live, x.reshape(len(self.live), *slots.shape[1:])).transpose(1, 2)

    def _from_slots(self, x: Tensor) -> Tensor:
        """(P, H, W, D) -> (N, H · D)"""
        x = x.transpose(1, 2)
        return x.index_select(0, self.live).reshape(-1, x.shape[2] * x.shape[3])

    def select(self, rows: Tensor) -> None:
        super().select(rows)
        self.source_bias = self.source_bias.index_select(0, rows)
        self.cross_kv = [[part.index_select(0, rows) for part in pair] for pair in self.cross_kv]

    def reorder(self, rows: Tensor, parents: Tensor) -> None:
        super().reorder(rows, parents)
        if len(self.live) <= COMPACTION_SHARE * self.sentences:
            live = self.live
            self._map_buffers(lambda part: part.index_select(1, live))
            self.select(live)


def attend_padded(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """q (P, H, W, D), k and v (P, G, N, D), bias (P, 1, W or 1, N) -> (P, H, W, D). Heads that share keys are taken
    together, as if they were hypotheses. This kernel sums a row in the same order whatever the other rows are, which
    matrix products do not."""
    sentences, heads, width, size = q.shape
    groups = k.shape[1]
    if groups < heads:
        q = q.reshape(sentences, groups, -1, size)
        if bias is not None and bias.shape[2] > 1:
            bias = bias.repeat(1, 1, heads // groups, 1)
    if bias is not None:
        bias = bias.expand(-1, -1, q.shape[2], -1)
    output = F.scaled_dot_product_attention(q, k, v, bias, scale=scale)
    return output.reshape(sentences, heads, width, size)


class Int8CrossKV:
    """Keys and values of packed source sentences in int8, for the cross-attention of one layer."""

    def __init__(self, source: PackedSentences, config: Any) -> None:
        """config: of the attention."""
        self.config = config
        self.kv = torch.empty(2, source.total * config.groups, config.d_k, dtype=torch.int8, device="cpu")
        self.scales = torch.empty(2, source.total * config.groups, dtype=torch.float32, device="cpu")

    def store(self, source: PackedSentences, keys: Tensor, values: Tensor) -> "Int8CrossKV":
        """keys and values (M, G · D) of the sentences."""
        c = self.config
        native.call(
            "hw_store_kv", keys, values, keys.stride(0), source.first, source.end, len(source.first), 0, source.total,
            c.groups, c.d_k, self.kv, self.scales,
        )  # fmt: skip
        return self

    def attend(self, q: Tensor, source: PackedSentences, width: int, live: Tensor | None = None) -> Tensor:
        """q (N, H · D), `width` queries of each sentence -> (N, H · D). live: the sentences that queries are of."""
        c = self.config
        out = q.new_empty(len(q), c.heads * c.d_k)
        sentences = len(source.first if live is None else live)
        native.call(
            "hw_cross_attention", q, q.stride(0), width, self.kv, self.scales, live, source.first, source.end,
            sentences, source.total, c.heads, c.groups, c.d_k, c.scale, out,
        )  # fmt: skip
        return out


def attend_within_sentences(source: PackedSentences, q: Tensor, k: Tensor, v: Tensor, config: Any) -> Tensor:
    """Self-attention within each packed sentence, by our own kernel: q (M, H · D), k and v (M, G · D), parts of the
    same rows -> (M, H · D)"""
    c = config
    out = q.new_empty(len(q), c.heads * c.d_k)
    native.call(
        "hw_encoder_attention", q, k, v, q.stride(0), source.first, source.end, len(source.first), 0, c.heads, c.groups,
        c.d_k, c.scale, out,
    )  # fmt: skip
    return out


class Int8KVCache(CpuKVCache):
    """Keys and values in int8, each with a scale. Our own kernels take packed sources."""

    def __init__(self, source: PackedSentences, cross_kv: list[Int8CrossKV]) -> None:
        """cross_kv: of each layer."""
        super().__init__(source)
        self.cross_kv = cross_kv

    def self_attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, config: Any) -> Tensor:
        """q (N, H · D), k and v (N, G · D), which are added to the cache -> (N, H · D)"""
        c = config
        buffers = self.layer_buffers(layer, c)
        out = q.new_empty(len(q), c.heads * c.d_k)
        native.call(
            "hw_self_attention", q, q.stride(0), k, v, k.stride(0), *buffers, self.owners, self.live, self.sentences,
            len(self.live), self.width, self.width, self.owners.shape[2], self.length, c.heads, c.groups, c.d_k,
            c.scale, out,
        )  # fmt: skip
        return out

    def layer_buffers(self, layer: int, config: Any) -> list[Tensor]:
        """The keys and values of a layer, and their scales."""
        if layer not in self.buffers:
            shape = (2, self.sentences, config.groups, self.owners.shape[2], self.width)
            values, scales = native.zeros((*shape, config.d_k), "i1"), native.zeros(shape, "f4")
            self.buffers[layer] = [torch.from_numpy(values), torch.from_numpy(scales)]
        return self.buffers[layer]

    def cross_attend(self, layer: int, q: Tensor, config: Any) -> Tensor:
        """q (N, H · D) -> (N, H · D)"""
        return self.cross_kv[layer].attend(q, self.source, self.width, self.live)
