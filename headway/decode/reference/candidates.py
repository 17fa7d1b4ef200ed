"""Which tokens come next: the best of each line, the best of a beam, or a draw.

B rows    W hypotheses each, now    K hypotheses each, from the next step on    C candidates    V vocabulary


The largest values of each line and where they stand, equal ones by lower index.

topk leaves it open which of several equal values it returns, and takes every number into its hands. Here most are
only compared with their neighbours: the C best of a line lie in the C blocks whose largest values are best.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.config.search import Search


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


BLOCK = 64


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Values and indices (N, C) of the `count` largest in each line of (N, V), largest first; at most V. Values that
    are not numbers come before all others."""
    size = scores.shape[1]
    count = min(count, size)
    if size < 4 * BLOCK * count:
        return _ranked(scores, count)
    whole = size // BLOCK * BLOCK
    peaks = scores[:, :whole].reshape(len(scores), -1, BLOCK).amax(2)  # (N, blocks)
    index = torch.arange(size, device=scores.device)
    inside = (_highest(peaks, count)[:, :, None] * BLOCK + index[:BLOCK]).flatten(1)  # (N, C · BLOCK)
    places = torch.cat([inside, index[whole:].expand(len(scores), -1)], dim=1)  # rising, as _ranked needs it
    values, order = _ranked(scores.gather(1, places), count)
    return values, places.gather(1, order)


def _ranked(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    index = _highest(scores, count)
    values, order = scores.gather(1, index).sort(dim=1, descending=True, stable=True)
    return values, index.gather(1, order)


def _highest(scores: Tensor, count: int) -> Tensor:
    """Indices (N, C) of the largest, rising."""
    if count == 1:
        return scores.argmax(1, keepdim=True)  # the first of equal ones
    values, index = scores.topk(count)
    least = values[:, -1:]
    place = torch.arange(scores.shape[1], device=scores.device)
    # Those above the least are certain; of those equal to it, the lowest fill what is left.
    equal = torch.where(scores == least, place, len(place)).topk(count, largest=False).values  # (N, C) rising
    above = (~(values <= least)).sum(1, keepdim=True)  # (N, 1)
    rank = place[:count]
    fill = equal.gather(1, (rank - above).clamp(min=0))
    return torch.where(rank < above, index, fill).sort(1).values
