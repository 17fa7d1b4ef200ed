"""Which tokens come next: the best of each line, the best of a beam, or a draw.

B rows    W hypotheses each, now    K hypotheses each, from the next step on    C candidates    V vocabulary
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.decode.settings import Search


@dataclass(frozen=True)
class Picks:
    """Candidates for the next step, best first; those that do not exist have sums of -inf."""

    sums: Tensor  # (B, C) log-probability with all that came before
    logps: Tensor  # (B, C) of the new token alone
    ids: Tensor  # (B, C)
    parents: Tensor  # (B, C) which of the W
    tied: Tensor  # (B,) equal values left the choice open: ask again with `exact`


def best(scores: Tensor, count: int, *, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` largest of each line (N, V), largest first, equal ones by lower index: values, indices, tied.

    topk returns any of several equal values. That matters only where the last one taken equals the first one
    left, which `tied` tells; `exact` settles it with a second pass over those lines.
    """
    size = scores.shape[1]
    count = min(count, size)
    values, index = scores.topk(min(count + 1, size))
    last, left = values[:, count - 1], values[:, -1]
    tied = (last == left) & (left > -torch.inf) if count < size else torch.zeros_like(last, dtype=torch.bool)
    values, index = values[:, :count], index[:, :count]
    if exact:
        lines = tied.nonzero()[:, 0]
        index[lines] = _settle(scores[lines], values[lines], index[lines])
    index, order = index.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, index.gather(1, order), tied


def _settle(scores: Tensor, values: Tensor, index: Tensor) -> Tensor:
    """index (N, C) of the C largest, with the lowest possible ones for those that equal the smallest."""
    size, count = scores.shape[1], values.shape[1]
    place = torch.arange(size, device=scores.device)
    equal = scores == values[:, -1:]  # (N, V)
    lowest = -torch.where(equal, -place, -size).topk(count).values  # (N, C) indices of equal ones, rising
    above = (values > values[:, -1:]).sum(1, keepdim=True)  # (N, 1)
    fill = lowest.gather(1, (place[:count] - above).clamp(min=0))
    return torch.where(place[:count] < above, index, fill)


def greedy(logps: Tensor, sums: Tensor) -> Picks:
    """The most probable token. logps: (B, V), sums: (B, 1)."""
    values, ids = logps.max(dim=1, keepdim=True)  # the first of equal ones
    nothing = torch.zeros_like(ids)
    return Picks(sums + values, values, ids, nothing, nothing[:, 0] > 0)


def beam(logps: Tensor, sums: Tensor, width: int, *, exact: bool) -> Picks:
    """The 2K best continuations of a row: enough for K to run on though each of the W may end.

    logps: (B·W, V), sums: (B, W). Equal sums rank by parent, then by the token's probability, then by id.
    """
    rows, now = sums.shape
    values, ids, tied = best(logps, 2 * width, exact=exact)  # (B·W, C) with C = min(2K, V)
    each = values.shape[1]
    total = (sums[:, :, None] + values.view(rows, now, each)).flatten(1)  # (B, W·C)
    total, order = total.sort(dim=1, descending=True, stable=True)
    total, order = total[:, : 2 * width], order[:, : 2 * width]
    missing = (0, 2 * width - total.shape[1])
    values, ids = (part.reshape(rows, now * each).gather(1, order) for part in (values, ids))
    return Picks(
        F.pad(total, missing, value=-torch.inf),
        F.pad(values, missing, value=-torch.inf),
        F.pad(ids, missing),
        F.pad(order // each, missing),
        tied.view(rows, now).any(1),
    )


def draw(logps: Tensor, sums: Tensor, noise: Tensor, search: Search, *, exact: bool) -> Picks:
    """A token drawn by inverting the distribution at noise (B, 1), in [0, 1). The log-probability reported is the
    model's own, before temperature and truncation. logps: (B, V), sums: (B, 1)."""
    shares, order, tied = truncated(logps, search, exact=exact)  # (B, C)
    reach = shares.cumsum(1)
    place = (reach <= noise * reach[:, -1:]).sum(1, keepdim=True).clamp(max=reach.shape[1] - 1)
    ids = order.gather(1, place)
    top = logps.amax(1, keepdim=True)
    values = torch.where(top.isfinite(), logps.gather(1, ids), top)  # nothing to draw from, or not numbers
    return Picks(sums + values, values, ids, torch.zeros_like(ids), tied)


def truncated(logps: Tensor, search: Search, *, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities (B, C) at this temperature, 0 outside top-k and top-p, the ids they belong to, and tied."""
    tied = torch.zeros(logps.shape[0], dtype=torch.bool, device=logps.device)
    if search.top_k:
        logps, order, tied = best(logps, search.top_k, exact=exact)
    elif search.top_p < 1:
        logps, order = logps.sort(dim=1, descending=True, stable=True)
    else:
        order = torch.arange(logps.shape[1], device=logps.device).expand_as(logps)
    heat = (logps.double() - logps.amax(1, keepdim=True)) / search.temperature
    shares = heat.softmax(1)
    if search.top_p < 1:
        shares = shares.masked_fill(shares.cumsum(1) - shares >= search.top_p, 0.0)
    return shares, order, tied
