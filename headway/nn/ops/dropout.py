"""Dropout: PyTorch's, but for training, where drawing its random numbers takes longer than all else.

On a GPU, what is dropped follows from a hash of the place and of one number drawn for the whole tensor. It is computed
again going backwards, so that nothing need be kept; in plain operations for a compiler, else in kernels of our own.
On the CPU 16 bits are drawn for each place, by a generator that begins with a number of PyTorch's: so a run that goes on
from a checkpoint drops what it would have dropped."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.ops.fused import AddDropped, DroppedRelu, fuses

NUMPY: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}


class Dropout(nn.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        if x.is_cuda and torch.compiler.is_compiling():
            return hashed_dropout(x, self.p)
        return drawn_dropout(x, self.p)

    def add(self, stream: Tensor, x: Tensor) -> Tensor:
        """stream + dropout(x)"""
        if self.training and 0 < self.p < 1 and fuses(x) and stream.shape == x.shape:
            return AddDropped.apply(stream, x, self.p)  # type: ignore[no-untyped-call,no-any-return]
        dropped: Tensor = self(x)
        return stream + dropped

    def relu(self, x: Tensor) -> Tensor:
        """dropout(relu(x))"""
        if not (self.training and 0 < self.p < 1 and x.is_cuda):
            return self(x.relu())  # type: ignore[no-any-return]
        function = DroppedRelu if fuses(x) else PlainDroppedRelu
        return function.apply(x, self.p)  # type: ignore[no-untyped-call,no-any-return]


class PlainDroppedRelu(torch.autograd.Function):
    """dropout(relu(x)), for a compiler. Its result alone tells where gradients go, and the next layer keeps that."""

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


def drawn_dropout(x: Tensor, p: float) -> Tensor:
    """F.dropout, in a fraction of the time where a CPU draws. p is rounded to 1/65536, and the mean kept by what it is
    then."""
    dropped = round(p * 0x10000)
    plain = x.device.type == "cpu" and x.dtype in NUMPY and 0 < dropped < 0x10000
    if not plain or torch.compiler.is_compiling():
        return F.dropout(x, p)
    seed = int(torch.randint(1 << 62, ()))
    bits = np.random.SFC64(seed).random_raw(-(-x.numel() // 4)).view(np.uint16)[: x.numel()]
    scale = NUMPY[x.dtype](0x10000 / (0x10000 - dropped))
    kept: np.ndarray = np.multiply(bits >= dropped, scale, dtype=scale.dtype)
    return x * torch.from_numpy(kept).view(x.shape)


def hashed_dropout(x: Tensor, p: float) -> Tensor:
    """Each number is 0 with probability p, and the others grow as much as keeps the mean."""
    seed = torch.randint(-(2**31), 2**31 - 1, (1,), dtype=torch.int32, device=x.device)
    place = torch.arange(x.numel(), dtype=torch.int32, device=x.device).view(x.shape)
    kept = (mixed((place ^ seed) * -1640531535) & 0xFFFFFF) >= int(p * 0x1000000)
    return torch.where(kept, x * (1 / (1 - p)), 0.0)


def mixed(x: Tensor) -> Tensor:
    """int32 -> int32, every bit of which depends on every bit: Murmur's last steps."""
    x = (x ^ (x >> 16 & 0xFFFF)) * -2048144789
    x = (x ^ (x >> 13 & 0x7FFFF)) * -1028477387
    return x ^ (x >> 16 & 0xFFFF)
