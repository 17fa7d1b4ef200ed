"""A short causal convolution along the tokens, in each channel by itself.

    y_t = bias + w_1 ⊙ x_{t-K+1} + … + w_K ⊙ x_t

Shapes: x (B, T, D), weight (K, D), bias (D,). window (B, K - 1, D): the inputs before the first token; None: 0.
"""

import torch
from torch import Tensor


def convolve_causally(
    x: Tensor, weight: Tensor, bias: Tensor, window: Tensor | None = None, valid: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """y (B, T, D), and the new window. valid (B, T) is false on padding, which is passed over wherever it stands: y has
    no meaning there."""
    length, taps = x.shape[1], len(weight)
    order = None
    if valid is not None:
        order = (~valid).long().argsort(dim=1, stable=True)  # real tokens first
        x = _gather_tokens(x, order)
    before = x.new_zeros(len(x), taps - 1, x.shape[2]) if window is None else window.to(x.dtype)
    known = torch.cat([before, x], 1)  # (B, K - 1 + T, D)
    y = bias + weight[-1] * x
    for tap in range(taps - 1):
        y = y + weight[tap] * known[:, tap : tap + length]
    if valid is None or order is None:
        return y, known[:, length:]
    recent = valid.sum(1, keepdim=True) + torch.arange(taps - 1, device=x.device)  # (B, K - 1)
    return _gather_tokens(y, order.argsort(1)), _gather_tokens(known, recent)


def _gather_tokens(x: Tensor, index: Tensor) -> Tensor:
    return x.gather(1, index[..., None].expand(*index.shape, x.shape[2]))
