"""Weights in eight bits: each row of a matrix as whole numbers from -127 to 127, times a scale of its own."""

import numpy as np
from numpy.typing import NDArray


def quantized(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """weight (N, D) ≈ rows (N, D) · scale (N, 1). Rows of zeros, and others too small to divide by, have scale 1."""
    weight = np.asarray(weight, dtype=np.float32)
    scale = np.abs(weight).max(axis=1, initial=0.0) / np.float32(127)  # (N,)
    scale[scale < np.finfo(np.float32).tiny] = 1
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def dequantized(rows: NDArray[np.int8], scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the rows stand for."""
    return rows * scale[:, None]
