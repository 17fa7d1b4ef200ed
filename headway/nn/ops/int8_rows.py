"""8-bit matrices in numpy: rows of integers up to ±127, each with a scale, and the layout in which our C kernels take
them. No torch."""

from typing import Any

import numpy as np

from headway.nn.ops import native

Array = np.ndarray[Any, Any]  # numpy.typing takes long to import

MAX_INT8 = 127  # of a weight, and of an input where none is negative
BLOCK_OUTPUTS = 64  # outputs that the native kernel computes together


def quantise_rows(weight: Array) -> tuple[Array, Array]:
    """weight (N, D) ≈ rows (N, D) · scale (N, 1). Rows of zeros, and others too small to divide by, have scale 1."""
    weight = np.asarray(weight, dtype=np.float32)
    scale = np.abs(weight).max(axis=1, initial=0.0) / np.float32(MAX_INT8)  # (N,)
    scale[scale < np.finfo(np.float32).tiny] = 1
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def dequantise_rows(rows: Array, scale: Array) -> Array:
    """The float weight (N, D) of int8 rows and their scales."""
    weight = rows.astype(np.float32)  # in two steps: numpy multiplies mixed types slowly
    weight *= scale[:, None]
    return weight


def requantise_rows(rows: Array, scale: Array) -> tuple[Array, Array]:
    """What quantise_rows gives for the dequantised rows, to the last bit. Where rows reach ±127, as quantise_rows
    leaves them, the integers are the same and no float matrix is needed."""
    largest = np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0).astype(np.int16))
    if (largest < MAX_INT8).any() or not (scale >= np.finfo(np.float32).tiny).all():
        return quantise_rows(dequantise_rows(rows, scale))
    return rows, largest * scale / np.float32(MAX_INT8)


def pack_rows(rows: Array, positive: bool = False, to: Array | None = None) -> tuple[Array, Array]:
    """In the layout of the native kernels: weights, and what is to be subtracted from each sum. positive: no input is
    negative. to: zeros, packed_size(rows) of them."""
    outputs, inputs = rows.shape
    packed = np.zeros(packed_size(rows), np.int8) if to is None else to
    offsets = np.zeros(outputs, np.int32)
    native.call("hw_pack", np.ascontiguousarray(rows), outputs, inputs, positive, packed, offsets)
    return packed, offsets


def packed_size(rows: Array) -> int:
    outputs, inputs = map(int, rows.shape)
    return -(-outputs // BLOCK_OUTPUTS) * BLOCK_OUTPUTS * -(-inputs // 4) * 4
