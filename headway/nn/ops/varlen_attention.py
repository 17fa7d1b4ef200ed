"""Varlen attention: all texts of a batch are packed into one row, and each query sees one interval of keys.

Most masks are of this form (causal, sliding window, one text among others, a row without its padding), and it lets a
kernel skip everything else. `naive_varlen` is the definition; the kernel in triton/varlen_attention.py equals it,
gradients included.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

MAX_HEAD_WIDTH = 128  # that the kernel supports


class KeyIntervals(NamedTuple):
    """int32, on the device. Query i sees the keys first[i] … last[i] - 1 of the packed row."""

    first: Tensor  # (queries,)
    last: Tensor
    earliest: Tensor  # (keys,) the queries that see key j lie in earliest[j] … latest[j] - 1
    latest: Tensor


def naive_varlen(q: Tensor, k: Tensor, v: Tensor, intervals: KeyIntervals, scale: float) -> Tensor:
    """q (N, H, D), k (M, G, D), v (M, G, E) -> (N, H, E)."""
    from headway.nn.ops.attention import naive

    j = torch.arange(len(k), device=k.device)
    mask = (j >= intervals.first[:, None]) & (j < intervals.last[:, None])  # (N, M)
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    return naive(q, k, v, mask, None, scale).output[0].transpose(0, 1)


def attend_varlen(
    q: Tensor, k: Tensor, v: Tensor, intervals: KeyIntervals, scale: float, dropout: float = 0.0
) -> Tensor:
    """The same by the Triton kernel."""
    seed = torch.randint(0, 2**31 - 1, (1,), dtype=torch.int32, device=q.device) if dropout else intervals.first[:1]
    output: Tensor = _attend(*map(_pack_heads, (q, k, v)), *intervals, seed, scale, dropout)[0]
    return output


def _pack_heads(x: Tensor) -> Tensor:
    """The heads of a token contiguous, as the kernel reads them; slices of a larger projection need no copy."""
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()


@torch.library.custom_op("headway::varlen_attention", mutates_args=())
def _attend(
    q: Tensor, k: Tensor, v: Tensor, first: Tensor, last: Tensor, earliest: Tensor, latest: Tensor, seed: Tensor,
    scale: float, dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    import triton

    from headway.nn.ops.triton import varlen_attention as kernels

    out = q.new_empty(q.shape[0], q.shape[1], v.shape[2])
    lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float32, device=q.device)
    sizes = _sizes(q, k, v, dropout)
    grid = (triton.cdiv(len(q), sizes["BLOCK_Q"]), q.shape[1])
    kernels.forward[grid](
        q, k, v, out, lse, first, last, seed,
        q.stride(0), k.stride(0), v.stride(0), out.stride(0), len(q), len(k), scale, dropout, **sizes,
    )  # fmt: skip
    return out, lse


@_attend.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    lse = q.new_empty(q.shape[1], q.shape[0], dtype=torch.float32)
    return q.new_empty(q.shape[0], q.shape[1], v.shape[2]), lse


@torch.library.custom_op("headway::varlen_attention_backward", mutates_args=())
def _backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, grad: Tensor, lse: Tensor, first: Tensor, last: Tensor,
    earliest: Tensor, latest: Tensor, seed: Tensor, scale: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    import triton

    from headway.nn.ops.triton import varlen_attention as kernels

    grad = _pack_heads(grad)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    delta, sizes = torch.empty_like(lse), _sizes(q, k, v, dropout)
    kernels.backward_queries[(triton.cdiv(len(q), sizes["BLOCK_Q"]), q.shape[1])](
        q, k, v, out, grad, lse, delta, dq, first, last, seed,
        q.stride(0), k.stride(0), v.stride(0), out.stride(0), grad.stride(0), len(q), len(k), scale, dropout, **sizes,
    )  # fmt: skip
    kernels.backward_keys[(triton.cdiv(len(k), sizes["BLOCK_K"]), k.shape[1])](
        q, k, v, grad, lse, delta, dk, dv, first, last, earliest, latest, seed,
        q.stride(0), k.stride(0), v.stride(0), grad.stride(0), len(q), len(k), scale, dropout, **sizes,
    )  # fmt: skip
    return dq, dk, dv


@_backward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *rest: object) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
    return dq, dk, dv


def _setup_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    q, k, v, *intervals_and_seed, scale, dropout = inputs
    ctx.save_for_backward(q, k, v, *output, *intervals_and_seed)
    ctx.scale, ctx.dropout = scale, dropout


def _autograd_backward(ctx, grad, _):  # type: ignore[no-untyped-def]
    q, k, v, out, lse, *intervals_and_seed = ctx.saved_tensors
    return *_backward(q, k, v, out, grad, lse, *intervals_and_seed, ctx.scale, ctx.dropout), *[None] * 7


_attend.register_autograd(_autograd_backward, setup_context=_setup_context)


def _sizes(q: Tensor, k: Tensor, v: Tensor, dropout: float) -> dict[str, Any]:
    d, e = q.shape[2], v.shape[2]
    widest = max(16, 1 << (max(d, e) - 1).bit_length())
    block = 64 if widest <= 64 else 32  # of queries; fewer keys, which suits short texts
    power = {name: max(16, 1 << (size - 1).bit_length()) for name, size in (("WIDTH", d), ("VALUES", e))}
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    blocks = {"BLOCK_Q": block, "BLOCK_K": 32, "DROPS": dropout > 0, "PRECISION": precision}
    return {"GROUP": q.shape[1] // k.shape[1], "D": d, "E": e, **power, **blocks}
