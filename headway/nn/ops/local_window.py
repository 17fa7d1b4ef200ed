"""Luong's local attention: a window around a centre that each query has, and a Gaussian over it.

Shapes: centre (B or 1, H or 1, T, 1), key positions (B or 1, S) -> (B or 1, H or 1, T, S).
"""

import torch
from torch import Tensor

from headway.nn.sequence import TokenPositions


def within_window(centre: Tensor, keys: Tensor, max_distance: int) -> Tensor:
    """Which keys are at most so far from the centre."""
    return (keys[:, None, None] - centre.detach()).abs() <= max_distance


def gaussian(centre: Tensor, keys: Tensor, max_distance: int) -> Tensor:
    """exp(-(s - p)² / 2σ²) with σ = max_distance / 2, in float32 at least."""
    return (-2.0 * ((keys[:, None, None] - centre) / max_distance).square()).exp()


def count_keys(queries: TokenPositions, keys: TokenPositions) -> Tensor:
    """The number of real keys for each query: (B or 1, T or 1)."""
    if queries.texts is not None and keys.texts is not None:
        return (keys.texts.ends - keys.texts.starts)[queries.texts.text_index]
    if keys.valid is None:
        return torch.full((1, 1), keys.length, device=keys.positions.device)
    return keys.valid.sum(1, keepdim=True)
