"""Retrieval of keys by exact search."""

import torch
from torch import Tensor

from headway.nn.ops.attention import mask_scores


def best_keys(scores: Tensor, mask: Tensor | None, count: int) -> Tensor | None:
    """Which `count` keys of those that the mask shows have the highest scores (B, H, T, S), for each query. None, or
    the mask itself, where there are no more than that."""
    if count >= scores.shape[-1]:
        return mask
    masked, _ = mask_scores(scores.detach(), mask)
    found = masked.topk(count, dim=-1, sorted=False).indices  # (B, H, T, count)
    best = torch.zeros_like(masked, dtype=torch.bool).scatter(-1, found, True)
    return best if mask is None else best & mask
