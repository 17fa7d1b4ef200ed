"""Dropout: PyTorch's, but for training on a GPU, where drawing its random numbers takes longer than all else.

There, what is dropped follows from a hash of the place and of one number drawn for the whole tensor. It is computed
again going backwards, so that nothing need be kept; in plain operations for a compiler, else in kernels of our own."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.fused import AddDropped, DroppedRelu, fuses


class Dropout(nn.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        if x.is_cuda and torch.compiler.is_compiling():
            return hashed_dropout(x, self.p)
        return F.dropout(x, self.p)

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
