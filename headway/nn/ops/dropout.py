"""Dropout: PyTorch's result, without its cost in training, where drawing random numbers takes longer than all else.

On a GPU the dropout mask is a hash of the element's index and of one seed drawn for the tensor. It is recomputed in the
backward pass, so no mask is stored: in plain operations where torch.compile fuses them, else in Triton kernels
(ops/triton/dropout.py). On a CPU, 16 random bits are drawn for each element, by a generator seeded from PyTorch's: a
run resumed from a checkpoint drops what it would have dropped without the interruption.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.ops import fused

NUMPY_DTYPES: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}


class Dropout(nn.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        if x.is_cuda and torch.compiler.is_compiling():
            return hashed_dropout(x, self.p)
        return random_dropout(x, self.p)

    def add(self, stream: Tensor, x: Tensor) -> Tensor:
        """stream + dropout(x)"""
        if self.training and 0 < self.p < 1 and stream.shape == x.shape and not fused.unsupported(x):
            return fused.FusedAddDropout.apply(stream, x, self.p)  # type: ignore[no-untyped-call,no-any-return]
        dropped: Tensor = self(x)
        return stream + dropped

    def relu(self, x: Tensor) -> Tensor:
        """dropout(relu(x))"""
        if not (self.training and 0 < self.p < 1 and x.is_cuda):
            return self(x.relu())  # type: ignore[no-any-return]
        function = CompiledReluDropout if fused.unsupported(x) else fused.FusedReluDropout
        return function.apply(x, self.p)  # type: ignore[no-untyped-call,no-any-return]


class CompiledReluDropout(torch.autograd.Function):
    """dropout(relu(x)) for torch.compile. The result alone says where gradients go, and the next layer saves that."""

    @staticmethod
    def forward(ctx, x, p):  # type: ignore[no-untyped-def]
        compiled = x.is_cuda and torch.compiler.is_compiling()
        y = hashed_dropout(x.relu(), p) if compiled else F.dropout(x.relu(), p)
        ctx.save_for_backward(y)
        ctx.scale = 1 / (1 - p)
        return y

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (y,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad * ctx.scale, y, 0), None


def random_dropout(x: Tensor, p: float) -> Tensor:
    """F.dropout, in a fraction of its time on a CPU. There p is rounded to a multiple of 1/65536, and the scale follows
    the rounded p, so that the mean is kept."""
    threshold = round(p * 0x10000)
    fast = x.device.type == "cpu" and x.dtype in NUMPY_DTYPES and 0 < threshold < 0x10000
    if not fast or torch.compiler.is_compiling():
        return F.dropout(x, p)
    seed = int(torch.randint(1 << 62, ()))
    bits = np.random.SFC64(seed).random_raw(-(-x.numel() // 4)).view(np.uint16)[: x.numel()]
    scale = NUMPY_DTYPES[x.dtype](0x10000 / (0x10000 - threshold))
    factors: np.ndarray = np.multiply(bits >= threshold, scale, dtype=scale.dtype)
    return x * torch.from_numpy(factors).view(x.shape)


def hashed_dropout(x: Tensor, p: float) -> Tensor:
    """Each element becomes 0 with probability p; the others are scaled so that the mean is kept."""
    seed = torch.randint(-(2**31), 2**31 - 1, (1,), dtype=torch.int32, device=x.device)
    index = torch.arange(x.numel(), dtype=torch.int32, device=x.device).view(x.shape)
    kept = (murmur_mix((index ^ seed) * -1640531535) & 0xFFFFFF) >= int(p * 0x1000000)
    return torch.where(kept, x * (1 / (1 - p)), 0.0)


def murmur_mix(x: Tensor) -> Tensor:
    """int32 -> int32, every bit of which depends on every bit of x: the finaliser of MurmurHash3."""
    x = (x ^ (x >> 16 & 0xFFFF)) * -2048144789
    x = (x ^ (x >> 13 & 0x7FFFF)) * -1028477387
    return x ^ (x >> 16 & 0xFFFF)
