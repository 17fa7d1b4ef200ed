"""Retention: attention without a softmax, in which earlier tokens decay step by step. One function in three forms.

    o_t = Σ_{s ≤ t} exp(c_t - c_s) (q_t · k_s) v_s        c = cumulative sum of log γ, γ the decay of each step

The decaying sum can be carried on as one matrix per head, so there are three ways to compute it, equal up to rounding:
token by token (`recurrent`, the specification), all pairs at once (`parallel`), and pairs within chunks with a matrix
between them (`chunkwise`).

Shapes: q, k (B, H, T, D), v (B, H, T, E). log_decay (B or 1, H, T), or (1, H, 1) if the same for all steps. total
(B, H, D, E): the decayed sum over all earlier tokens; None: there are none. A token with k = 0 and log_decay = 0 has no
effect.
"""

import functools
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Form = Literal["auto", "parallel", "recurrent", "chunkwise"]
RetentionResult = tuple[Tensor, Tensor]  # the output (B, H, T, E), and the new total, in float32 at least

CHUNK_TOKENS = 256  # tokens
MIN_COMPILED_TOKENS = 2048  # from which `chunkwise` is compiled on a GPU: half the time, seconds to compile a length
CHUNKS_PER_MATRIX = 64  # chunks whose totals one matrix combines: it grows with their square


def recurrent(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, total: Tensor | None = None) -> RetentionResult:
    """total = γ_t · total + k_tᵀ v_t;  o_t = q_t · total"""
    dtype = accumulator_dtype(q)
    gamma = log_decay.exp().to(dtype).expand(-1, -1, q.shape[2])[..., None, None]  # (B or 1, H, T, 1, 1)
    total = q.new_zeros(*k.shape[:2], k.shape[3], v.shape[3], dtype=dtype) if total is None else total
    outputs = []
    for t in range(q.shape[2]):
        total = gamma[:, :, t] * total + k[:, :, t, :, None].to(dtype) * v[:, :, t, None, :].to(dtype)
        outputs.append(q[:, :, t, None].to(dtype) @ total)  # (B, H, 1, E)
    return torch.cat(outputs, 2).to(q.dtype), total


def parallel(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, total: Tensor | None = None) -> RetentionResult:
    """Every token with every earlier one: quadratic, and the fastest form for short texts."""
    cumulative = log_decay.double().expand(-1, -1, q.shape[2]).cumsum(-1)  # (B or 1, H, T)
    output = retention_scores(q, k, log_decay) @ v
    new_total = (_apply_decay(k, cumulative[..., -1:] - cumulative).mT @ v).to(accumulator_dtype(q))
    if total is not None:
        output = output + _apply_decay(q, cumulative) @ total.to(q.dtype)
        new_total = new_total + _apply_decay(total, cumulative[..., -1:])
    return output, new_total


def chunkwise(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, total: Tensor | None = None, chunk: int = CHUNK_TOKENS
) -> RetentionResult:
    """Pairs within each chunk, all chunks at once, and the total for what precedes a chunk: linear."""
    length, rest = q.shape[2], q.shape[2] % chunk
    if length <= chunk:
        return parallel(q, k, v, log_decay, total)
    if rest:
        cut = length - rest  # a multiple of chunk
        constant = log_decay.shape[2] == 1
        early, late = (log_decay, log_decay) if constant else (log_decay[:, :, :cut], log_decay[:, :, cut:])
        first, total = chunkwise(q[:, :, :cut], k[:, :, :cut], v[:, :, :cut], early, total, chunk)
        last, total = parallel(q[:, :, cut:], k[:, :, cut:], v[:, :, cut:], late, total)
        return torch.cat([first, last], 2), total
    q, k, v = (x.reshape(*x.shape[:2], -1, chunk, x.shape[3]) for x in (q, k, v))  # copies what is not contiguous
    log_decay = log_decay.expand(-1, -1, chunk if log_decay.shape[2] == 1 else length)
    steps = log_decay.reshape(*log_decay.shape[:2], -1, chunk)
    cumulative = steps.double().cumsum(-1)  # (B or 1, H, N or 1, C), from the start of each chunk
    added = _apply_decay(k, cumulative[..., -1:] - cumulative).mT @ v  # (B, H, N, D, E)
    before, total = _carry_between_chunks(added, cumulative[..., -1].expand(-1, -1, length // chunk), total)
    output = retention_scores(q, k, steps) @ v + _apply_decay(q, cumulative) @ before  # (B, H, N, C, E)
    return output.flatten(2, 3), total


def _carry_between_chunks(added: Tensor, log_decay: Tensor, total: Tensor | None) -> RetentionResult:
    """From what each chunk added (B, H, N, D, E) and its decay (B or 1, H, N) to the totals before each chunk and after
    the last. The same recurrence, over chunks instead of tokens: solved by small triangular matrices, in the dtype of
    `added`. Each total is one sum, so rounding errors do not accumulate from chunk to chunk."""
    parts = []
    for new, logs in zip(torch.split(added, CHUNKS_PER_MATRIX, 2), torch.split(log_decay, CHUNKS_PER_MATRIX, 2)):
        decay = decay_matrix(F.pad(logs, (1, 0)), added.dtype)  # (B or 1, H, 1 + n, 1 + n), the old total first
        totals = (decay[..., 1:] @ new.flatten(3)).view(*new.shape[:2], -1, *new.shape[3:])
        totals = totals if total is None else totals + decay[..., :1, None] * total[:, :, None].to(totals.dtype)
        parts.append(totals[:, :, :-1])
        total = totals[:, :, -1].to(accumulator_dtype(totals), copy=True)  # a view would keep all of it in memory
    assert total is not None
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2), total


def retain(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, total: Tensor | None = None, *, form: Form = "auto",
    chunk: int = CHUNK_TOKENS,
) -> RetentionResult:  # fmt: skip
    """In the given form; auto: by the number of tokens."""
    with torch.autocast(q.device.type, enabled=False):  # it would round the totals
        if form == "recurrent" or (form == "auto" and q.shape[2] == 1):
            return recurrent(q, k, v, log_decay, total)
        if form == "parallel":
            return parallel(q, k, v, log_decay, total)
        # Inductor of torch 2.11 fails on decays that depend on the token ("Unexpected tiling").
        compiled = q.is_cuda and q.shape[2] >= MIN_COMPILED_TOKENS and log_decay.shape[2] == 1
        run = _compiled_chunkwise() if compiled else chunkwise
        return run(q, k, v, log_decay, total, chunk)


def count_flops(length: int, d_k: int, d_v: int, form: Form, chunk: int) -> int:
    """Of the matrix products of `retain` over this many tokens, for one head."""
    pair, state = d_k + d_v, d_k * d_v
    if form == "recurrent" or (form == "auto" and length == 1):
        return 2 * length * state
    if form == "parallel" or length <= chunk:
        return 2 * length * (length * pair + state)
    chunks, rest = divmod(length, chunk)
    groups = [min(CHUNKS_PER_MATRIX, chunks - first) for first in range(0, chunks, CHUNKS_PER_MATRIX)]
    between = (length - rest + sum(n * (n + 1) for n in groups)) * state if chunks > 1 else 0
    within = (length - rest) * (chunk * pair + state) + rest * (rest * pair + 2 * state)
    return 2 * (within + between)


@functools.cache
def _compiled_chunkwise() -> Callable[..., RetentionResult]:
    return torch.compile(chunkwise, dynamic=False)


def retention_scores(q: Tensor, k: Tensor, log_decay: Tensor) -> Tensor:
    """(q_t · k_s) exp(c_t - c_s) for s ≤ t, else 0: the counterpart of attention weights, of either sign. (…, T, T)"""
    return q @ k.mT * decay_matrix(log_decay.expand(*log_decay.shape[:-1], q.shape[-2]), q.dtype)


def decay_matrix(log_decay: Tensor, dtype: torch.dtype) -> Tensor:
    """exp(c_t - c_s) for s ≤ t, else 0: (…, T) -> (…, T, T). In a wider dtype than `dtype`, where there is one: far
    from the start this is a small difference of large sums."""
    cumulative = log_decay.double().cumsum(-1).to(torch.float32 if dtype.itemsize < 4 else torch.float64)
    future = torch.ones(*cumulative.shape[-1:] * 2, dtype=torch.bool, device=cumulative.device).triu(1)
    return (cumulative[..., :, None] - cumulative[..., None, :]).masked_fill(future, -torch.inf).exp().to(dtype)


def fixed_log_decay(heads: int, device: torch.device | None = None) -> Tensor:
    """log γ with γ_h = 1 - 2^(-5-h), for h = 0, 1 …: (1, H, 1). Not a buffer, which a model in bfloat16 would
    round."""
    return torch.log1p(-torch.exp2(-5.0 - torch.arange(heads, dtype=torch.float64, device=device)))[None, :, None]


def _apply_decay(x: Tensor, log_decay: Tensor) -> Tensor:
    return x * log_decay.exp().to(x.dtype)[..., None]


def accumulator_dtype(x: Tensor) -> torch.dtype:
    """Of totals, which sum many small terms: in bfloat16 the slowly decaying heads would stop changing."""
    return torch.promote_types(x.dtype, torch.float32)
