"""Cross-entropy over a vocabulary: logits in, losses out, and the logits replaced by their gradients."""

import triton
import triton.language as tl


@triton.jit
def cross_entropy(logits, labels, losses, stride, size, smoothing, IGNORED: tl.constexpr, BLOCK: tl.constexpr):
    """logits (N, size), overwritten; labels (N,); losses (N,). One program per row, which it reads twice."""
    row = tl.program_id(0)
    logits_row = logits + row.to(tl.int64) * stride
    label = tl.load(labels + row)
    if label == IGNORED:
        for start in range(0, size, BLOCK):
            v = start + tl.arange(0, BLOCK)
            tl.store(logits_row + v, tl.zeros([BLOCK], logits.dtype.element_ty), v < size)
        tl.store(losses + row, 0.0)
        return
    high, total, logit_sum = -float("inf"), 0.0, 0.0
    for start in range(0, size, BLOCK):
        v = start + tl.arange(0, BLOCK)
        values = tl.load(logits_row + v, v < size, -float("inf")).to(tl.float32)
        top = tl.maximum(high, tl.max(values))
        total = total * tl.exp(high - top) + tl.sum(tl.exp(values - top))
        logit_sum += tl.sum(tl.where(v < size, values, 0.0))
        high = top
    norm = high + tl.log(total)
    target = tl.load(logits_row + label).to(tl.float32)
    tl.store(losses + row, norm - (1.0 - smoothing) * target - smoothing * logit_sum / size)
    for start in range(0, size, BLOCK):
        v = start + tl.arange(0, BLOCK)
        values = tl.load(logits_row + v, v < size, -float("inf")).to(tl.float32)
        gradient = tl.exp(values - norm) - smoothing / size - tl.where(v == label, 1.0 - smoothing, 0.0)
        tl.store(logits_row + v, gradient.to(logits.dtype.element_ty), v < size)
