"""Token shift: every token beside the one before it, which RWKV mixes into the inputs of its projections."""

import torch
from torch import Tensor

from headway.nn.sequence import TokenPositions


def shift_tokens(x: Tensor, tokens: TokenPositions, before: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The token before each of x (B, T, d), 0 before the first one of a text; and the last token of each row (B, d),
    which the next call takes as `before`. Padding is no token."""
    before = torch.zeros_like(x[:, 0]) if before is None else before.to(x.dtype)
    known = torch.cat([before[:, None], x], 1)  # (B, 1 + T, d)
    if tokens.valid is None:
        previous, last = known[:, :-1], known[:, -1]
    else:
        # The index in `known` of the last real token up to each place.
        own = torch.arange(1, x.shape[1] + 1, device=x.device)
        latest = torch.where(tokens.valid, own, 0).cummax(1).values  # (B, T)
        rows = torch.arange(len(x), device=x.device)
        previous = known[rows[:, None], torch.cat([torch.zeros_like(latest[:, :1]), latest[:, :-1]], 1)]
        last = known[rows, latest[:, -1]]
    if tokens.texts is not None:
        previous = previous.masked_fill((tokens.positions == 0)[..., None], 0.0)
    return previous, last


def mix_previous(x: Tensor, previous: Tensor, share: Tensor) -> Tensor:
    """x + share · (previous - x), with a share of the previous token for each channel."""
    return x + (previous - x) * share.to(x.dtype)


def initial_shares(width: int, exponent: float) -> Tensor:
    """From 1 in the first channel to almost 0 in the last; the larger the exponent, the more of the previous token."""
    return 1 - (torch.arange(width) / width) ** exponent
