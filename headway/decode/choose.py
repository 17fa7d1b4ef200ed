"""Which tokens come next: the best of each line, the best of a beam, or a draw.

B rows    W hypotheses each, now    K hypotheses each, from the next step on    C candidates    V vocabulary
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.config.search import Search
from headway.decode.best import best


@dataclass(frozen=True)
class Picks:
    """Candidates for the next step, best first; those that do not exist have sums of -inf."""

    sums: Tensor  # (B, C) log-probability with all that came before
    logps: Tensor  # (B, C) of the new token alone
    ids: Tensor  # (B, C)
    parents: Tensor  # (B, C) which of the W


def greedy(logps: Tensor, sums: Tensor) -> Picks:
    """The most probable token. logps: (B, V), sums: (B, 1)."""
    values, ids = best(logps, 1)
    return Picks(sums + values, values, ids, torch.zeros_like(ids))


def beam(logps: Tensor, sums: Tensor, width: int) -> Picks:
    """The 2K best continuations of a row: enough for K to run on though each of the W may end.

    logps: (B·W, V), sums: (B, W). Equal sums rank by parent, then by the token's probability, then by id.
    """
    rows, now = sums.shape
    values, ids = best(logps, 2 * width)  # (B·W, C) with C = min(2K, V)
    each = values.shape[1]
    past = sums[:, :, None]
    total = (past + values.view(rows, now, each)).masked_fill(past == -torch.inf, -torch.inf).flatten(1)  # (B, W·C)
    total, order = total.sort(dim=1, descending=True, stable=True)
    total, order = total[:, : 2 * width], order[:, : 2 * width]
    missing = (0, 2 * width - total.shape[1])
    values, ids = (part.reshape(rows, now * each).gather(1, order) for part in (values, ids))
    return Picks(
        F.pad(total, missing, value=-torch.inf),
        F.pad(values, missing, value=-torch.inf),
        F.pad(ids, missing),
        F.pad(order // each, missing),
    )


def draw(logps: Tensor, sums: Tensor, noise: Tensor, search: Search) -> Picks:
    """A token drawn by inverting the distribution at noise (B, 1), in [0, 1). The log-probability reported is the
    model's own, before temperature and truncation. logps: (B, V), sums: (B, 1)."""
    shares, order = truncated(logps, search)  # (B, C)
    reach = shares.cumsum(1)
    place = (reach <= noise * reach[:, -1:]).sum(1, keepdim=True).clamp(max=reach.shape[1] - 1)
    ids = order.gather(1, place)
    top = logps.amax(1, keepdim=True)
    values = torch.where(top.isfinite(), logps.gather(1, ids), top)  # nothing to draw from, or not numbers
    return Picks(sums + values, values, ids, torch.zeros_like(ids))


def truncated(logps: Tensor, search: Search) -> tuple[Tensor, Tensor]:
    """Probabilities (B, C) at this temperature, 0 outside top-k and top-p, and the ids they belong to."""
    if search.top_k:
        logps, order = best(logps, search.top_k)
    elif search.top_p < 1:
        logps, order = logps.sort(dim=1, descending=True, stable=True)
    else:
        order = torch.arange(logps.shape[1], device=logps.device).expand_as(logps)
    heat = (logps.double() - logps.amax(1, keepdim=True)) / search.temperature
    shares = heat.softmax(1)
    if search.top_p < 1:
        shares = shares.masked_fill(shares.cumsum(1) - shares >= search.top_p, 0.0)
    return shares, order
