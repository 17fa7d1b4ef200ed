"""B-splines on evenly spaced knots: piecewise polynomials, each of which is nonzero over a few intervals only."""

import torch
from torch import Tensor


def spline_bases(x: Tensor, grid: int, order: int, low: float, high: float) -> Tensor:
    """The B-spline bases of each number: (…) -> (…, grid + order), by the Cox-de Boor recursion.

    [low, high) has `grid` intervals, and `order` more continue on either side. Within [low, high) the bases sum to 1;
    outside of the continued intervals all of them are 0."""
    step = (high - low) / grid
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    u = ((wide - low) / step + order)[..., None]  # in steps from the first knot, so that knot k lies at k
    knots = torch.arange(grid + 2 * order, device=x.device, dtype=wide.dtype)
    bases = ((knots <= u) & (u < knots + 1)).to(wide.dtype)  # degree 0: which interval
    for degree in range(1, order + 1):
        first = knots[:-degree]
        bases = ((u - first) * bases[..., :-1] + (first + degree + 1 - u) * bases[..., 1:]) / degree
    return bases.to(x.dtype)
