"""Norms: layer norm and RMS norm, over the vector of each token."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.ops import fused


class LayerNorm(nn.Module):
    """(x - mean) / √(variance + eps) · gain + bias"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "layernorm"
        eps: float = number(1e-5, low=0)

        def parameters(self, width: int) -> int:
            return 2 * width

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.eps = config.eps
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        if not fused.unsupported(x):
            return fused.FusedNorm.apply(x, self.gain, self.bias, self.eps)  # type: ignore[no-untyped-call,no-any-return]
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps).to(x.dtype)


class RMSNorm(nn.Module):
    """x / √(mean of x² + eps) · gain"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "rmsnorm"
        eps: float = number(1e-6, low=0)

        def parameters(self, width: int) -> int:
            return width

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.eps = config.eps
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        if not fused.unsupported(x):
            return fused.FusedNorm.apply(x, self.gain, None, self.eps)  # type: ignore[no-untyped-call,no-any-return]
        return F.rms_norm(x.to(self.gain.dtype), self.gain.shape, self.gain, self.eps).to(x.dtype)


class NoNorm(nn.Module):
    """x"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "none"

        def parameters(self, width: int) -> int:
            return 0

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x
