"""The largest values of each line and where they stand, equal ones by lower index.

topk leaves it open which of several equal values it returns, and takes every number into its hands. Here most are
only compared with their neighbours: the C best of a line lie in the C blocks whose largest values are best.
"""

import torch
from torch import Tensor

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
