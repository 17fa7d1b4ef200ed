"""Weights in eight bits: each row of a matrix as whole numbers from -127 to 127, times a scale of its own.

Linear layers in 8 bits, on the CPU. Every token has a scale of its own, so that what becomes of it does not depend on
its neighbours: sums of whole numbers are exact in any order.

Weights are whole numbers up to ±127, with a scale for each output. Inputs get 7 bits: processors without VNNI add pairs
of products in 16 bits, and two products of 127 · 127 just fit. Our own kernels give them 8 bits where they can.
"""

import copy
import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from headway.nn.layers.linear import Dense, Linear
from headway.nn.ops import native
from headway.nn.transformer import Transformer


def quantized(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """weight (N, D) ≈ rows (N, D) · scale (N, 1). Rows of zeros, and others too small to divide by, have scale 1."""
    weight = np.asarray(weight, dtype=np.float32)
    scale = np.abs(weight).max(axis=1, initial=0.0) / np.float32(127)  # (N,)
    scale[scale < np.finfo(np.float32).tiny] = 1
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def dequantized(rows: NDArray[np.int8], scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the rows stand for."""
    return rows * scale[:, None]


MOST = 127  # of a weight, and of an input where none is below 0
BESIDE = 63  # of an input on either side of 0
LEAST = 1e-30  # stands for the largest of a row of zeros
BLOCK = 64  # outputs that our own kernel takes together


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(outputs, inputs) -> whole numbers of 8 bits, and a scale for each output: weight ≈ whole · scale."""
    whole, scale = quantized(weight.detach().float().numpy())
    return torch.from_numpy(whole), torch.from_numpy(scale)


class Int8(Linear):
    """xWᵀ + b, W in 8 bits."""

    weight: None

    def __init__(
        self,
        whole: Tensor,
        scale: Tensor,
        bias: Tensor | None = None,
        *,
        positive: bool = False,
        relu: bool = False,
        own: bool = True,
    ) -> None:
        """positive: no input is below 0. relu: and no output shall be. own: by our own kernel, where it can be had."""
        super().__init__()
        self.weight = None
        self.outputs, self.inputs = whole.shape
        self.bias = None if bias is None else nn.Parameter(bias.detach().float(), requires_grad=False)
        self.positive, self.relu = positive, relu
        self.own = own and native.library() is not None
        self.packed: Any = self._packed(whole, scale) if self.own else packed(whole, scale / self._most)

    @property
    def _most(self) -> int:
        return MOST if self.positive else BESIDE

    def _packed(self, whole: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As our own kernel wants it: weights, scales, and what is to be taken from each sum."""
        size = -(-self.outputs // BLOCK) * BLOCK * -(-self.inputs // 4) * 4
        laid, offsets = torch.zeros(size, dtype=torch.int8), torch.zeros(self.outputs, dtype=torch.int32)
        native.call("hw_pack", whole.contiguous(), self.outputs, self.inputs, self.positive, laid, offsets)
        return laid, scale.contiguous(), offsets

    def forward(self, x: Tensor) -> Tensor:
        return self.rows(x.reshape(-1, self.inputs)).view(*x.shape[:-1], self.outputs)

    def rows(self, x: Tensor) -> Tensor:
        """(N, inputs) -> (N, outputs)"""
        x = x.float()
        if self.own:
            x, y = x.contiguous(), x.new_empty(len(x), self.outputs)
            native.call(
                "hw_linear", x, len(x), self.inputs, *self.packed, self.bias, y, self.outputs, self.positive, self.relu
            )
            return y
        largest = (x if self.positive else x.abs()).amax(1, keepdim=True).clamp_min_(LEAST)  # (N, 1)
        zero = 0 if self.positive else BESIDE + 1
        whole = x * (self._most / largest)
        y = _multiplied(whole, zero, self.packed)
        y = y.mul_(largest) if self.bias is None else torch.addcmul(self.bias, y, largest)
        return y.relu_() if self.relu else y


def in_one_piece(layers: list[Int8]) -> None:
    """The weights of layers that have our own kernel, side by side: they are read in this order, again and again."""
    weights = [layer.packed[0] for layer in layers]
    parts = torch.split(native.zeros([sum(map(len, weights))], torch.int8), [len(weight) for weight in weights])
    for layer, part, weight in zip(layers, parts, weights):
        layer.packed = (part.copy_(weight), *layer.packed[1:])


class Int8Head(nn.Module):
    """The scores of words, by a matrix in 8 bits."""

    def __init__(self, head: nn.Module, embedding: Tensor) -> None:
        super().__init__()
        self.before = head
        _, weight, bias = head.factors(torch.zeros(1, embedding.shape[1], dtype=embedding.dtype), embedding)  # type: ignore[operator]
        self.product = Int8(*quantise(weight), bias)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        result: Tensor = self.product(self.before.factors(x, embedding)[0])  # type: ignore[operator]
        return result


def with_int8_layers(model: Transformer) -> Transformer:
    """A copy whose dense layers are in 8 bits, wherever they stand, but for those that a module names in `exact`."""
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is Dense and name not in getattr(module, "exact", ()):
                positive = name == "outer" and getattr(module, "activation", None) is F.relu
                setattr(module, name, Int8(*quantise(child.weight), child.bias, positive=positive))
    if hasattr(model.head, "factors"):  # it scores words
        model.head = Int8Head(model.head, model.output_embedding)
    return model


def packed(whole: Tensor, scale: Tensor) -> Any:
    """As PyTorch's kernel wants it; where it has none, as floats."""
    if not has_kernel():
        return whole.float(), scale
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*quantized tensor creation functions.*")
        zeros = torch.zeros(len(whole), dtype=torch.long)
        weight = torch._make_per_channel_quantized_tensor(whole, scale.double(), zeros, 0)
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            return torch.ops.quantized.linear_prepack(weight, None)
        finally:
            torch.backends.quantized.engine = before


def has_kernel() -> bool:
    """Whether PyTorch multiplies in 8 bits as we need it: fbgemm does, on x86; qnnpack, on ARM, does not."""
    return "fbgemm" in torch.backends.quantized.supported_engines


def _multiplied(x: Tensor, zero: int, weight: Any) -> Tensor:
    """(N, inputs), to be rounded -> (N, outputs)"""
    if isinstance(weight, tuple):  # whole numbers, of which a float32 holds sums up to 2^24 exactly
        result: Tensor = F.linear(x.round(), weight[0]) * weight[1]
        return result
    result = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(x, 1.0, zero, weight)
    return result
