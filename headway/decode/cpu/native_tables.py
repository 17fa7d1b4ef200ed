"""Tables of an int8 model in torch, and of its KV cache, for our C kernels, which encode, decode a token, or search in
one call each. decode/native makes the same tables of a stored model."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from headway.decode.cpu.cache import Int8CrossKV, Int8KVCache, PackedSentences
from headway.nn.layers.int8 import Int8Linear
from headway.nn.layers.norms import LayerNorm, RMSNorm
from headway.nn.layers.residual import PreNorm
from headway.nn.ops import native
from headway.nn.ops.native.tables import (
    ACTIVATIONS,
    AttentionTable,
    CacheTable,
    LayerTable,
    LinearTable,
    NormTable,
    StackStruct,
)
from headway.nn.sequence import TokenPositions


class StackTableBuilder:
    """An encoder or a decoder whose parts are all known to the kernels."""

    def __init__(self, layers: list[Any], embedding: Any, stack: Any) -> None:
        """layers: see headway.decode.cpu.decoder.CpuLayer."""
        self.layers = layers
        self.embedding = embedding
        self.stack = stack
        norms = [*_layer_norms(layers), embedding.norm, *([stack.ends.norm] if type(stack.ends) is PreNorm else [])]
        # Copies, as those of the weights are: tables know only addresses.
        self.copies = {id(norm): [_copy_parameter(norm, "gain"), _copy_parameter(norm, "bias")] for norm in norms}
        self.tables = [self._layer_table(layer) for layer in layers]
        linears = []
        for table in self.tables:
            own, cross = table.self_attention, table.cross_attention
            linears += [own.query, own.output, cross.query, cross.key_value, cross.output, table.inner]
        self.width = embedding.table.embedding_dim
        self.max_width = max(max(linear.inputs, linear.outputs) for linear in linears)

    def table(self, length: int) -> StackStruct:
        """For sequences of up to this length. Its layers are a copy, into which a search writes where its cache is."""
        weight = self.embedding.table.weight.detach()
        zeros = weight.new_zeros(1, length, self.width)
        if self.embedding.segments is not None:
            zeros = zeros + self.embedding.segments.weight[0]
        with torch.no_grad():
            where = TokenPositions(torch.arange(length)[None], None, length)
            positions = self.stack.add_positions(zeros, where).contiguous()
        ends = self.stack.ends
        pre_norm = type(ends) is PreNorm
        layers = (LayerTable * len(self.tables))(*self.tables)
        table = StackStruct(
            weight.data_ptr(), positions.data_ptr(), self._norm_table(self.embedding.norm),
            self._norm_table(ends.norm) if pre_norm else NormTable(), layers, len(layers), self.width, self.max_width,
            pre_norm, self.embedding.scale, _layer_norms(self.layers)[0].eps,
        )  # fmt: skip
        table.kept = weight, positions
        return table

    def _layer_table(self, layer: Any) -> LayerTable:
        own, cross = layer.self_config, layer.cross_config
        table = LayerTable(
            AttentionTable(
                _fused_table(layer.qkv), LinearTable(), _fused_table(layer.output),
                self._norm_table(layer.residuals["self"].norm), own.heads, own.groups, own.d_k, own.scale,
            )
        )  # fmt: skip
        if cross is not None:
            table.cross_attention = AttentionTable(
                _fused_table(layer.cross_query), _fused_table(layer.cross_kv), _fused_table(layer.cross_output),
                self._norm_table(layer.residuals["cross"].norm), cross.heads, cross.groups, cross.d_k, cross.scale,
            )  # fmt: skip
        table.inner = _fused_table(layer.inner)
        table.outer = _fused_table(layer.outer)
        table.norm = self._norm_table(layer.residuals["feedforward"].norm)
        return table

    def _norm_table(self, norm: Any) -> NormTable:
        return NormTable(*map(_address, self.copies[id(norm)]))


def make_stack_tables(layers: list[Any], embedding: Any, stack: Any) -> StackTableBuilder | None:
    """None where the kernels do not know some part: norms other than LayerNorm and RMSNorm, most activations."""
    norms = _layer_norms(layers) + ([stack.ends.norm] if type(stack.ends) is PreNorm else [])
    norms += [] if isinstance(embedding.norm, torch.nn.Identity) else [embedding.norm]
    known_norms = all(type(norm) in (LayerNorm, RMSNorm) and norm.eps == norms[0].eps for norm in norms)
    known_activations = all(layer.inner is not None and layer.inner.activation for layer in layers)
    return StackTableBuilder(layers, embedding, stack) if known_norms and known_activations else None


def encode_source(
    encoder: StackTableBuilder,
    decoder: StackTableBuilder,
    ids: Tensor,
    source: PackedSentences,
    cross_kv: list[Int8CrossKV],
) -> None:
    """Ids (M,) of packed sentences, into the keys and values of each layer's cross-attention."""
    encoder_table = encoder.table(int((source.end - source.first).max()))
    decoder_table = decoder.table(1)
    _set_buffers(decoder_table, "cross_attention", [(part.kv, part.scales) for part in cross_kv])
    native.call(
        "hw_encode", ctypes.addressof(encoder_table), ctypes.addressof(decoder_table), ids.contiguous(), source.first,
        source.end, len(source.first),
    )  # fmt: skip


def decode_step(decoder: StackTableBuilder, ids: Tensor, cache: Int8KVCache) -> Tensor:
    """One token of each hypothesis, (N,) -> (N, d). The cache has begun the step."""
    table = decoder.table(cache.length)
    cached = cache_table(decoder, cache, table, cache.width)
    x = torch.empty(len(ids), decoder.width, dtype=torch.float32, device="cpu")
    native.call(
        "hw_decode", ctypes.addressof(table), ctypes.addressof(cached), cache.live, len(cache.live), ids.contiguous(), x
    )
    return x


def cache_table(decoder: StackTableBuilder, cache: Int8KVCache, table: StackStruct, width: int) -> CacheTable:
    """The cache; where each layer's keys and values are is written into the decoder's table. width: hypotheses of each
    sentence, now."""
    buffers = [cache.layer_buffers(index, layer.self_config) for index, layer in enumerate(decoder.layers)]
    _set_buffers(table, "self_attention", buffers)
    _set_buffers(table, "cross_attention", [(part.kv, part.scales) for part in cache.cross_kv])
    source = cache.source
    return CacheTable(
        cache.owners.data_ptr(), source.first.data_ptr(), source.end.data_ptr(), cache.sentences, cache.width, width,
        cache.owners.shape[2], cache.length, source.total,
    )  # fmt: skip


def linear_table(output: Int8Linear) -> LinearTable:
    weight, scale, offsets = (part.data_ptr() for part in output.packed)
    return LinearTable(
        weight, scale, offsets, _address(output.bias), output.inputs, output.outputs, output.positive,
        ACTIVATIONS[output.activation],
    )  # fmt: skip


def _set_buffers(table: StackStruct, name: str, buffers: list[Any]) -> None:
    for index, (kv, scales) in enumerate(buffers):
        attention = getattr(table.layers[index], name)
        attention.kv = kv.data_ptr()
        attention.scales = scales.data_ptr()


def _layer_norms(layers: list[Any]) -> list[Any]:
    return [residual.norm for layer in layers for residual in layer.residuals.values()]


def _copy_parameter(norm: Any, name: str) -> Tensor | None:
    part = getattr(norm, name, None)
    return None if part is None else part.detach().float().clone()


def _fused_table(linear: Any) -> LinearTable:
    """linear: a FusedLinear in int8."""
    return linear_table(linear.int8)


def _address(part: Tensor | None) -> int | None:
    return None if part is None else part.data_ptr()
