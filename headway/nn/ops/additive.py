"""Additive scores: score(q, k) = eᵀ tanh(q + k). `naive` is the specification; `additive_scores` equals it in bounded
memory.

Shapes: q (B, H, T, D), k (B, H, S, D), e (H, D, 1) -> scores (B, H, T, S).
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MAX_PIECE_NUMBERS = 1 << 24  # of the tanh of all pairs that exist at once: 64 MiB in float32


def naive(q: Tensor, k: Tensor, e: Tensor) -> Tensor:
    """All pairs at once: the tanh has B · H · T · S · D numbers."""
    return (torch.tanh(q[:, :, :, None] + k[:, :, None]) @ e[:, None]).squeeze(-1)  # (B, H, T, S)


def additive_scores(q: Tensor, k: Tensor, e: Tensor, max_numbers: int = MAX_PIECE_NUMBERS) -> Tensor:
    """Some queries at a time. In training the tanh of a piece is computed again on the way back instead of kept."""
    batch, heads, length, width = q.shape
    rows = max(1, max_numbers // max(1, batch * heads * k.shape[2] * width))
    if rows >= length:
        return naive(q, k, e)
    pieces = q.split(rows, dim=2)
    if not torch.is_grad_enabled():
        return torch.cat([naive(piece, k, e) for piece in pieces], dim=2)
    again = [checkpoint(naive, piece, k, e, use_reentrant=False, preserve_rng_state=False) for piece in pieces]
    return torch.cat(again, dim=2)
