"""The candidates of a step: the most probable token (greedy), the best continuations of a beam, or a sample; and a
top-k in which equal values have a fixed order.

B rows    W hypotheses each, now    K hypotheses each, from the next step on    C candidates    V vocabulary
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.config.search import Search

TOPK_BLOCK = 64  # numbers of which only the largest is compared at first


@dataclass(frozen=True)
class Candidates:
    """Candidates for the next step, best first; those that do not exist have sums of -inf."""

    sums: Tensor  # (B, C) log-probability with all tokens before
    logps: Tensor  # (B, C) of the new token alone
    ids: Tensor  # (B, C)
    parents: Tensor  # (B, C) which of the W


def pick_greedy(logps: Tensor, sums: Tensor) -> Candidates:
    """The most probable token. logps: (B, V), sums: (B, 1)."""
    values, ids = stable_topk(logps, 1)
    return Candidates(sums + values, values, ids, torch.zeros_like(ids))


def pick_beam(logps: Tensor, sums: Tensor, width: int) -> Candidates:
    """The 2K best continuations of a row: enough for K to run on though each of the W may end.

    logps: (B·W, V), sums: (B, W). Equal sums rank by parent, then by the token's probability, then by id.
    """
    rows, now = sums.shape
    values, ids = stable_topk(logps, 2 * width)  # (B·W, C) with C = min(2K, V)
    each = values.shape[1]
    before = sums[:, :, None]
    total = (before + values.view(rows, now, each)).masked_fill(before == -torch.inf, -torch.inf).flatten(1)  # (B, W·C)
    total, order = total.sort(dim=1, descending=True, stable=True)
    total, order = total[:, : 2 * width], order[:, : 2 * width]
    missing = (0, 2 * width - total.shape[1])
    values, ids = (part.reshape(rows, now * each).gather(1, order) for part in (values, ids))
    return Candidates(
        F.pad(total, missing, value=-torch.inf),
        F.pad(values, missing, value=-torch.inf),
        F.pad(ids, missing),
        F.pad(order // each, missing),
    )


def pick_sample(logps: Tensor, sums: Tensor, noise: Tensor, search: Search) -> Candidates:
    """A token drawn by inverting the distribution at noise (B, 1), in [0, 1). The log-probability reported is the
    model's own, before temperature and truncation. logps: (B, V), sums: (B, 1)."""
    probabilities, order = truncate_distribution(logps, search)  # (B, C)
    cumulative = probabilities.cumsum(1)
    index = (cumulative <= noise * cumulative[:, -1:]).sum(1, keepdim=True).clamp(max=cumulative.shape[1] - 1)
    ids = order.gather(1, index)
    top = logps.amax(1, keepdim=True)
    values = torch.where(top.isfinite(), logps.gather(1, ids), top)  # -inf: nothing to draw from; or NaN
    return Candidates(sums + values, values, ids, torch.zeros_like(ids))


def truncate_distribution(logps: Tensor, search: Search) -> tuple[Tensor, Tensor]:
    """Probabilities (B, C) at this temperature, 0 outside top-k and top-p, and the ids they belong to."""
    if search.top_k:
        logps, order = stable_topk(logps, search.top_k)
    elif search.top_p < 1:
        logps, order = logps.sort(dim=1, descending=True, stable=True)
    else:
        order = torch.arange(logps.shape[1], device=logps.device).expand_as(logps)
    scaled = (logps.double() - logps.amax(1, keepdim=True)) / search.temperature
    probabilities = scaled.softmax(1)
    if search.top_p < 1:
        outside = probabilities.cumsum(1) - probabilities >= search.top_p
        probabilities = probabilities.masked_fill(outside, 0.0)
    return probabilities, order


def stable_topk(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Values and indices (N, C) of the `count` largest in each row of (N, V), largest first, equal ones by lower index;
    at most V. NaN comes before all other values.

    torch.topk leaves it open which of several equal values it returns, and examines every number. Here most are only
    compared within their block: the C best of a row lie in the C blocks whose largest values are best.
    """
    size = scores.shape[1]
    count = min(count, size)
    if size < 4 * TOPK_BLOCK * count:
        return _sorted_topk(scores, count)
    in_blocks = size // TOPK_BLOCK * TOPK_BLOCK
    peaks = scores[:, :in_blocks].reshape(len(scores), -1, TOPK_BLOCK).amax(2)  # (N, blocks)
    index = torch.arange(size, device=scores.device)
    inside = (_topk_indices(peaks, count)[:, :, None] * TOPK_BLOCK + index[:TOPK_BLOCK]).flatten(1)  # (N, C · block)
    indices = torch.cat([inside, index[in_blocks:].expand(len(scores), -1)], dim=1)  # ascending, as _sorted_topk needs
    values, order = _sorted_topk(scores.gather(1, indices), count)
    return values, indices.gather(1, order)


def _sorted_topk(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    index = _topk_indices(scores, count)
    values, order = scores.gather(1, index).sort(dim=1, descending=True, stable=True)
    return values, index.gather(1, order)


def _topk_indices(scores: Tensor, count: int) -> Tensor:
    """Indices (N, C) of the largest, ascending."""
    if count == 1:
        return scores.argmax(1, keepdim=True)  # the first of equal ones
    values, index = scores.topk(count)
    smallest = values[:, -1:]
    indices = torch.arange(scores.shape[1], device=scores.device)
    # Those above the smallest are certain; of those equal to it, the lowest indices fill what is left.
    equal = torch.where(scores == smallest, indices, len(indices)).topk(count, largest=False).values  # (N, C) ascending
    above = (~(values <= smallest)).sum(1, keepdim=True)  # (N, 1)
    rank = indices[:count]
    fill = equal.gather(1, (rank - above).clamp(min=0))
    return torch.where(rank < above, index, fill).sort(1).values
