"""The weighted average of RWKV-4 (WKV): every channel averages its own values over all tokens so far.

    o_t = Σ_{s ≤ t} p_ts v_s / Σ_{s ≤ t} p_ts      p_ts = exp(k_s - Σ_{s < i < t} decay_i),  p_tt = exp(bonus + k_t)

What precedes a token is summarised by two numbers a channel: the average of the values, and the logarithm of the sum
of their weights. Two such summaries combine into one, in any grouping, and no exponential can overflow. There are two
ways to compute all of them, equal up to rounding: token by token (`recurrent`, the specification), and the same tokens
of all chunks at once, then chunk by chunk (`chunkwise`): 3√T steps instead of T.

Shapes: k, v (B, T, d). decay (B or 1, T or 1, d), not negative. bonus (d). A token with k = NO_WEIGHT and decay = 0 has
no effect.
"""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from headway.nn.ops.retention import accumulator_dtype

Form = Literal["auto", "recurrent", "chunkwise"]

NO_WEIGHT = -1e30  # in place of -∞, of which differences are NaN


class WeightedAverage(NamedTuple):
    """Of all earlier tokens, for each channel; in float32 at least."""

    mean: Tensor  # (B, …, d) of their values
    log_weight: Tensor  # (B, …, d) logarithm of the sum of their weights


def combine(first: WeightedAverage, second: WeightedAverage) -> WeightedAverage:
    """The average over both."""
    share = torch.sigmoid(second.log_weight - first.log_weight)
    mean = torch.lerp(first.mean, second.mean, share)  # to the bit one of them where the other has no weight
    return WeightedAverage(mean, torch.logaddexp(first.log_weight, second.log_weight))


def recurrent(
    k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor, state: WeightedAverage
) -> tuple[Tensor, WeightedAverage]:
    """Each token is averaged with the past, and joins it after one more decay."""
    outputs = []
    for key, value, step in _by_token(k, v, decay):
        outputs.append(_read(state, key, value, bonus))
        state = combine(_faded(state, step), WeightedAverage(value, key))
    return torch.stack(outputs, 1), state


def chunkwise(
    k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor, state: WeightedAverage
) -> tuple[Tensor, WeightedAverage]:
    """√T chunks of √T tokens: first within all chunks at once, as if nothing preceded them, then from chunk to
    chunk."""
    length = k.shape[1]
    chunk = math.isqrt(length)
    cut = length - length % chunk
    k_in, v_in = (x[:, :cut].unflatten(1, (-1, chunk)) for x in (k, v))  # (B, N, C, d)
    steps = decay.expand(-1, length, -1)[:, :cut].unflatten(1, (-1, chunk))  # (B or 1, N, C, d)
    own, within = _nothing(k_in[:, :, 0]), []
    for key, value, step in _by_token(k_in, v_in, steps):
        within.append(own)
        own = combine(_faded(own, step), WeightedAverage(value, key))  # (B, N, d)
    faded = steps.cumsum(2)  # (B or 1, N, C, d)
    between = []
    for log_weight, mean, step in _by_token(own.log_weight, own.mean, faded[:, :, -1]):
        between.append(state)
        state = combine(_faded(state, step), WeightedAverage(mean, log_weight))  # (B, d)
    earlier = WeightedAverage(*(torch.stack(parts, 1)[:, :, None] for parts in zip(*between)))  # (B, N, 1, d)
    inside = WeightedAverage(*(torch.stack(parts, 2) for parts in zip(*within)))  # (B, N, C, d)
    output = _read(combine(_faded(earlier, faded - steps), inside), k_in, v_in, bonus).flatten(1, 2)
    if cut == length:
        return output, state
    rest = decay if decay.shape[1] == 1 else decay[:, cut:]
    last, state = recurrent(k[:, cut:], v[:, cut:], rest, bonus, state)
    return torch.cat([output, last], 1), state


def wkv(
    k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor, state: WeightedAverage | None = None, *, form: Form = "auto"
) -> tuple[Tensor, WeightedAverage]:
    """The outputs (B, T, d) in the dtype of v, and the new state; auto: by the number of tokens."""
    with torch.autocast(k.device.type, enabled=False):  # it would round the state
        wide = accumulator_dtype(v)
        run = recurrent if form == "recurrent" or (form == "auto" and k.shape[1] == 1) else chunkwise
        k, values, decay, bonus = (x.to(wide) for x in (k, v, decay, bonus))
        output, state = run(k, values, decay, bonus, _nothing(k[:, 0]) if state is None else state)
        return output.to(v.dtype), state


def wkv_weights(k: Tensor, decay: Tensor, bonus: Tensor, state: WeightedAverage | None = None) -> Tensor:
    """p_ts / Σ_s p_ts, the mean over all channels: (B, T, T). Rows sum to 1, less the share of earlier calls."""
    wide = accumulator_dtype(k)
    k, decay, bonus = (x.to(wide) for x in (k, decay, bonus))
    state = _nothing(k[:, 0]) if state is None else state
    faded = decay.expand(-1, k.shape[1], -1).cumsum(1)  # (B or 1, T, d), up to each token and its own
    rows = []
    for t in range(k.shape[1]):
        past = k[:, :t] - (faded[:, t - 1 : t] - faded[:, :t])  # (B, t, d)
        before = state.log_weight if t == 0 else state.log_weight - faded[:, t - 1]
        logits = torch.cat([before[:, None], past, (k[:, t] + bonus)[:, None]], 1)
        weights = logits.softmax(1).mean(2)[:, 1:]  # (B, t + 1)
        rows.append(torch.nn.functional.pad(weights, (0, k.shape[1] - t - 1)))
    return torch.stack(rows, 1)


def _by_token(k: Tensor, v: Tensor, decay: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """(B, …, T, d) -> (B, …, d) each. Not by indexing: the gradient of every index would be as large as all of x."""
    return zip(k.unbind(-2), v.unbind(-2), decay.expand(*decay.shape[:-2], *k.shape[-2:]).unbind(-2))


def _read(past: WeightedAverage, k: Tensor, v: Tensor, bonus: Tensor) -> Tensor:
    return combine(past, WeightedAverage(v, k + bonus)).mean


def _faded(state: WeightedAverage, decay: Tensor) -> WeightedAverage:
    return state._replace(log_weight=state.log_weight - decay)


def _nothing(like: Tensor) -> WeightedAverage:
    return WeightedAverage(torch.zeros_like(like), torch.full_like(like, NO_WEIGHT))
