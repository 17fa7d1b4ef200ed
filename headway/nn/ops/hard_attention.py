"""The choice of one key: one-hot weights with the gradient of a softmax (straight-through)."""

import torch
from torch import Tensor

from headway.nn.ops.attention import mask_scores, masked_softmax


def choose_keys(scores: Tensor, mask: Tensor | None, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Scores (…, T, S) -> weights that are 1 at each query's best key and else 0, and softmax(scores / temperature).
    Gradients pass to the former as if they were the latter. A query that sees no key has only zeros."""
    soft = masked_softmax(scores / temperature, mask)
    masked, empty = mask_scores(scores.detach(), mask)
    hard = torch.zeros_like(soft).scatter(-1, masked.argmax(-1, keepdim=True), 1.0).masked_fill(empty, 0.0)
    return hard + (soft - soft.detach()), soft


def gumbel_noise(scores: Tensor) -> Tensor:
    """Noise with which the best key is one drawn by its softmax weight."""
    return -torch.empty_like(scores).exponential_().log()
