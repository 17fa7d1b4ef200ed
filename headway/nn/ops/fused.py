"""Fused elementwise operations for eager training on a GPU: norm, dropout + add, relu + dropout, gradient of a bias.

PyTorch has all of them, but in several passes over memory, which is what they cost. A compiler would fuse them by
itself; these are for training steps that are not compiled, and save the minute that compiling takes. Each one equals
the plain form at its call site.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops.triton import HAS_TRITON

TILE_ELEMENTS = 4096  # of a matrix, held by one program
DROPOUT_BLOCK = TILE_ELEMENTS // 4  # elements of one program of the dropout kernels
MAX_PROGRAMS = 1024  # that share the rows of a matrix, where sums over all rows are needed


def unsupported(x: Tensor) -> str:
    """Why the fused kernels cannot run on x; "" where they can."""
    if not x.is_cuda:
        return "not on a GPU"
    if not torch.is_grad_enabled():
        return "no gradients wanted"
    if torch.compiler.is_compiling():
        return "torch.compile fuses by itself"
    if x.dtype == torch.float64:
        return "no float64 kernels"
    if not x.numel():
        return "empty"
    return "" if HAS_TRITON else "Triton is not installed"


class FusedNorm(torch.autograd.Function):
    """Layer norm with a bias, RMS norm without; the result has the dtype of x."""

    @staticmethod
    def forward(ctx, x, gain, bias, eps):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import norms

        rows = x.contiguous().view(-1, x.shape[-1])
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        mean, rate = torch.empty(2, len(rows), dtype=torch.float32, device=x.device)
        sizes = _norm_sizes(rows, bias is not None)
        grid = (-(-len(rows) // sizes["ROWS"]),)
        norms.forward[grid](rows, gain, gain if bias is None else bias, y, mean, rate, len(rows), eps, **sizes)
        ctx.save_for_backward(rows, gain, mean, rate)
        ctx.centred = bias is not None
        return y

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import norms

        rows, gain, mean, rate = ctx.saved_tensors
        sizes = _norm_sizes(rows, ctx.centred)
        programs = min(MAX_PROGRAMS, -(-len(rows) // sizes["ROWS"]))
        dx = torch.empty_like(rows)
        partial_sums = torch.empty(2, programs, rows.shape[1], device=rows.device)  # of the gain, of the bias
        grad = grad.contiguous()
        norms.backward[(programs,)](
            rows, gain, grad, mean, rate, dx, partial_sums[0], partial_sums[1], len(rows), **sizes
        )
        sums = partial_sums.sum(1).to(gain.dtype)
        return dx.view_as(grad), sums[0], sums[1] if ctx.centred else None, None


class FusedAddDropout(torch.autograd.Function):
    """stream + dropout(x)"""

    @staticmethod
    def forward(ctx, stream, x, p):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import dropout

        stream, x = stream.contiguous(), x.contiguous()
        out, seed = torch.empty_like(stream), _draw_seed(x)
        dropout.add[_grid(x)](stream, x, out, seed, x.numel(), p, BLOCK=DROPOUT_BLOCK)
        ctx.save_for_backward(seed)
        ctx.p, ctx.dtype = p, x.dtype
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import dropout

        grad = grad.contiguous()
        dx = torch.empty_like(grad, dtype=ctx.dtype)
        dropout.add_backward[_grid(grad)](grad, dx, *ctx.saved_tensors, grad.numel(), ctx.p, BLOCK=DROPOUT_BLOCK)
        return grad, dx, None


class FusedReluDropout(torch.autograd.Function):
    """dropout(relu(x)). The result alone says where gradients go, and the next layer saves that anyway."""

    @staticmethod
    def forward(ctx, x, p):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import dropout

        x = x.contiguous()
        y = torch.empty_like(x)
        dropout.relu[_grid(x)](x, y, _draw_seed(x), x.numel(), p, BLOCK=DROPOUT_BLOCK)
        ctx.save_for_backward(y)
        ctx.p = p
        return y

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import dropout

        (y,), grad = ctx.saved_tensors, grad.contiguous()
        dx = torch.empty_like(grad)
        dropout.relu_backward[_grid(grad)](y, grad, dx, grad.numel(), ctx.p, BLOCK=DROPOUT_BLOCK)
        return dx, None


class FusedBiasLinear(torch.autograd.Function):
    """xWᵀ + b, all of one dtype. PyTorch is slow at summing the gradient of a bias."""

    @staticmethod
    def forward(ctx, x, weight, bias):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, weight = ctx.saved_tensors
        rows = grad.reshape(-1, grad.shape[-1]).contiguous()
        dx = (rows @ weight).view_as(x) if ctx.needs_input_grad[0] else None
        return dx, rows.t() @ x.reshape(-1, x.shape[-1]), sum_columns(rows).to(weight.dtype)


def sum_columns(x: Tensor) -> Tensor:
    """(rows, d) -> (d,), in float32."""
    from headway.nn.ops.triton import norms

    rows, width = x.shape
    tile_columns, tile_rows = 128, 32
    tiles = -(-width // tile_columns)
    parts = max(1, min(-(-rows // tile_rows), MAX_PROGRAMS // tiles))
    sums = torch.empty(parts, width, device=x.device)
    norms.column_sums[(tiles, parts)](x, sums, rows, width, ROWS=tile_rows, COLUMNS=tile_columns)
    return sums.sum(0)


def _norm_sizes(rows: Tensor, centred: bool) -> dict[str, int | bool]:
    width = 1 << (rows.shape[1] - 1).bit_length()
    return {"CENTRED": centred, "D": rows.shape[1], "WIDTH": width, "ROWS": max(1, TILE_ELEMENTS // 2 // width)}


def _draw_seed(x: Tensor) -> Tensor:
    return torch.randint(-(2**31), 2**31 - 1, (1,), dtype=torch.int32, device=x.device)


def _grid(x: Tensor) -> tuple[int]:
    return (-(-x.numel() // DROPOUT_BLOCK),)
