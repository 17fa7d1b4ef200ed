"""transformers' XLNet in float64."""

import torch
from torch import Tensor


def sinusoids_in_float64(positions: Tensor, rates: Tensor, batch: int | None = None) -> Tensor:
    """In place of XLNetModel.positional_embedding, which counts in float32."""
    width = 2 * len(rates)
    angles = positions.double()[:, None] * 10000 ** (-torch.arange(0, width, 2).double() / width)
    return torch.cat([angles.sin(), angles.cos()], -1)[:, None].expand(-1, batch or 1, -1)
