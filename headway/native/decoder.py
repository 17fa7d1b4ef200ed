"""A step of the decoder as one call: the tables that hw_decode reads, laid out as lean.c declares them."""

import ctypes
from typing import Any

from torch import Tensor

from headway import native
from headway.nn.int8 import Int8
from headway.nn.norms import LayerNorm, RMSNorm

Address, Number, Real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
LINEARS = ("ask_hear", "say", "ask", "answer", "inner", "outer")
NORMS = {"own": "self", "cross": "cross", "feed": "feedforward"}  # and the sub-layers that they belong to


class LinearTable(ctypes.Structure):
    _fields_ = [
        *((name, Address) for name in ("weight", "scale", "sums", "bias")),
        *((name, Number) for name in ("inputs", "outputs", "positive", "relu")),
    ]


class NormTable(ctypes.Structure):
    _fields_ = [("gain", Address), ("bias", Address)]


class LayerTable(ctypes.Structure):
    _fields_ = [
        *((name, LinearTable) for name in LINEARS),
        *((name, NormTable) for name in NORMS),
        *((name, Number) for name in ("heads", "groups", "size", "cross_heads", "cross_groups", "cross_size")),
        *((name, Real) for name in ("scale", "cross_scale")),
        *((name, Address) for name in ("past", "past_scales", "source", "source_scales")),
    ]


class StepTable(ctypes.Structure):
    _fields_ = [
        *((name, Address) for name in ("owners", "live", "first", "begin", "end")),
        *((name, Number) for name in ("all", "sentences", "width", "longest", "length", "total", "before", "wide")),
        ("eps", Real),
    ]


class Decoder:
    """Layers whose parts are all known to the kernel."""

    def __init__(self, layers: list[Any], before: bool) -> None:
        """layers: see lean.Layer. before: norms stand before the sub-layers."""
        self.layers, self.before = layers, before
        # Copies, as those of the weights are: tables know only where they lie.
        parts = [layer.residuals[name].norm for layer in layers for name in NORMS.values()]
        self.norms = [[_copied(norm.gain), _copied(getattr(norm, "bias", None))] for norm in parts]
        self.tables = [
            _layer_table(layer, self.norms[first : first + len(NORMS)])
            for layer, first in zip(layers, range(0, len(parts), len(NORMS)))
        ]
        self.eps = layers[0].residuals["self"].norm.eps
        self.wide = max(table.outputs for layer in self.tables for table in (getattr(layer, name) for name in LINEARS))

    def __call__(self, x: Tensor, past: Any) -> Tensor:
        """One token of each, (N, d), in place. past: see whole_past.WholePast."""
        tables = (LayerTable * len(self.tables))(*self.tables)
        for index, (layer, table) in enumerate(zip(self.layers, tables)):
            table.past, table.past_scales = (part.data_ptr() for part in past.room(index, layer.own))
            source = past.sources[index]
            table.source, table.source_scales = source.past.data_ptr(), source.scales.data_ptr()
        first, words = past.step
        step = StepTable(
            past.owners.data_ptr(), past.live.data_ptr(), first.data_ptr(), words.first.data_ptr(), words.end.data_ptr(),
            past.sentences, len(past.live), past.width, past.owners.shape[2], past.length, words.total, self.before,
            self.wide, self.eps,
        )  # fmt: skip
        native.call("hw_decode", x, *x.shape, ctypes.addressof(tables), len(tables), ctypes.addressof(step))
        return x


def decoder_of(layers: list[Any], before: bool) -> Decoder | None:
    """None where some part is not known to the kernel."""
    norms = [layer.residuals[name].norm for layer in layers for name in NORMS.values()]
    known = all(type(norm) in (LayerNorm, RMSNorm) and norm.eps == norms[0].eps for norm in norms)
    return Decoder(layers, before) if known and all(layer.inner is not None for layer in layers) else None


def _copied(part: Tensor | None) -> Tensor | None:
    return None if part is None else part.detach().float().clone()


def _layer_table(layer: Any, norms: list[list[Tensor | None]]) -> LayerTable:
    own, across = layer.own, layer.across
    linears = [_linear_table(getattr(layer, name).whole) for name in LINEARS]
    return LayerTable(
        *linears,
        *(NormTable(*map(_address, norm)) for norm in norms),
        own.heads, own.groups, own.d_k, across.heads, across.groups, across.d_k, own.scale, across.scale,
    )  # fmt: skip


def _linear_table(layer: Int8) -> LinearTable:
    weight, scale, sums = (part.data_ptr() for part in layer.packed)
    return LinearTable(
        weight, scale, sums, _address(layer.bias), layer.inputs, layer.outputs, layer.positive, layer.relu
    )


def _address(part: Tensor | None) -> int | None:
    return None if part is None else part.data_ptr()
