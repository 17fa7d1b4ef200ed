"""Linear attention: attention whose weights are products of features of queries and keys (Katharopoulos 2020).

    w_ts = φ(q_t) · φ(k_s) / Σ_r φ(q_t) · φ(k_r)          o_t = Σ_s w_ts v_s

With features that are not negative, these are weights as of a softmax, but the sums over s can be made before a query
is known: Σ φ(k_s)ᵀ [v_s, 1] is one matrix per head, of which the last column is the divisor. Over all keys it is one
product; over the past it is a retention that does not decay.

Shapes: q (B, H, T, F), k (B, H, S, F), both features; v (B, H, S, E); total (B, H, F, E + 1). A key of zeros has no
effect.
"""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops.retention import CHUNK_TOKENS, retain

FeatureMap = Literal["elu", "relu", "softmax"]

FEATURE_MAPS: dict[FeatureMap, Callable[[Tensor], Tensor]] = {
    "elu": lambda x: F.elu(x) + 1,
    "relu": F.relu,
    "softmax": lambda x: x.softmax(-1),
}


def linear_weights(q: Tensor, k: Tensor, total: Tensor | None = None, *, causal: bool, eps: float = 0.0) -> Tensor:
    """Of all pairs, explicitly: the specification. (B, H, T, S). Where there is a total of earlier keys, their weights
    are what is missing to 1."""
    scores = q @ k.mT
    scores = scores.tril() if causal else scores
    before = 0 if total is None else q @ total[..., -1:]
    return _divide(torch.cat([scores, scores.sum(-1, keepdim=True) + before], -1), eps)


def attend_linearly(q: Tensor, k: Tensor, v: Tensor, *, eps: float = 0.0) -> tuple[Tensor, Tensor]:
    """Every query with every key: the output (B, H, T, E), and the total of the keys."""
    total = k.mT @ _append_ones(v)
    return read_total(q, total, eps), total


def attend_linearly_to_past(
    q: Tensor, k: Tensor, v: Tensor, total: Tensor | None = None, *, eps: float = 0.0, chunk: int = CHUNK_TOKENS
) -> tuple[Tensor, Tensor]:
    """Every query with the keys up to its own, and with those of an earlier total: the output, and the new total."""
    no_decay = torch.zeros(1, 1, 1, device=q.device)
    output, total = retain(q, k, _append_ones(v), no_decay, total, chunk=chunk)
    return _divide(output, eps), total


def read_total(q: Tensor, total: Tensor, eps: float = 0.0) -> Tensor:
    """What queries find in the total of some keys."""
    return _divide(q @ total, eps)


def _append_ones(v: Tensor) -> Tensor:
    return torch.cat([v, torch.ones_like(v[..., :1])], -1)


def _divide(sums: Tensor, eps: float) -> Tensor:
    """By the last column. A query that sees no key gets 0, and so does one of which nothing but rounding is left: the
    gradient of a division by it would not be finite."""
    divisor = sums[..., -1:] + eps
    return sums[..., :-1] / torch.where(divisor > torch.finfo(divisor.dtype).tiny * 1e8, divisor, 1)
