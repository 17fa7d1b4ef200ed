"""Attention in parts, each of which sees some of the keys; merged they are one softmax over the keys of all parts, in
which a key that two parts see counts twice."""

from typing import NamedTuple

import torch
from torch import Tensor

from headway.nn.ops.retention import accumulator_dtype


class PartialSoftmax(NamedTuple):
    """Sums over exp(score - peak), in float32 at least."""

    output: Tensor  # (…, E) of values
    total: Tensor  # (…, 1)
    peak: Tensor  # (…, 1) the largest score, without a gradient; the lowest number where nothing is seen


def attend_partly(scores: Tensor, values: Tensor, allowed: Tensor) -> PartialSoftmax:
    """scores (…, T, S) and values (…, S, E); `allowed` broadcasts to the scores."""
    scores = scores.to(accumulator_dtype(scores)).masked_fill(~allowed, -torch.inf)
    # A finite peak where nothing is allowed, so that no gradient is NaN.
    peak = scores.detach().amax(-1, keepdim=True).clamp(min=lowest(scores))
    exponentials = (scores - peak).exp()
    output = (exponentials.to(values.dtype) @ values).to(scores.dtype)
    return PartialSoftmax(output, exponentials.sum(-1, keepdim=True), peak)


def merge_parts(parts: PartialSoftmax, dim: int) -> Tensor:
    """The output of all parts along `dim`; exactly 0 where none of them sees anything."""
    share = (parts.peak - parts.peak.amax(dim, keepdim=True)).exp()
    total = (share * parts.total).sum(dim)
    return (share * parts.output).sum(dim) / total.clamp(min=torch.finfo(total.dtype).tiny)


def lowest(x: Tensor) -> float:
    return torch.finfo(x.dtype).min
