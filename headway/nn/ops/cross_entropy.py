"""Fused linear cross-entropy: output projection and loss in one, so that the logits of the whole batch never exist.

For a chunk of the batch at a time, logits, loss and gradients are computed together, and the logits are freed before
the next chunk. `naive` is the definition."""

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops.triton import HAS_TRITON

IGNORE_INDEX = -100  # the label of what does not count
LOGITS_PER_CHUNK = {"cuda": 1 << 28, "cpu": 1 << 21}  # a CPU's cache should hold a chunk


def naive(x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Of xWᵀ + b, summed over the labels that count. x (N, d), weight (V, d), bias (V,), labels (N,)."""
    logits = F.linear(x, weight, bias)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits, labels, ignore_index=IGNORE_INDEX, label_smoothing=smoothing, reduction="sum")


def linear_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float = 0.0
) -> Tensor:
    """The same, in chunks in training."""
    eager_float32 = x.dtype == torch.float32 and not torch.compiler.is_compiling()
    supported = eager_float32 if x.device.type == "cpu" else HAS_TRITON
    if not supported or x.dtype == torch.float64 or not torch.is_grad_enabled():
        return naive(x, weight, bias, labels, smoothing)
    if x.device.type == "cpu":
        kept = (labels != IGNORE_INDEX).nonzero().squeeze(1)  # the others need no logits
        x, labels = x[kept], labels[kept]
    if torch.is_autocast_enabled("cuda"):
        x, weight = (t.to(torch.get_autocast_dtype("cuda")) for t in (x, weight))
        bias = None if bias is None else bias.to(x.dtype)
    loss: Tensor = _loss(x, weight, bias, labels, smoothing)[0]
    return loss


@torch.library.custom_op("headway::linear_cross_entropy", mutates_args=())
def _loss(
    x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss, and its gradients for x, weight and bias."""
    rows = max(1, LOGITS_PER_CHUNK[x.device.type] // len(weight))
    single = len(x) <= rows  # chunk
    losses = torch.empty(len(x), dtype=torch.float32, device=x.device)
    dx, dbias = torch.empty_like(x), torch.zeros(len(weight) if bias is not None else 0, device=x.device)
    dweight = None if single else torch.zeros(weight.shape, dtype=torch.float32, device=x.device)
    for start in range(0, max(len(x), 1), rows):
        chunk = slice(start, start + rows)
        logits = F.linear(x[chunk], weight, bias)  # (rows, V)
        _to_gradients(logits, labels[chunk], losses[chunk], smoothing)
        torch.mm(logits, weight, out=dx[chunk])
        part = logits.t() @ x[chunk]
        dweight = part if dweight is None else dweight.add_(part)
        if bias is not None:
            dbias += logits.sum(0, dtype=torch.float32)
    assert dweight is not None
    return losses.sum(), dx, dweight.to(weight.dtype), dbias.to(weight.dtype)


@_loss.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> tuple[Tensor, ...]:
    dbias = weight.new_empty(weight.shape[0] if bias is not None else 0)
    return x.new_empty((), dtype=torch.float32), torch.empty_like(x), torch.empty_like(weight), dbias


def _to_gradients(logits: Tensor, labels: Tensor, losses: Tensor, smoothing: float) -> None:
    """In place: logits (N, V) become the gradients of their losses (N,)."""
    if logits.device.type == "cpu":
        return _to_gradients_cpu(logits, labels, losses, smoothing)
    from headway.nn.ops.triton.cross_entropy import cross_entropy

    block = min(4096, 1 << (logits.shape[1] - 1).bit_length())
    cross_entropy[(len(logits),)](
        logits, labels, losses, logits.stride(0), logits.shape[1], smoothing,
        IGNORED=IGNORE_INDEX, BLOCK=block, num_warps=8,
    )  # fmt: skip


def _to_gradients_cpu(logits: Tensor, labels: Tensor, losses: Tensor, smoothing: float) -> None:
    """Every label counts: the others were left out."""
    target_logit = logits.gather(1, labels[:, None])
    log_sum = logits.logsumexp(1, keepdim=True)
    expected = (1 - smoothing) * target_logit + smoothing * logits.mean(1, keepdim=True)
    losses.copy_((log_sum - expected).squeeze(1))
    logits.sub_(log_sum).exp_().sub_(smoothing / logits.shape[1])
    logits.scatter_add_(1, labels[:, None], logits.new_full((len(labels), 1), smoothing - 1))


def _setup_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*output[1:])
    ctx.biased = inputs[2] is not None


def _autograd_backward(ctx, grad, *_):  # type: ignore[no-untyped-def]
    dx, dweight, dbias = ctx.saved_tensors
    return dx * grad.to(dx.dtype), dweight * grad.to(dweight.dtype), dbias * grad if ctx.biased else None, None, None


_loss.register_autograd(_autograd_backward, setup_context=_setup_context)
