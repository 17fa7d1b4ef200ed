"""Linear layers. A kind of linear replaces every one of them, wherever it stands."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.parts import Part


class Dense(nn.Module):
    """xWᵀ + b"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "dense"

        def parameters(self, inputs: int, outputs: int, bias: bool) -> int:
            return outputs * (inputs + bias)

    def __init__(self, config: Config, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)
