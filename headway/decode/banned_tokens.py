"""Tokens that may not come next (suppressed ids, early ends, repeated n-grams, all but a forced end): log-probabilities
(N, V) set to -inf in place. What an output must contain is in constraints.py."""

import torch
from torch import Tensor


def ban_ids(logps: Tensor, ids: Tensor) -> None:
    """ids (M,) are never produced."""
    logps.index_fill_(1, ids, -torch.inf)


def ban_end(logps: Tensor, end: int, early: Tensor) -> None:
    """Hypotheses that are too short, early (N,), may not end."""
    logps[:, end].masked_fill_(early, -torch.inf)


def ban_repeats(logps: Tensor, history: Tensor, size: int) -> None:
    """No n-gram of this size may occur twice in a hypothesis. history: (N, L), -1 where there is no token yet."""
    length = history.shape[1]
    if length < size:
        return
    grams = history.unfold(1, size, 1)  # (N, L - size + 1, size)
    recent = history[:, None, length - size + 1 :]  # (N, 1, size - 1)
    last = grams[..., -1]  # (N, L - size + 1)
    repeats = (grams[..., :-1] == recent).all(-1) & (last >= 0)
    # A minimum with +inf changes nothing, so that no index has to be looked up on the host.
    bound = torch.where(repeats, -torch.inf, torch.inf).to(logps.dtype)
    logps.scatter_reduce_(1, last.clamp(min=0), bound, "amin")


def force_end(logps: Tensor, end: int, last: Tensor) -> None:
    """Hypotheses at their last step, last (N,), end there, and that is certain."""
    logps.masked_fill_(last[:, None], -torch.inf)
    logps[:, end].masked_fill_(last, 0.0)


def renormalise(logps: Tensor) -> None:
    """The probabilities of what is not banned sum to 1. Where everything is, nothing changes."""
    total = logps.logsumexp(1, keepdim=True)
    logps -= total.masked_fill(total == -torch.inf, 0.0)
