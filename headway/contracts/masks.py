"""The fields of a mask say what its rule does: kernels, caches and packing believe them without looking."""

import torch
from torch import Tensor

from headway.contracts.results import require
from headway.nn.masks.masks import Mask

ROWS, HEADS, LENGTH = 2, 3, 40


def check_mask_fields(mask: Mask) -> None:
    axes = (torch.arange(ROWS)[:, None, None, None], torch.arange(HEADS)[:, None, None])
    q, k = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)
    answer = mask(*axes, q, k)
    require(answer.dtype == torch.bool, "a rule that gives bool tensors", answer.dtype)
    seen = answer.expand(ROWS, HEADS, LENGTH, LENGTH)  # (B, H, queries, keys)
    any_seen = seen.flatten(0, 1).any(0)
    if mask.hides_future:
        _require_none(any_seen & (k > q), "no later keys: hides_future is True")
    if mask.lookback is not None:
        _require_none(any_seen & (q - k >= mask.lookback), f"no keys beyond lookback = {mask.lookback}")
    if mask.broadcasts:
        require(bool((seen == seen[:1, :1]).all()), "one rule for all rows and heads: broadcasts is True", "several")
    if mask.stride > 1:
        _require_none(any_seen & ((q - k) % mask.stride != 0), f"only distances that {mask.stride} divides, by stride")
    if mask.interval is not None:
        first, last = (bound[:, None] for bound in mask.interval(torch.arange(LENGTH)))
        inside = (k >= first) & (k < last)
        _require_none((any_seen & ~inside) | (inside & ~seen.flatten(0, 1).all(0)), "exactly the keys of interval")
    for start in range(0, LENGTH, 8):
        ranges = mask.visible_ranges(start, start + 8, LENGTH)
        held = torch.zeros(LENGTH, dtype=torch.bool)
        for begin, end in ranges:
            held[begin:end] = True
        outside = any_seen.clone()
        outside[:start], outside[start + 8 :] = False, False
        _require_none(outside & ~held, f"only keys of key_ranges for the queries {start} to {start + 7}")


def check_rule_by_pairs(mask: Mask) -> None:
    """A rule is asked for one pair at a time by compiled kernels: a reduction inside it would show."""
    b, h = torch.tensor(1), torch.tensor(0)
    q, k = torch.arange(12)[:, None], torch.arange(12)
    together = mask(b, h, q, k).expand(12, 12)
    single = torch.tensor([[bool(mask(b, h, i, j)) for j in torch.arange(12)] for i in torch.arange(12)])
    _require_none(together != single, "the same answer for one pair as for a table of pairs")


def _require_none(wrong: Tensor, expected: str) -> None:
    found = wrong.nonzero().tolist()
    require(not found, expected, f"others, such as (query, key) = {tuple(found[0]) if found else ()}")
