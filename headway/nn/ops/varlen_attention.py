"""Attention over spans: each query sees one stretch of keys, and all texts of a batch lie in one line.

That is what most masks are (a triangle, a window, a text among others, a row without its padding), and it lets a kernel
skip everything else. `naive_spans` is the definition; the kernel in kernels/spans.py equals it, gradients too.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

WIDEST = 128  # of a head, for the kernel


class Spans(NamedTuple):
    """int32, on the device. Query i sees the keys first[i] … last[i] - 1 of the line."""

    first: Tensor  # (queries,)
    last: Tensor
    earliest: Tensor  # (keys,) no query before it sees this key,
    latest: Tensor  # nor this one or any after it


def naive_spans(q: Tensor, k: Tensor, v: Tensor, spans: Spans, scale: float) -> Tensor:
    """q (N, H, D), k (M, G, D), v (M, G, E) -> (N, H, E)."""
    from headway.nn.ops.attention import naive

    j = torch.arange(len(k), device=k.device)
    mask = (j >= spans.first[:, None]) & (j < spans.last[:, None])  # (N, M)
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    return naive(q, k, v, mask, None, scale).output[0].transpose(0, 1)


def attend_spans(q: Tensor, k: Tensor, v: Tensor, spans: Spans, scale: float, dropout: float = 0.0) -> Tensor:
    """The same by a kernel, on a GPU."""
    seed = torch.randint(0, 2**31 - 1, (1,), dtype=torch.int32, device=q.device) if dropout else spans.first[:1]
    output: Tensor = _attend(*map(_lines, (q, k, v)), *spans, seed, scale, dropout)[0]
    return output


def _lines(x: Tensor) -> Tensor:
    """Heads side by side within a token, as the kernel reads them; views of one larger product may stay what they are."""
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()


@torch.library.custom_op("headway::attend_spans", mutates_args=())
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


@torch.library.custom_op("headway::attend_spans_backward", mutates_args=())
def _backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, grad: Tensor, lse: Tensor, first: Tensor, last: Tensor,
    earliest: Tensor, latest: Tensor, seed: Tensor, scale: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    import triton

    from headway.nn.ops.triton import varlen_attention as kernels

    grad = _lines(grad)
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


def _keep(ctx, inputs, output):  # type: ignore[no-untyped-def]
    q, k, v, *where, scale, dropout = inputs
    ctx.save_for_backward(q, k, v, *output, *where)
    ctx.scale, ctx.dropout = scale, dropout


def _gradients(ctx, grad, _):  # type: ignore[no-untyped-def]
    q, k, v, out, lse, *where = ctx.saved_tensors
    return *_backward(q, k, v, out, grad, lse, *where, ctx.scale, ctx.dropout), *[None] * 7


_attend.register_autograd(_gradients, setup_context=_keep)


def _sizes(q: Tensor, k: Tensor, v: Tensor, dropout: float) -> dict[str, Any]:
    d, e = q.shape[2], v.shape[2]
    wide = max(16, 1 << (max(d, e) - 1).bit_length())
    block = 64 if wide <= 64 else 32  # and half as many keys, which suits short texts
    power = {name: max(16, 1 << (size - 1).bit_length()) for name, size in (("WIDTH", d), ("VALUES", e))}
    exact = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    blocks = {"BLOCK_Q": block, "BLOCK_K": 32, "DROPS": dropout > 0, "PRECISION": exact}
    return {"GROUP": q.shape[1] // k.shape[1], "D": d, "E": e, **power, **blocks}
