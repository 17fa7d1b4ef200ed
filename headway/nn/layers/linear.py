"""Linear layers. A kind of linear replaces every one of them, wherever it stands."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part
from headway.nn.ops.fused import Product, fuses


class Linear(nn.Module):
    """What a linear layer is to the rest of the model, whatever its kind: (…, inputs) -> (…, outputs)."""

    weight: nn.Parameter | None  # (outputs, inputs), for initialisation to fill; None where nothing is trained any more


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
        return product(x, self.weight, self.bias)


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """xWᵀ + b"""
    if bias is None or not fuses(x):
        return F.linear(x, weight, bias)
    if torch.is_autocast_enabled("cuda"):
        x, weight, bias = (part.to(torch.get_autocast_dtype("cuda")) for part in (x, weight, bias))
    return Product.apply(x, weight, bias)  # type: ignore[no-untyped-call,no-any-return]


def together(x: Tensor, *layers: nn.Module) -> tuple[Tensor, ...]:
    """What several layers make of the same input. Where a GPU learns it is one product of their weights side by side,
    which reads the input once and fills the device better."""
    dense = [layer for layer in layers if type(layer) is Dense]
    biases: list[Tensor] = [layer.bias for layer in dense if layer.bias is not None]
    alike = len(dense) == len(layers) and len(biases) in (0, len(dense))
    if not (alike and x.is_cuda and torch.is_grad_enabled()):
        return tuple(layer(x) for layer in layers)
    weights: list[Tensor] = [layer.weight for layer in dense]
    joined = product(x, torch.cat(weights), torch.cat(biases) if biases else None)
    return torch.split(joined, [len(weight) for weight in weights], dim=-1)
