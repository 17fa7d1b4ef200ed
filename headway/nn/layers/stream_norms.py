"""Norms of the residual stream other than those of a token's whole vector: batch norm, instance norm, group norm.

                  mean and variance of                             defined for a single token
    batchnorm     a channel, over all real tokens of the batch     in evaluation, by running averages
    instancenorm  a channel, over the real tokens of one text      no
    groupnorm     a group of channels of one token                 yes

They take (B, T, d) and the positions of its tokens, which say what is padding. Inside a layer, where parts of tokens
are normalised (heads, the inputs of a linear layer), `build_norm` puts layer norm in their place.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.layers.norms import NormConfig
from headway.nn.sequence import TokenPositions


def batch_moments(x: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and (biased) variance of each channel over all real tokens, and their number: (d), (d), ()."""
    if valid is None:
        tokens = x.flatten(0, -2)
        count = torch.tensor(float(len(tokens)), dtype=x.dtype, device=x.device)
        return tokens.mean(0), tokens.var(0, correction=0), count
    hidden = ~valid[..., None]
    count = valid.sum().clamp(min=1).to(x.dtype)
    mean = x.masked_fill(hidden, 0.0).sum((0, 1)) / count
    return mean, (x - mean).masked_fill(hidden, 0.0).square().sum((0, 1)) / count, count


def text_means(x: Tensor, tokens: TokenPositions | None) -> Tensor:
    """The mean of each channel over the real tokens of each text: (B, 1, d), or (1, T, d) for packed texts."""
    if tokens is not None and tokens.texts is not None:
        index = tokens.texts.text_index[0]
        counts = torch.bincount(index, minlength=len(tokens.texts.starts)).clamp(min=1)
        sums = x.new_zeros(len(counts), x.shape[-1]).index_add(0, index, x[0])
        return (sums / counts[:, None])[index][None]
    if tokens is None or tokens.valid is None:
        return x.mean(1, keepdim=True)
    total = x.masked_fill(~tokens.valid[..., None], 0.0).sum(1, keepdim=True)
    return total / tokens.valid.sum(1).clamp(min=1)[:, None, None]


class AffineNorm(nn.Module):
    """What these norms have in common: normalised · gain + bias"""

    def __init__(self, eps: float, width: int) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def scale(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return (x - mean) * (variance + self.eps).rsqrt() * self.gain + self.bias


class BatchNorm(AffineNorm):
    """(x - mean) / √(variance + eps) · gain + bias, of each channel over the batch; in evaluation running averages"""

    running_mean: Tensor
    running_var: Tensor

    @dataclass(frozen=True, kw_only=True)
    class Config(NormConfig):
        streams_only: ClassVar[bool] = True
        kind: str = "batchnorm"
        eps: float = number(1e-5, low=0)
        momentum: float = number(0.1, low=0, high=1)  # share of a batch in the running averages

        def parameters(self, width: int) -> int:
            return 2 * width

    def __init__(self, config: Config, width: int) -> None:
        super().__init__(config.eps, width)
        self.momentum = config.momentum
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        wide = x.to(self.gain.dtype)
        if not self.training:
            return self.scale(wide, self.running_mean, self.running_var).to(x.dtype)
        mean, variance, count = batch_moments(wide, None if tokens is None else tokens.valid)
        self._update(mean.detach(), variance.detach(), count)
        return self.scale(wide, mean, variance).to(x.dtype)

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Move the running averages, unless a number is not finite: such steps are skipped by the trainer too."""
        unbiased = variance * count / (count - 1).clamp(min=1)
        for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            moved = running.lerp(new.to(running.dtype), self.momentum)
            running.copy_(torch.where(new.isfinite(), moved, running))


class InstanceNorm(AffineNorm):
    """(x - mean) / √(variance + eps) · gain + bias, of each channel over the tokens of one text"""

    @dataclass(frozen=True, kw_only=True)
    class Config(NormConfig):
        streams_only: ClassVar[bool] = True
        kind: str = "instancenorm"
        eps: float = number(1e-5, low=0)

        def parameters(self, width: int) -> int:
            return 2 * width

        def check(self, width: int, sides: list[str]) -> None:
            if "decoder" in sides:
                raise ConfigError(
                    "instancenorm takes mean and variance over all tokens of a text, and a decoder must not see the "
                    'later ones. Choose "layernorm", "rmsnorm", "groupnorm" or "batchnorm".'
                )

    def __init__(self, config: Config, width: int) -> None:
        super().__init__(config.eps, width)

    def forward(self, x: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        wide = x.to(self.gain.dtype)
        mean = text_means(wide, tokens)
        variance = text_means((wide - mean).square(), tokens)
        return self.scale(wide, mean, variance).to(x.dtype)


class GroupNorm(AffineNorm):
    """(x - mean) / √(variance + eps) · gain + bias, of each group of channels of one token"""

    @dataclass(frozen=True, kw_only=True)
    class Config(NormConfig):
        streams_only: ClassVar[bool] = True
        kind: str = "groupnorm"
        groups: int = number(8, low=1)  # of neighbouring channels
        eps: float = number(1e-5, low=0)

        def parameters(self, width: int) -> int:
            return 2 * width

        def check(self, width: int, sides: list[str]) -> None:
            if width % self.groups:
                raise ConfigError(
                    f"d_model = {width} is not a multiple of {self.groups} groups of channels. Choose another number "
                    "of groups."
                )

    def __init__(self, config: Config, width: int) -> None:
        super().__init__(config.eps, width)
        self.groups = config.groups

    def forward(self, x: Tensor, tokens: TokenPositions | None = None) -> Tensor:
        rows = x.reshape(-1, x.shape[-1]).to(self.gain.dtype)
        return F.group_norm(rows, self.groups, self.gain, self.bias, self.eps).view_as(x).to(x.dtype)
