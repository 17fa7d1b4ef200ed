"""The KV cache of a search in C: keys and values in int8, each with a scale.

Beams never move: keys and values stay where they were written, and a table of owners says which slot wrote the
position that a hypothesis continues.

P sentences    W hypotheses of each    L tokens at most    M source tokens    G groups of keys    D size of a head
"""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headway.nn.ops import native
from headway.nn.ops.native.tables import AttentionTable, CacheTable, LayerTable, StackStruct

INITIAL_CAPACITY = 32  # tokens

Array = np.ndarray[Any, Any]


class PackedRows(NamedTuple):
    """Rows of ids one after the other, without padding: row p is ids[begin[p]] up to ids[end[p]]."""

    ids: Array  # (M,)
    begin: Array  # (P,)
    end: Array  # (P,)


def pack_ids(rows: Sequence[Sequence[int]]) -> PackedRows:
    end = np.cumsum([len(row) for row in rows], dtype=np.int64)
    begin = np.concatenate([[0], end[:-1]]).astype(np.int64)
    return PackedRows(np.array([token for row in rows for token in row], np.int64), begin, end)


class NativeKVCache:
    """Of both attentions of all layers of a decoder."""

    def __init__(self, source: PackedRows, layers: Sequence[LayerTable], width: int) -> None:
        self.source = source
        self.layers = layers
        self.sentences = len(source.begin)
        self.width = width
        self.length = 0
        # (P, W, L) which slot wrote the position that this one continues
        self.owners = np.zeros((self.sentences, width, INITIAL_CAPACITY), np.int64)
        self.inputs = np.zeros((self.sentences, INITIAL_CAPACITY, width), np.int32)  # the token of each slot
        self.cross_kv = [self._cross_buffers(layer.cross_attention) for layer in layers]
        self.self_kv = [self._self_buffers(layer.self_attention) for layer in layers]

    @property
    def capacity(self) -> int:
        return self.owners.shape[2]

    def _cross_buffers(self, attention: AttentionTable) -> tuple[Array, Array]:
        shape = (2, len(self.source.ids) * attention.groups)
        return np.empty((*shape, attention.size), np.int8), np.empty(shape, np.float32)

    def _self_buffers(self, attention: AttentionTable) -> tuple[Array, Array]:
        """(2, P, G, L, W, D), and their scales."""
        shape = (2, self.sentences, attention.groups, self.capacity, self.width)
        return native.zeros((*shape, attention.size), np.int8), native.zeros(shape, np.float32)

    def grow(self) -> None:
        """Twice the capacity."""
        length = self.capacity
        self.owners = np.pad(self.owners, ((0, 0), (0, 0), (0, length)))
        self.inputs = np.pad(self.inputs, ((0, 0), (0, length), (0, 0)))
        for index, before in enumerate(self.self_kv):
            self.self_kv[index] = self._self_buffers(self.layers[index].self_attention)
            for new, old in zip(self.self_kv[index], before):
                new[:, :, :, :length] = old

    def write_addresses(self, stack: StackStruct) -> None:
        """Of the keys and values of each layer, into the table of the decoder."""
        for index, (own, cross) in enumerate(zip(self.self_kv, self.cross_kv)):
            for attention, buffers in (
                (stack.layers[index].self_attention, own),
                (stack.layers[index].cross_attention, cross),
            ):
                attention.kv, attention.scales = map(native.address_of, buffers)

    def table(self, now: int) -> CacheTable:
        """now: hypotheses of each sentence."""
        source = self.source
        return CacheTable(
            *map(native.address_of, (self.owners, source.begin, source.end)), self.sentences, self.width, now,
            self.capacity, self.length, len(source.ids),
        )  # fmt: skip


def encode_source(encoder: Any, decoder: Any, cache: NativeKVCache) -> None:
    """The source, into the keys and values of each layer's cross-attention. Both are search.StackTables."""
    source = cache.source
    encoder_table = encoder.table(int((source.end - source.begin).max()))
    decoder_table = decoder.table(1)
    cache.write_addresses(decoder_table)
    native.call(
        "hw_encode", ctypes.addressof(encoder_table), ctypes.addressof(decoder_table), *source, cache.sentences
    )  # fmt: skip
