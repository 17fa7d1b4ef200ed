"""The one retention function, in three forms. Attention without a softmax, in which the past fades step by step.

    o_t = Σ_{s ≤ t} exp(c_t - c_s) (q_t · k_s) v_s        c = cumulative sum of log γ, the share that each step keeps

A sum that only fades can be carried on as one matrix a head, so there are three ways to compute it, equal up to
rounding: token by token (`recurrent`, the specification), all pairs at once (`parallel`), pairs within chunks and a
matrix between them (`chunkwise`).

Shapes: q, k (B, H, T, D), v (B, H, T, E). log_decay (B or 1, H, T), or (1, H, 1) where all steps are alike. total
(B, H, D, E): what is left of everything earlier; None: nothing. A token with k = 0 and log_decay = 0 is not there.
"""

import functools
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Form = Literal["auto", "parallel", "recurrent", "chunkwise"]
Retained = tuple[Tensor, Tensor]  # the output (B, H, T, E), and the new total, in float32 at least

CHUNK = 256  # tokens
LONG = 2048  # tokens from which on a GPU takes the chunks compiled: half the time, and seconds to compile each length
TOGETHER = 64  # chunks whose totals one matrix joins: it grows with their square


def recurrent(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, total: Tensor | None = None) -> Retained:
    """total = γ_t · total + k_tᵀ v_t;  o_t = q_t · total"""
    dtype = kept_dtype(q)
    gamma = log_decay.exp().to(dtype).expand(-1, -1, q.shape[2])[..., None, None]  # (B or 1, H, T, 1, 1)
    total = q.new_zeros(*k.shape[:2], k.shape[3], v.shape[3], dtype=dtype) if total is None else total
    outputs = []
    for t in range(q.shape[2]):
        total = gamma[:, :, t] * total + k[:, :, t, :, None].to(dtype) * v[:, :, t, None, :].to(dtype)
        outputs.append(q[:, :, t, None].to(dtype) @ total)  # (B, H, 1, E)
    return torch.cat(outputs, 2).to(q.dtype), total


def parallel(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, total: Tensor | None = None) -> Retained:
    """Every token with every earlier one: quadratic, and the quickest for short texts."""
    past = log_decay.double().expand(-1, -1, q.shape[2]).cumsum(-1)  # (B or 1, H, T)
    output = scores(q, k, log_decay) @ v
    left = (_times(k, past[..., -1:] - past).mT @ v).to(kept_dtype(q))
    if total is not None:
        output = output + _times(q, past) @ total.to(q.dtype)
        left = left + _times(total, past[..., -1:])
    return output, left


def chunkwise(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, total: Tensor | None = None, chunk: int = CHUNK
) -> Retained:
    """Pairs within each chunk, all chunks at once, and for what came before a chunk the total: linear."""
    length, rest = q.shape[2], q.shape[2] % chunk
    if length <= chunk:
        return parallel(q, k, v, log_decay, total)
    if rest:
        whole, alike = length - rest, log_decay.shape[2] == 1
        early, late = (log_decay, log_decay) if alike else (log_decay[:, :, :whole], log_decay[:, :, whole:])
        first, total = chunkwise(q[:, :, :whole], k[:, :, :whole], v[:, :, :whole], early, total, chunk)
        last, total = parallel(q[:, :, whole:], k[:, :, whole:], v[:, :, whole:], late, total)
        return torch.cat([first, last], 2), total
    q, k, v = (x.reshape(*x.shape[:2], -1, chunk, x.shape[3]) for x in (q, k, v))  # copies once what is not in order
    log_decay = log_decay.expand(-1, -1, chunk if log_decay.shape[2] == 1 else length)
    steps = log_decay.reshape(*log_decay.shape[:2], -1, chunk)
    past = steps.double().cumsum(-1)  # (B or 1, H, N or 1, C), counted from the start of each chunk
    added = _times(k, past[..., -1:] - past).mT @ v  # (B, H, N, D, E)
    before, total = _between(added, past[..., -1].expand(-1, -1, length // chunk), total)
    output = scores(q, k, steps) @ v + _times(q, past) @ before  # (B, H, N, C, E)
    return output.flatten(2, 3), total


def _between(added: Tensor, log_decay: Tensor, total: Tensor | None) -> Retained:
    """What each chunk added (B, H, N, D, E) and how much it let fade (B or 1, H, N), as what is left before each of
    them and after the last. A recurrence again, over chunks instead of tokens: solved by small triangular matrices,
    in the type of what was added. Each sum is taken at once, so rounding does not pile up from chunk to chunk."""
    parts = []
    for new, logs in zip(torch.split(added, TOGETHER, 2), torch.split(log_decay, TOGETHER, 2)):
        faded = fading(F.pad(logs, (1, 0)), added.dtype)  # (B or 1, H, 1 + n, 1 + n), the old total first
        left = (faded[..., 1:] @ new.flatten(3)).view(*new.shape[:2], -1, *new.shape[3:])
        left = left if total is None else left + faded[..., :1, None] * total[:, :, None].to(left.dtype)
        parts.append(left[:, :, :-1])
        total = left[:, :, -1].to(kept_dtype(left), copy=True)  # a view would keep all of it in memory
    assert total is not None
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2), total


def retain(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, total: Tensor | None = None, *, form: Form = "auto",
    chunk: int = CHUNK,
) -> Retained:  # fmt: skip
    """By the form that is named; auto: by the number of tokens."""
    with torch.autocast(q.device.type, enabled=False):  # it would make totals as rough as what they sum up
        if form == "recurrent" or (form == "auto" and q.shape[2] == 1):
            return recurrent(q, k, v, log_decay, total)
        if form == "parallel":
            return parallel(q, k, v, log_decay, total)
        # Inductor of torch 2.11 fails on decays that differ from token to token ("Unexpected tiling").
        compiled = q.is_cuda and q.shape[2] >= LONG and log_decay.shape[2] == 1
        run = _compiled_chunkwise() if compiled else chunkwise
        return run(q, k, v, log_decay, total, chunk)


@functools.cache
def _compiled_chunkwise() -> Callable[..., Retained]:
    return torch.compile(chunkwise, dynamic=False)


def scores(q: Tensor, k: Tensor, log_decay: Tensor) -> Tensor:
    """(q_t · k_s) exp(c_t - c_s) for s ≤ t, else 0: what each token hears of each, with either sign. (…, T, T)"""
    return q @ k.mT * fading(log_decay.expand(*log_decay.shape[:-1], q.shape[-2]), q.dtype)


def fading(log_decay: Tensor, dtype: torch.dtype) -> Tensor:
    """exp(c_t - c_s) for s ≤ t, else 0: (…, T) -> (…, T, T). Counted in a wider type than `dtype`, where there is one:
    far from the start a difference of large sums says how near two tokens are."""
    past = log_decay.double().cumsum(-1).to(torch.float32 if dtype.itemsize < 4 else torch.float64)
    later = torch.ones(*past.shape[-1:] * 2, dtype=torch.bool, device=past.device).triu(1)
    return (past[..., :, None] - past[..., None, :]).masked_fill(later, -torch.inf).exp().to(dtype)


def fixed_decay(heads: int, device: torch.device | None = None) -> Tensor:
    """log γ with γ_h = 1 - 2^(-5-h), for h = 0, 1 …: (1, H, 1). Made where it is needed: as a buffer, a model in
    bfloat16 would round it."""
    return torch.log1p(-torch.exp2(-5.0 - torch.arange(heads, dtype=torch.float64, device=device)))[None, :, None]


def _times(x: Tensor, log_decay: Tensor) -> Tensor:
    return x * log_decay.exp().to(x.dtype)[..., None]


def kept_dtype(x: Tensor) -> torch.dtype:
    """Totals sum up many small things: in bfloat16 the slow heads would stand still."""
    return torch.promote_types(x.dtype, torch.float32)
