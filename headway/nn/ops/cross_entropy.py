"""The last product of a model and its loss in one: the scores of all words are never there for the whole batch.

A piece of the batch at a time is multiplied, its loss taken, and its gradients computed at once, so that the scores can
be forgotten before the next piece. `naive` is the definition.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops.triton import HAS_TRITON

IGNORED = -100  # a label that does not count
AT_ONCE = {"cuda": 1 << 28, "cpu": 1 << 21}  # scores of a piece: a CPU's caches should hold it


def naive(x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Of xWᵀ + b, summed over the labels that count. x (N, d), weight (V, d), bias (V,), labels (N,)."""
    logits = F.linear(x, weight, bias)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits, labels, ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum")


def linear_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float = 0.0
) -> Tensor:
    """The same, in pieces where something is learned."""
    able = x.dtype == torch.float32 and not torch.compiler.is_compiling() if x.device.type == "cpu" else HAS_TRITON
    if not able or x.dtype == torch.float64 or not torch.is_grad_enabled():
        return naive(x, weight, bias, labels, smoothing)
    if x.device.type == "cpu":
        counts = (labels != IGNORED).nonzero().squeeze(1)  # what does not count need not be multiplied
        x, labels = x[counts], labels[counts]
    if torch.is_autocast_enabled("cuda"):
        x, weight = (part.to(torch.get_autocast_dtype("cuda")) for part in (x, weight))
        bias = None if bias is None else bias.to(x.dtype)
    loss: Tensor = _loss(x, weight, bias, labels, smoothing)[0]
    return loss


@torch.library.custom_op("headway::linear_cross_entropy", mutates_args=())
def _loss(
    x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss, and its gradients for x, weight and bias."""
    rows = max(1, AT_ONCE[x.device.type] // len(weight))
    whole = len(x) <= rows
    losses = torch.empty(len(x), dtype=torch.float32, device=x.device)
    dx, dbias = torch.empty_like(x), torch.zeros(len(weight) if bias is not None else 0, device=x.device)
    dweight = None if whole else torch.zeros(weight.shape, dtype=torch.float32, device=x.device)
    for start in range(0, max(len(x), 1), rows):
        part = slice(start, start + rows)
        scores = F.linear(x[part], weight, bias)  # (rows, V)
        _to_gradients(scores, labels[part], losses[part], smoothing)
        torch.mm(scores, weight, out=dx[part])
        change = scores.t() @ x[part]
        dweight = change if dweight is None else dweight.add_(change)
        if bias is not None:
            dbias += scores.sum(0, dtype=torch.float32)
    assert dweight is not None
    return losses.sum(), dx, dweight.to(weight.dtype), dbias.to(weight.dtype)


@_loss.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> tuple[Tensor, ...]:
    dbias = weight.new_empty(weight.shape[0] if bias is not None else 0)
    return x.new_empty((), dtype=torch.float32), torch.empty_like(x), torch.empty_like(weight), dbias


def _to_gradients(scores: Tensor, labels: Tensor, losses: Tensor, smoothing: float) -> None:
    """In place: scores (N, V) become the gradients of their losses (N,)."""
    if scores.device.type == "cpu":
        return _to_gradients_plainly(scores, labels, losses, smoothing)
    from headway.nn.ops.triton.cross_entropy import cross_entropy

    block = min(4096, 1 << (scores.shape[1] - 1).bit_length())
    cross_entropy[(len(scores),)](
        scores, labels, losses, scores.stride(0), scores.shape[1], smoothing, IGNORED=IGNORED, BLOCK=block, num_warps=8
    )


def _to_gradients_plainly(scores: Tensor, labels: Tensor, losses: Tensor, smoothing: float) -> None:
    """Every label counts: the others were left out."""
    right, whole = scores.gather(1, labels[:, None]), scores.logsumexp(1, keepdim=True)
    said = (1 - smoothing) * right + smoothing * scores.mean(1, keepdim=True)
    losses.copy_((whole - said).squeeze(1))
    scores.sub_(whole).exp_().sub_(smoothing / scores.shape[1])
    scores.scatter_add_(1, labels[:, None], scores.new_full((len(labels), 1), smoothing - 1))


def _keep(ctx, inputs, output):  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*output[1:])
    ctx.biased = inputs[2] is not None


def _gradients(ctx, grad, *_):  # type: ignore[no-untyped-def]
    dx, dweight, dbias = ctx.saved_tensors
    return dx * grad.to(dx.dtype), dweight * grad.to(dweight.dtype), dbias * grad if ctx.biased else None, None, None


_loss.register_autograd(_gradients, setup_context=_keep)
