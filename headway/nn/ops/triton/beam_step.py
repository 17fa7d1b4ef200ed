"""One step of a beam search, from logits to the next beams, in two kernels: the logits are read once, and all that
follows happens in one program for each row of the batch.

The beam search stopping rule (when a candidate ends, when a row stops, who stays in the beam) is that of
decode/reference/beam_search.py.

The logits of one beam are cut into parts of PART tokens. The C best tokens of a row lie in the C parts with the highest
maxima, so only those are read again. Equal sums rank by beam, then by token.
"""

import triton
import triton.language as tl

LOWEST = tl.constexpr(-(2**63))  # below every key


@triton.jit
def mask_banned(scores, tokens, banned, end_bias, size, END: tl.constexpr):
    """Scores of tokens, -inf where they may not come next."""
    scores += tl.load(banned + tokens, tokens < size, -float("inf"))
    return scores + tl.where(tokens == END, end_bias, 0.0)


@triton.jit
def sort_keys(sums, index):
    """Integers in the order of sums; among equal sums the lowest index has the highest key."""
    bits = sums.to(tl.int32, bitcast=True)
    order = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # below 0 a larger bit pattern is a smaller number
    return (order.to(tl.int64) << 32) | (0x7FFFFFFF - index).to(tl.int64)


@triton.jit
def reduce_logits(
    logits, banned, early, now, norms, peaks, left, stride, size, parts,
    END: tl.constexpr, PART: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of each row of logits (N, size): its logsumexp, norms (N,), and the highest score of an allowed token in each
    part, peaks (N, parts)."""
    beam = tl.program_id(0)
    if beam == 0:
        tl.store(left, tl.zeros([], tl.int64))
    beam_logits = logits + beam.to(tl.int64) * stride
    end_bias = tl.load(early + tl.load(now))
    high, total = -float("inf"), 0.0
    for start in range(0, size, BLOCK):
        tokens = start + tl.arange(0, BLOCK)
        scores = tl.load(beam_logits + tokens, tokens < size, -float("inf")).to(tl.float32)
        top = tl.maximum(high, tl.max(scores))
        floor = tl.where(top == -float("inf"), 0.0, top)
        total = total * tl.exp(high - floor) + tl.sum(tl.exp(scores - floor))
        high = top
        scores = mask_banned(scores, tokens, banned, end_bias, size, END)
        part = start // PART + tl.arange(0, BLOCK // PART)
        tl.store(peaks + beam * parts + part, tl.max(tl.reshape(scores, [BLOCK // PART, PART]), 1), part < parts)
    tl.store(norms + beam, high + tl.log(total))


@triton.jit
def advance_beams(
    logits, banned, early, now, norms, peaks, forced, limit, ids, sums, owners, lattice, ended, active, left,
    stride, size, parts, length,
    K: tl.constexpr, C: tl.constexpr, BEAMS: tl.constexpr, PICKS: tl.constexpr, PARTS: tl.constexpr,
    END: tl.constexpr, PART: tl.constexpr, FORCED: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    """One step of one row: choose C candidates, write them into the lattice, keep K beams. BEAMS, PICKS and PARTS are
    K, C and parts rounded up to powers of two."""
    row, step = tl.program_id(0), tl.load(now)
    c, k, p, j = tl.arange(0, PICKS), tl.arange(0, BEAMS), tl.arange(0, PARTS), tl.arange(0, PART)
    end_bias = tl.load(early + step)

    before = tl.load(sums + row * K + k, k < K, -float("inf"))
    norm = tl.load(norms + row * K + k, k < K, 0.0)
    broken = tl.max(((before > -float("inf")) & (norm != norm)).to(tl.int32)) > 0
    inside_parts = (k < K)[:, None] & (p < parts)[None, :]
    high = tl.load(peaks + (row * K + k)[:, None] * parts + p[None, :], inside_parts, -float("inf"))
    high = (high - norm[:, None]) + before[:, None]
    high = tl.where(high == high, high, -float("inf"))
    key = tl.where(inside_parts, sort_keys(high, k[:, None] * parts + p[None, :]), LOWEST)
    chosen = tl.zeros([PICKS], tl.int32)
    for i in range(C):
        best = tl.max(tl.max(key, 1), 0)
        chosen = tl.where(c == i, 0x7FFFFFFF - (best & 0x7FFFFFFF).to(tl.int32), chosen)
        key = tl.where(key == best, LOWEST, key)

    parent = chosen // parts
    tokens = (chosen % parts)[:, None] * PART + j[None, :]
    inside = (c < C)[:, None] & (tokens < size)
    parent_logits = logits + (row * K + parent).to(tl.int64)[:, None] * stride
    scores = tl.load(parent_logits + tokens, inside, -float("inf")).to(tl.float32)
    scores = mask_banned(scores, tokens, banned, end_bias, size, END)
    total = (scores - tl.load(norms + row * K + parent)[:, None]) + tl.load(sums + row * K + parent)[:, None]
    total = tl.where(total == total, total, -float("inf"))
    key = tl.where(inside, sort_keys(total, parent[:, None] * size + tokens), LOWEST)
    picked = tl.zeros([PICKS], tl.int32)
    for i in range(C):
        best = tl.max(tl.max(key, 1), 0)
        picked = tl.where(c == i, 0x7FFFFFFF - (best & 0x7FFFFFFF).to(tl.int32), picked)
        key = tl.where(key == best, LOWEST, key)

    real = c < C
    parent, token = picked // size, picked % size
    score = tl.load(logits + (row * K + parent).to(tl.int64) * stride + token).to(tl.float32)
    logp = mask_banned(score, token, banned, end_bias, size, END) - tl.load(norms + row * K + parent)
    total = logp + tl.load(sums + row * K + parent)
    total = tl.where(total == total, total, -float("inf"))
    total = tl.where(broken, float("nan"), total)
    if FORCED:
        prefix = tl.load(forced + row * length + step).to(tl.int32)  # -1: nothing is forced here
        cost = tl.where(c == 0, 0.0, -float("inf"))
        logp, total = tl.where(prefix < 0, logp, cost), tl.where(prefix < 0, total, cost)
        token, parent = tl.where(prefix < 0, token, prefix), tl.where(prefix < 0, parent, 0)

    rows = tl.num_programs(0)
    at = lattice + step * 4 * rows * C + row * C + c
    tl.store(at, token, real)
    tl.store(at + rows * C, parent, real)
    tl.store(at + 2 * rows * C, logp.to(tl.int32, bitcast=True), real)
    tl.store(at + 3 * rows * C, total.to(tl.int32, bitcast=True), real)

    exists, ends = total > -float("inf"), token == END
    runs = exists & (ends == 0) & real
    last = step + 1 >= tl.load(limit + row)
    finished = tl.load(ended + row) + tl.sum((exists & (ends | last) & (c < K)).to(tl.int64))
    running = tl.sum(runs.to(tl.int32))
    continues = (tl.load(active + row) != 0) & (running > 0) & (last == 0) & (finished < K)
    tl.store(ended + row, finished)
    tl.store(active + row, continues.to(tl.uint8))
    tl.atomic_add(left, continues.to(tl.int64))

    rank = tl.where(runs, tl.cumsum(runs.to(tl.int32)) - 1, running + tl.cumsum((real & (runs == 0)).to(tl.int32)) - 1)
    kept = real & (rank < K)
    tl.debug_barrier()  # other threads may still be reading what is overwritten below
    tl.store(ids + row * K + rank, token.to(tl.int64), kept)
    tl.store(sums + row * K + rank, tl.where(runs, total, -float("inf")), kept)
    own = owners + row * K * (length + 1)
    for start in range(0, step + 2, SPAN):
        position = start + tl.arange(0, SPAN)
        known = kept[:, None] & (position <= length)[None, :]
        writer = tl.load(own + parent[:, None] * (length + 1) + position[None, :], known, 0)
        writer = tl.where((position == step + 1)[None, :], rank[:, None].to(tl.int64), writer)
        tl.debug_barrier()
        tl.store(own + rank[:, None] * (length + 1) + position[None, :], writer, known)
