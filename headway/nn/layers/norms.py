"""Norms: the contract, and layer norm and RMS norm, over the vector of each token. Others: stream_norms.py.

norm(x, tokens) normalises the residual stream (B, T, d); `tokens` says which of it is padding, for norms over several
tokens. A norm inside a layer is made by `build_norm` and called without tokens, with x of any shape (…, width).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.ops import fused
from headway.nn.sequence import TokenPositions


@dataclass(frozen=True, kw_only=True)
class NormConfig(Part):
    """The base class of a norm's settings."""

    streams_only: ClassVar[bool] = False  # inside layers, layer norm takes its place, which has as many parameters

    def check(self, width: int, sides: list[str]) -> None:
        """Raise a ConfigError if it cannot normalise the stream of this model."""

    def parameters(self, width: int) -> int:
        raise NotImplementedError


class LayerNorm(nn.Module):
    """(x - mean) / √(variance + eps) · gain + bias"""

    @dataclass(frozen=True, kw_only=True)
    class Config(NormConfig):
        kind: str = "layernorm"
        eps: float = number(1e-5, low=0)

        def parameters(self, width: int) -> int:
            return 2 * width

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.eps = config.eps
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        if not fused.unsupported(x):
            return fused.FusedNorm.apply(x, self.gain, self.bias, self.eps)  # type: ignore[no-untyped-call,no-any-return]
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps).to(x.dtype)


class RMSNorm(nn.Module):
    """x / √(mean of x² + eps) · gain"""

    @dataclass(frozen=True, kw_only=True)
    class Config(NormConfig):
        kind: str = "rmsnorm"
        eps: float = number(1e-6, low=0)

        def parameters(self, width: int) -> int:
            return width

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.eps = config.eps
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        if not fused.unsupported(x):
            return fused.FusedNorm.apply(x, self.gain, None, self.eps)  # type: ignore[no-untyped-call,no-any-return]
        return F.rms_norm(x.to(self.gain.dtype), self.gain.shape, self.gain, self.eps).to(x.dtype)


class NoNorm(nn.Module):
    """x"""

    @dataclass(frozen=True, kw_only=True)
    class Config(NormConfig):
        kind: str = "none"

        def parameters(self, width: int) -> int:
            return 0

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        return x
