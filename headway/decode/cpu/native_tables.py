"""Encoder and decoder as one call each, and a search as one: the tables that these read, laid out as common.h declares them."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from headway.nn.layers.int8 import Int8
from headway.nn.layers.norms import LayerNorm, RMSNorm
from headway.nn.layers.residual import Pre
from headway.nn.ops import native
from headway.nn.sequence import Places

Address, Number, Real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


class LinearTable(ctypes.Structure):
    _fields_ = [
        *((name, Address) for name in ("weight", "scale", "offsets", "bias")),
        *((name, Number) for name in ("inputs", "outputs", "positive", "relu")),
    ]


class NormTable(ctypes.Structure):
    _fields_ = [("gain", Address), ("bias", Address)]


class AttentionTable(ctypes.Structure):
    _fields_ = [
        *((name, LinearTable) for name in ("ask", "hear", "say")),
        ("norm", NormTable),
        *((name, Number) for name in ("heads", "groups", "size")),
        ("scale", Real),
        *((name, Address) for name in ("past", "scales")),
    ]


class LayerTable(ctypes.Structure):
    _fields_ = [
        *((name, AttentionTable) for name in ("own", "cross")),
        *((name, LinearTable) for name in ("inner", "outer")),
        ("norm", NormTable),
    ]


class StackTable(ctypes.Structure):
    _fields_ = [
        *((name, Address) for name in ("words", "positions")),
        *((name, NormTable) for name in ("start", "end")),
        ("layers", ctypes.POINTER(LayerTable)),
        *((name, Number) for name in ("count", "width", "wide", "before")),
        *((name, Real) for name in ("factor", "eps")),
    ]
    held: Any  # what it points to, so that it stays as long


class PastTable(ctypes.Structure):
    _fields_ = [
        *((name, Address) for name in ("owners", "begin", "end")),
        *((name, Number) for name in ("all", "width", "now", "longest", "length", "total")),
    ]


class SearchTable(ctypes.Structure):
    _fields_ = [
        *((name, Address) for name in ("live", "ids", "sums", "ended", "limit", "suppress", "trellis")),
        *((name, Number) for name in ("banned", "left", "beam", "candidates", "end", "least")),
    ]


class Side:
    """An encoder or a decoder whose parts are all known to the kernels."""

    def __init__(self, layers: list[Any], embedding: Any, stack: Any) -> None:
        """layers: see lean.Layer."""
        self.layers, self.embedding, self.stack = layers, embedding, stack
        norms = [*_norms(layers), embedding.norm, *([stack.ends.norm] if type(stack.ends) is Pre else [])]
        # Copies, as those of the weights are: tables know only where they lie.
        self.copies = {id(norm): [_copied(norm, "gain"), _copied(norm, "bias")] for norm in norms}
        self.tables = [self._layer_table(layer) for layer in layers]
        linears = [
            part
            for t in self.tables
            for part in (t.own.ask, t.own.say, t.cross.ask, t.cross.hear, t.cross.say, t.inner)
        ]
        self.width = embedding.table.embedding_dim
        self.wide = max(max(part.inputs, part.outputs) for part in linears)

    def table(self, places: int) -> StackTable:
        """For sequences of up to so many places. Its layers are a copy, in which a search can say where its past lies."""
        words = self.embedding.table.weight.detach()
        start = words.new_zeros(1, places, self.width)
        if self.embedding.segments is not None:
            start = start + self.embedding.segments.weight[0]
        with torch.no_grad():
            positions = self.stack.add_positions(start, Places(torch.arange(places)[None], None, places)).contiguous()
        ends = self.stack.ends
        layers = (LayerTable * len(self.tables))(*self.tables)
        table = StackTable(
            words.data_ptr(), positions.data_ptr(), self._norm_table(self.embedding.norm),
            self._norm_table(ends.norm) if type(ends) is Pre else NormTable(), layers, len(layers), self.width, self.wide,
            type(ends) is Pre, self.embedding.scale, _norms(self.layers)[0].eps,
        )  # fmt: skip
        table.held = words, positions
        return table

    def _layer_table(self, layer: Any) -> LayerTable:
        own, across = layer.own, layer.across
        table = LayerTable(
            AttentionTable(
                _linear_table(layer.ask_hear), LinearTable(), _linear_table(layer.say),
                self._norm_table(layer.residuals["self"].norm), own.heads, own.groups, own.d_k, own.scale,
            )
        )  # fmt: skip
        if across is not None:
            table.cross = AttentionTable(
                _linear_table(layer.ask), _linear_table(layer.hear), _linear_table(layer.answer),
                self._norm_table(layer.residuals["cross"].norm), across.heads, across.groups, across.d_k, across.scale,
            )  # fmt: skip
        table.inner, table.outer = _linear_table(layer.inner), _linear_table(layer.outer)
        table.norm = self._norm_table(layer.residuals["feedforward"].norm)
        return table

    def _norm_table(self, norm: Any) -> NormTable:
        return NormTable(*map(_address, self.copies[id(norm)]))


def side_of(layers: list[Any], embedding: Any, stack: Any) -> Side | None:
    """None where some part is not known to the kernels."""
    norms = _norms(layers) + ([stack.ends.norm] if type(stack.ends) is Pre else [])
    norms += [] if isinstance(embedding.norm, torch.nn.Identity) else [embedding.norm]
    known = all(type(norm) in (LayerNorm, RMSNorm) and norm.eps == norms[0].eps for norm in norms)
    plain = all(layer.inner is not None and layer.inner.relu for layer in layers)
    return Side(layers, embedding, stack) if known and plain else None


def encode(encoder: Side, decoder: Side, ids: Tensor, words: Any, sources: list[Any]) -> None:
    """Ids (M,) of sentences one behind the other (see past.Words), into what each layer of the decoder listens to."""
    reader, listener = encoder.table(int((words.end - words.first).max())), decoder.table(1)
    _place(listener, "cross", [(source.past, source.scales) for source in sources])
    native.call(
        "hw_encode", ctypes.addressof(reader), ctypes.addressof(listener), ids.contiguous(), words.first, words.end,
        len(words.first),
    )  # fmt: skip


def decode(decoder: Side, ids: Tensor, past: Any) -> Tensor:
    """One token of each, (N,) -> (N, d). past: see whole_past.WholePast, which has begun the step."""
    table = decoder.table(past.length)
    remembered = past_table(decoder, past, table, past.width)
    x = torch.empty(len(ids), decoder.width, dtype=torch.float32, device="cpu")
    native.call(
        "hw_decode", ctypes.addressof(table), ctypes.addressof(remembered), past.live, len(past.live), ids.contiguous(), x
    )  # fmt: skip
    return x


def past_table(decoder: Side, past: Any, table: StackTable, now: int) -> PastTable:
    """Where keys and values lie is written into the layers of the decoder's table. now: hypotheses of each sentence."""
    _place(table, "own", [past.room(index, layer.own) for index, layer in enumerate(decoder.layers)])
    _place(table, "cross", [(source.past, source.scales) for source in past.sources])
    words = past.words
    return PastTable(
        past.owners.data_ptr(), words.first.data_ptr(), words.end.data_ptr(), past.sentences, past.width, now,
        past.owners.shape[2], past.length, words.total,
    )  # fmt: skip


def output_table(output: Int8) -> LinearTable:
    weight, scale, offsets = (part.data_ptr() for part in output.packed)
    return LinearTable(
        weight, scale, offsets, _address(output.bias), output.inputs, output.outputs, output.positive, output.relu
    )


def _place(table: StackTable, name: str, parts: list[Any]) -> None:
    for index, (past, scales) in enumerate(parts):
        part = getattr(table.layers[index], name)
        part.past, part.scales = past.data_ptr(), scales.data_ptr()


def _norms(layers: list[Any]) -> list[Any]:
    return [residual.norm for layer in layers for residual in layer.residuals.values()]


def _copied(norm: Any, name: str) -> Tensor | None:
    part = getattr(norm, name, None)
    return None if part is None else part.detach().float().clone()


def _linear_table(joined: Any) -> LinearTable:
    return output_table(joined.whole)


def _address(part: Tensor | None) -> int | None:
    return None if part is None else part.data_ptr()
