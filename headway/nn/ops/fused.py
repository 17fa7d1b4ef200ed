"""What a layer does between its products, each in one kernel, for training on a GPU without a compiler.

Norms, dropout with the sum or the relu beside it, and the gradient of a bias: PyTorch has all of them, in more passes
over memory, which is what they cost. A compiler fuses them by itself; so this is for steps that are not compiled, and
spares them the minute that compiling takes. Each equals the plain form that stands where it is called from.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops.triton import HAS_TRITON

AT_ONCE = 4096  # numbers of a matrix that a program holds
PROGRAMS = 1024  # that share the rows of a matrix, where sums over all rows are wanted


def fuses(x: Tensor) -> bool:
    """Whether something is learned from x on a GPU, step by step."""
    eager = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    return x.is_cuda and eager and x.numel() > 0 and x.dtype != torch.float64 and HAS_TRITON


class Norm(torch.autograd.Function):
    """Layer norm with a bias, RMS norm without; the result is as wide as x."""

    @staticmethod
    def forward(ctx, x, gain, bias, eps):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import norms

        lines, y = x.contiguous().view(-1, x.shape[-1]), torch.empty_like(x, memory_format=torch.contiguous_format)
        mean, rate = torch.empty(2, len(lines), dtype=torch.float32, device=x.device)
        sizes = _tile(lines, bias is not None)
        grid = (-(-len(lines) // sizes["ROWS"]),)
        norms.forward[grid](lines, gain, gain if bias is None else bias, y, mean, rate, len(lines), eps, **sizes)
        ctx.save_for_backward(lines, gain, mean, rate)
        ctx.centred = bias is not None
        return y

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import norms

        lines, gain, mean, rate = ctx.saved_tensors
        sizes = _tile(lines, ctx.centred)
        count = min(PROGRAMS, -(-len(lines) // sizes["ROWS"]))
        dx, parts = torch.empty_like(lines), torch.empty(2, count, lines.shape[1], device=lines.device)
        grad = grad.contiguous()
        norms.backward[(count,)](lines, gain, grad, mean, rate, dx, parts[0], parts[1], len(lines), **sizes)
        sums = parts.sum(1).to(gain.dtype)
        return dx.view_as(grad), sums[0], sums[1] if ctx.centred else None, None


class AddDropped(torch.autograd.Function):
    """stream + dropout(x)"""

    @staticmethod
    def forward(ctx, stream, x, p):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import dropout

        stream, x = stream.contiguous(), x.contiguous()
        out, seed = torch.empty_like(stream), _seed(x)
        dropout.add[_grid(x)](stream, x, out, seed, x.numel(), p, BLOCK=AT_ONCE // 4)
        ctx.save_for_backward(seed)
        ctx.p, ctx.dtype = p, x.dtype
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import dropout

        grad = grad.contiguous()
        dx = torch.empty_like(grad, dtype=ctx.dtype)
        dropout.add_backward[_grid(grad)](grad, dx, *ctx.saved_tensors, grad.numel(), ctx.p, BLOCK=AT_ONCE // 4)
        return grad, dx, None


class DroppedRelu(torch.autograd.Function):
    """dropout(relu(x)). Its result alone tells where gradients go, and the next layer keeps that anyway."""

    @staticmethod
    def forward(ctx, x, p):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import dropout

        x = x.contiguous()
        y = torch.empty_like(x)
        dropout.relu[_grid(x)](x, y, _seed(x), x.numel(), p, BLOCK=AT_ONCE // 4)
        ctx.save_for_backward(y)
        ctx.p = p
        return y

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        from headway.nn.ops.triton import dropout

        (y,), grad = ctx.saved_tensors, grad.contiguous()
        dx = torch.empty_like(grad)
        dropout.relu_backward[_grid(grad)](y, grad, dx, grad.numel(), ctx.p, BLOCK=AT_ONCE // 4)
        return dx, None


class Product(torch.autograd.Function):
    """xWᵀ + b, all of one type. PyTorch sums a bias's gradient up slowly."""

    @staticmethod
    def forward(ctx, x, weight, bias):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, weight = ctx.saved_tensors
        lines = grad.reshape(-1, grad.shape[-1]).contiguous()
        dx = (lines @ weight).view_as(x) if ctx.needs_input_grad[0] else None
        return dx, lines.t() @ x.reshape(-1, x.shape[-1]), column_sums(lines).to(weight.dtype)


def column_sums(x: Tensor) -> Tensor:
    """(rows, d) -> (d,), in float32."""
    from headway.nn.ops.triton import norms

    rows, width = x.shape
    columns, tall = 128, 32
    wide = -(-width // columns)
    parts = max(1, min(-(-rows // tall), PROGRAMS // wide))
    sums = torch.empty(parts, width, device=x.device)
    norms.column_sums[(wide, parts)](x, sums, rows, width, ROWS=tall, COLUMNS=columns)
    return sums.sum(0)


def _tile(lines: Tensor, centred: bool) -> dict[str, int | bool]:
    width = 1 << (lines.shape[1] - 1).bit_length()
    return {"CENTRED": centred, "D": lines.shape[1], "WIDTH": width, "ROWS": max(1, AT_ONCE // 2 // width)}


def _seed(x: Tensor) -> Tensor:
    return torch.randint(-(2**31), 2**31 - 1, (1,), dtype=torch.int32, device=x.device)


def _grid(x: Tensor) -> tuple[int]:
    return (-(-x.numel() // (AT_ONCE // 4)),)
