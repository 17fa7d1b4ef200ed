"""The structures that the kernels read: a model, its KV cache, a search. Fields have the order and the types that
common.h and search.c declare; addresses are those of arrays or tensors, which must live as long."""

import ctypes
from typing import Any

Address = ctypes.c_void_p
Integer = ctypes.c_int64
Real = ctypes.c_double


ACTIVATIONS = {"": 0, "relu": 1, "silu": 2}  # of a linear layer's outputs; "": none


class LinearTable(ctypes.Structure):
    _fields_ = [
        *((name, Address) for name in ("weight", "scale", "offsets", "bias")),
        *((name, Integer) for name in ("inputs", "outputs", "positive", "activation")),
    ]


class NormTable(ctypes.Structure):
    _fields_ = [("gain", Address), ("bias", Address)]


class AttentionTable(ctypes.Structure):
    """In self-attention `query` is the projection of queries, keys and values, and `key_value` is empty."""

    _fields_ = [
        *((name, LinearTable) for name in ("query", "key_value", "output")),
        ("norm", NormTable),
        *((name, Integer) for name in ("heads", "groups", "size")),
        ("scale", Real),
        *((name, Address) for name in ("kv", "scales")),
    ]


class LayerTable(ctypes.Structure):
    _fields_ = [
        *((name, AttentionTable) for name in ("self_attention", "cross_attention")),
        *((name, LinearTable) for name in ("inner", "outer")),
        ("norm", NormTable),
    ]


class StackStruct(ctypes.Structure):
    _fields_ = [
        *((name, Address) for name in ("embedding", "positions")),
        *((name, NormTable) for name in ("embedding_norm", "final_norm")),
        ("layers", ctypes.POINTER(LayerTable)),
        *((name, Integer) for name in ("count", "width", "max_width", "pre_norm")),
        *((name, Real) for name in ("embedding_scale", "eps")),
    ]
    kept: Any  # what it points to, so that it lives as long


class CacheTable(ctypes.Structure):
    _fields_ = [
        *((name, Address) for name in ("owners", "begin", "end")),
        *((name, Integer) for name in ("sentences", "width", "now", "capacity", "length", "total")),
    ]


SEARCH_ARRAYS = (
    "live", "ids", "sums", "ended", "limit", "suppress", "lattice", "inputs", "stop", "penalties", "best_scores",
)  # fmt: skip


class SearchTable(ctypes.Structure):
    _fields_ = [
        *((name, Address) for name in SEARCH_ARRAYS),
        *((name, Integer) for name in ("suppressed", "active", "beam", "candidates", "end", "min_length")),
        *((name, Integer) for name in ("no_repeat", "steps", "force_end", "renormalise")),
    ]
