"""Cross-entropy over a vocabulary: scores in, losses out, and the scores replaced by their gradients."""

import triton
import triton.language as tl


@triton.jit
def cross_entropy(logits, labels, losses, stride, size, smoothing, IGNORED: tl.constexpr, BLOCK: tl.constexpr):
    """logits (N, size), overwritten; labels (N,); losses (N,). One program a line, which it reads twice."""
    row = tl.program_id(0)
    line = logits + row.to(tl.int64) * stride
    label = tl.load(labels + row)
    if label == IGNORED:
        for start in range(0, size, BLOCK):
            v = start + tl.arange(0, BLOCK)
            tl.store(line + v, tl.zeros([BLOCK], logits.dtype.element_ty), v < size)
        tl.store(losses + row, 0.0)
        return
    high, total, added = -float("inf"), 0.0, 0.0
    for start in range(0, size, BLOCK):
        v = start + tl.arange(0, BLOCK)
        scores = tl.load(line + v, v < size, -float("inf")).to(tl.float32)
        top = tl.maximum(high, tl.max(scores))
        total = total * tl.exp(high - top) + tl.sum(tl.exp(scores - top))
        added += tl.sum(tl.where(v < size, scores, 0.0))
        high = top
    norm = high + tl.log(total)
    right = tl.load(line + label).to(tl.float32)
    tl.store(losses + row, norm - (1.0 - smoothing) * right - smoothing * added / size)
    for start in range(0, size, BLOCK):
        v = start + tl.arange(0, BLOCK)
        scores = tl.load(line + v, v < size, -float("inf")).to(tl.float32)
        share = tl.exp(scores - norm) - smoothing / size - tl.where(v == label, 1.0 - smoothing, 0.0)
        tl.store(line + v, share.to(logits.dtype.element_ty), v < size)
