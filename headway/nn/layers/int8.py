"""8-bit linear layers for the CPU: int8 weights with a scale per output, rounded inputs with a scale per token.

Scales per token make a token's output independent of the other tokens: integer sums are exact in any order.

Weights are integers up to ±127. Inputs get 7 bits: processors without VNNI add pairs of products in 16 bits, and two
products of 127 · 127 just fit. Our own kernels (ops/native) give them 8 bits where they can.
"""

import copy
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.layers.linear import Dense, Linear, ScaledDense
from headway.nn.ops import native
from headway.nn.ops.int8_rows import MAX_INT8, pack_rows, quantise_rows
from headway.nn.ops.native.tables import ACTIVATIONS
from headway.nn.transformer import Transformer

MAX_SIGNED_INPUT = 63  # magnitude of an input
MIN_ROW_MAXIMUM = 1e-30  # in place of 0, to divide by


def quantise_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(outputs, inputs) -> 8-bit integers, and a scale for each output: weight ≈ int_weight · scale."""
    int_weight, scale = quantise_rows(weight.detach().float().numpy())
    return torch.from_numpy(int_weight), torch.from_numpy(scale)


class Int8Linear(Linear):
    """xWᵀ + b, W in 8 bits."""

    weight: None

    def __init__(
        self,
        int_weight: Tensor,
        scale: Tensor,
        bias: Tensor | None = None,
        *,
        positive: bool = False,
        activation: str = "",
        use_native: bool = True,
    ) -> None:
        """positive: no input is negative. activation: of the output, a key of ACTIVATIONS. use_native: our own kernel,
        where available."""
        super().__init__()
        self.weight = None
        self.outputs, self.inputs = int_weight.shape
        self.bias = None if bias is None else nn.Parameter(bias.detach().float(), requires_grad=False)
        self.positive, self.activation = positive, activation
        self.uses_native = use_native and native.load_library() is not None
        self.packed: Any = (
            self._pack_native(int_weight, scale)
            if self.uses_native
            else pack_for_fbgemm(int_weight, scale / self._max_input)
        )

    @property
    def _max_input(self) -> int:
        return MAX_INT8 if self.positive else MAX_SIGNED_INPUT

    def _pack_native(self, int_weight: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """In the layout of the native kernel: weights, scales, and what is to be subtracted from each sum."""
        packed, offsets = pack_rows(int_weight.numpy(), self.positive)
        return torch.from_numpy(packed), scale.contiguous(), torch.from_numpy(offsets)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_rows(x.reshape(-1, self.inputs)).view(*x.shape[:-1], self.outputs)

    def forward_rows(self, x: Tensor) -> Tensor:
        """(N, inputs) -> (N, outputs)"""
        x = x.float()
        if self.uses_native:
            x, y = x.contiguous(), x.new_empty(len(x), self.outputs)
            kind = ACTIVATIONS[self.activation]
            native.call(
                "hw_linear", x, len(x), self.inputs, *self.packed, self.bias, y, self.outputs, self.positive, kind
            )
            return y
        largest = (x if self.positive else x.abs()).amax(1, keepdim=True).clamp_min_(MIN_ROW_MAXIMUM)  # (N, 1)
        zero = 0 if self.positive else MAX_SIGNED_INPUT + 1
        y = _multiply(x * (self._max_input / largest), zero, self.packed)
        y = y.mul_(largest) if self.bias is None else torch.addcmul(self.bias, y, largest)
        return {"relu": F.relu, "silu": F.silu}[self.activation](y) if self.activation else y


def join_weights(layers: list[Int8Linear]) -> None:
    """Move the weights of native layers into one block of memory, in the order in which they are read at every step."""
    weights = [layer.packed[0] for layer in layers]
    parts = torch.split(torch.from_numpy(native.zeros([sum(map(len, weights))], "i1")), [len(part) for part in weights])
    for layer, part, weight in zip(layers, parts, weights):
        layer.packed = (part.copy_(weight), *layer.packed[1:])


class Int8Head(nn.Module):
    """The logits, by a matrix in 8 bits."""

    def __init__(self, head: nn.Module, embedding: Tensor) -> None:
        super().__init__()
        self.before = head
        empty = torch.zeros(1, embedding.shape[1], dtype=embedding.dtype)
        _, weight, bias = head.factors(empty, embedding)  # type: ignore[operator]
        self.product = Int8Linear(*quantise_weight(weight), bias)

    def factors(self, x: Tensor, embedding: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """In float, for a loss, which computes the logits in chunks."""
        parts: tuple[Tensor, Tensor, Tensor | None] = self.before.factors(x, embedding)  # type: ignore[operator]
        return parts

    def next_sentence(self, x: Tensor) -> Tensor:
        result: Tensor = self.before.next_sentence(x)  # type: ignore[operator]
        return result

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        result: Tensor = self.product(self.factors(x, embedding)[0])
        return result


def quantise_model(model: Transformer) -> Transformer:
    """A copy with all dense layers in 8 bits, except those that a module lists in `keep_float`. What stays in float is
    shared with the model."""
    model = copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            child = child.fold() if isinstance(child, ScaledDense) else child
            if type(child) is Dense and name not in getattr(module, "keep_float", ()):
                positive = name == "outer" and getattr(module, "activation", None) is F.relu
                setattr(module, name, Int8Linear(*quantise_weight(child.weight), child.bias, positive=positive))
    if hasattr(model.head, "factors"):  # a head over the vocabulary
        model.head = Int8Head(model.head, model.output_embedding)
    return model


def pack_for_fbgemm(int_weight: Tensor, scale: Tensor) -> Any:
    """In the layout of PyTorch's kernel; as floats where it has none."""
    if unsupported():
        return int_weight.float(), scale
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*quantized tensor creation functions.*")
        zeros = torch.zeros(len(int_weight), dtype=torch.long)
        weight = torch._make_per_channel_quantized_tensor(int_weight, scale.double(), zeros, 0)
        engine = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            return torch.ops.quantized.linear_prepack(weight, None)
        finally:
            torch.backends.quantized.engine = engine


def unsupported() -> str:
    """Why PyTorch's 8-bit products cannot be used, or "". fbgemm (x86) has what is needed; qnnpack (ARM) has not."""
    known = "fbgemm" in torch.backends.quantized.supported_engines
    return "" if known else "this build of PyTorch has no fbgemm"


def _multiply(x: Tensor, zero: int, weight: Any) -> Tensor:
    """(N, inputs), to be rounded -> (N, outputs)"""
    if isinstance(weight, tuple):  # integers, of which float32 holds sums up to 2^24 exactly
        result: Tensor = F.linear(x.round(), weight[0]) * weight[1]
        return result
    result = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(x, 1.0, zero, weight)
    return result
