"""Linear layers. The config's `linear` kind replaces every one of them, wherever it stands."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part
from headway.nn.ops import fused


class Linear(nn.Module):
    """The base class of every kind of linear layer: (…, inputs) -> (…, outputs)."""

    weight: nn.Parameter | None  # (outputs, inputs), set by initialisation; None in layers that are no longer trained


class Dense(Linear):
    """xWᵀ + b"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "dense"

        def parameters(self, inputs: int, outputs: int, bias: bool) -> int:
            return outputs * (inputs + bias)

    weight: nn.Parameter

    def __init__(self, config: Config, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return apply_linear(x, self.weight, self.bias)


class ScaledDense(Linear):
    """xWᵀ, where each output has a further factor for each group of `group` inputs: the scaler of a spline (KAN)."""

    weight: nn.Parameter

    def __init__(self, groups: int, group: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, groups * group))
        self.scaler = nn.Parameter(torch.ones(outputs, groups, 1))  # a third axis: it is no matrix

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self._scaled_weight())

    def fold(self) -> Dense:
        """The same as one matrix, for inference."""
        scaled = self._scaled_weight().detach()
        dense = Dense(Dense.Config(), *reversed(scaled.shape), bias=False)
        dense.weight = nn.Parameter(scaled, requires_grad=False)
        return dense

    def _scaled_weight(self) -> Tensor:
        outputs, groups, _ = self.scaler.shape
        return (self.weight.view(outputs, groups, -1) * self.scaler).flatten(1)


def apply_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """xWᵀ + b"""
    if bias is None or fused.unsupported(x):
        return F.linear(x, weight, bias)
    if torch.is_autocast_enabled("cuda"):
        x, weight, bias = (t.to(torch.get_autocast_dtype("cuda")) for t in (x, weight, bias))
    return fused.FusedBiasLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call,no-any-return]


def project_together(x: Tensor, *layers: nn.Module) -> tuple[Tensor, ...]:
    """Several layers applied to the same input. In training on a GPU this is one product with their weights
    concatenated, which reads the input once and fills the device better."""
    dense = [layer for layer in layers if type(layer) is Dense]
    biases: list[Tensor] = [layer.bias for layer in dense if layer.bias is not None]
    uniform = len(dense) == len(layers) and len(biases) in (0, len(dense))
    if not (uniform and x.is_cuda and torch.is_grad_enabled()):
        return tuple(layer(x) for layer in layers)
    weights: list[Tensor] = [layer.weight for layer in dense]
    outputs = apply_linear(x, torch.cat(weights), torch.cat(biases) if biases else None)
    return torch.split(outputs, [len(weight) for weight in weights], dim=-1)
