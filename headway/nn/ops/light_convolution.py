"""Light-weight and dynamic convolution (Wu 2019): a short filter for each head, shared by its channels."""

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops.retention import accumulator_dtype


def convolve(x: Tensor, filters: Tensor, ahead: int = 0, index: Tensor | None = None) -> Tensor:
    """y_t = Σ_j filters_tj · x_(t + j - (K - 1 - ahead)), with zeros beyond both ends: the last tap of the K is `ahead`
    tokens ahead of t. One pass over the tokens for each tap, so memory does not grow with K.

    x (B, S, H, D); filters (B, T, H, K), where B and T may be 1: the same for all. index (B, T): the tokens of x whose
    output is wanted, with T filters; None: all of them. -> (B, T, H, D)"""
    taps, wide = filters.shape[-1], accumulator_dtype(x)
    padded = F.pad(x.to(wide), (0, 0, 0, 0, taps - 1 - ahead, ahead))
    weights = filters.to(wide)[..., None]  # (B, T, H, K, 1)
    output = torch.zeros((), dtype=wide, device=x.device)
    for tap in range(taps):
        if index is None:
            inputs = padded[:, tap : tap + x.shape[1]]
        else:
            inputs = padded.gather(1, (index + tap)[..., None, None].expand(-1, -1, *x.shape[2:]))
        output = output + weights[..., tap, :] * inputs
    return output.to(x.dtype)
