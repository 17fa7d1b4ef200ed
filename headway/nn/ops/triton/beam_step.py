"""From scores to the next step of a beam search, in two kernels: scores are read once, and all that follows from them
happens in one program for each row.

A line is the scores of one beam, cut into parts of PART words. The C best words of a row lie in the C parts that are
highest, so only those are looked at again. Equal sums rank by beam, then by word.
"""

import triton
import triton.language as tl

LOWEST = tl.constexpr(-(2**63))  # below every key


@triton.jit
def allowed(scores, words, banned, early, size, END: tl.constexpr):
    """Scores of words, -inf where they may not come next."""
    scores += tl.load(banned + words, words < size, -float("inf"))
    return scores + tl.where(words == END, early, 0.0)


@triton.jit
def keys(sums, index):
    """Integers in the order of sums; equal ones by index, the lowest highest."""
    bits = sums.to(tl.int32, bitcast=True)
    order = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # below 0 a larger bit pattern is a smaller number
    return (order.to(tl.int64) << 32) | (0x7FFFFFFF - index).to(tl.int64)


@triton.jit
def survey(
    logits, banned, early, now, norms, peaks, left, stride, size, parts,
    END: tl.constexpr, PART: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of each line of logits (N, size): the log of its summed exponentials, norms (N,), and the highest score in each
    part that may come next, peaks (N, parts)."""
    line = tl.program_id(0)
    if line == 0:
        tl.store(left, tl.zeros([], tl.int64))
    start_of_line = logits + line.to(tl.int64) * stride
    late = tl.load(early + tl.load(now))
    high, total = -float("inf"), 0.0
    for start in range(0, size, BLOCK):
        words = start + tl.arange(0, BLOCK)
        scores = tl.load(start_of_line + words, words < size, -float("inf")).to(tl.float32)
        top = tl.maximum(high, tl.max(scores))
        floor = tl.where(top == -float("inf"), 0.0, top)
        total = total * tl.exp(high - floor) + tl.sum(tl.exp(scores - floor))
        high = top
        scores = allowed(scores, words, banned, late, size, END)
        part = start // PART + tl.arange(0, BLOCK // PART)
        tl.store(peaks + line * parts + part, tl.max(tl.reshape(scores, [BLOCK // PART, PART]), 1), part < parts)
    tl.store(norms + line, high + tl.log(total))


@triton.jit
def advance(
    logits, banned, early, now, norms, peaks, forced, limit, ids, sums, owners, trellis, ended, active, left,
    stride, size, parts, length,
    K: tl.constexpr, C: tl.constexpr, BEAMS: tl.constexpr, PICKS: tl.constexpr, PARTS: tl.constexpr,
    END: tl.constexpr, PART: tl.constexpr, FORCED: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    """What Frame.settle does with one row. BEAMS, PICKS and PARTS are K, C and parts rounded up to powers of two."""
    row, place = tl.program_id(0), tl.load(now)
    c, k, p, j = tl.arange(0, PICKS), tl.arange(0, BEAMS), tl.arange(0, PARTS), tl.arange(0, PART)
    late = tl.load(early + place)

    before = tl.load(sums + row * K + k, k < K, -float("inf"))
    norm = tl.load(norms + row * K + k, k < K, 0.0)
    broken = tl.max(((before > -float("inf")) & (norm != norm)).to(tl.int32)) > 0
    there = (k < K)[:, None] & (p < parts)[None, :]
    high = tl.load(peaks + (row * K + k)[:, None] * parts + p[None, :], there, -float("inf"))
    high = (high - norm[:, None]) + before[:, None]
    high = tl.where(high == high, high, -float("inf"))
    key = tl.where(there, keys(high, k[:, None] * parts + p[None, :]), LOWEST)
    chosen = tl.zeros([PICKS], tl.int32)
    for i in range(C):
        best = tl.max(tl.max(key, 1), 0)
        chosen = tl.where(c == i, 0x7FFFFFFF - (best & 0x7FFFFFFF).to(tl.int32), chosen)
        key = tl.where(key == best, LOWEST, key)

    parent = chosen // parts
    words = (chosen % parts)[:, None] * PART + j[None, :]
    inside = (c < C)[:, None] & (words < size)
    line = logits + (row * K + parent).to(tl.int64)[:, None] * stride
    scores = allowed(tl.load(line + words, inside, -float("inf")).to(tl.float32), words, banned, late, size, END)
    total = (scores - tl.load(norms + row * K + parent)[:, None]) + tl.load(sums + row * K + parent)[:, None]
    total = tl.where(total == total, total, -float("inf"))
    key = tl.where(inside, keys(total, parent[:, None] * size + words), LOWEST)
    picked = tl.zeros([PICKS], tl.int32)
    for i in range(C):
        best = tl.max(tl.max(key, 1), 0)
        picked = tl.where(c == i, 0x7FFFFFFF - (best & 0x7FFFFFFF).to(tl.int32), picked)
        key = tl.where(key == best, LOWEST, key)

    real = c < C
    parent, word = picked // size, picked % size
    score = tl.load(logits + (row * K + parent).to(tl.int64) * stride + word).to(tl.float32)
    logp = allowed(score, word, banned, late, size, END) - tl.load(norms + row * K + parent)
    total = logp + tl.load(sums + row * K + parent)
    total = tl.where(total == total, total, -float("inf"))
    total = tl.where(broken, float("nan"), total)
    if FORCED:
        token = tl.load(forced + row * length + place).to(tl.int32)
        cost = tl.where(c == 0, 0.0, -float("inf"))
        logp, total = tl.where(token < 0, logp, cost), tl.where(token < 0, total, cost)
        word, parent = tl.where(token < 0, word, token), tl.where(token < 0, parent, 0)

    rows = tl.num_programs(0)
    at = trellis + place * 4 * rows * C + row * C + c
    tl.store(at, word, real)
    tl.store(at + rows * C, parent, real)
    tl.store(at + 2 * rows * C, logp.to(tl.int32, bitcast=True), real)
    tl.store(at + 3 * rows * C, total.to(tl.int32, bitcast=True), real)

    exists, ends = total > -float("inf"), word == END
    runs = exists & (ends == 0) & real
    last = place + 1 >= tl.load(limit + row)
    found = tl.load(ended + row) + tl.sum((exists & (ends | last) & (c < K)).to(tl.int64))
    running = tl.sum(runs.to(tl.int32))
    stays = (tl.load(active + row) != 0) & (running > 0) & (last == 0) & (found < K)
    tl.store(ended + row, found)
    tl.store(active + row, stays.to(tl.uint8))
    tl.atomic_add(left, stays.to(tl.int64))

    rank = tl.where(runs, tl.cumsum(runs.to(tl.int32)) - 1, running + tl.cumsum((real & (runs == 0)).to(tl.int32)) - 1)
    kept = real & (rank < K)
    tl.debug_barrier()  # what is written below was read above, perhaps by other threads
    tl.store(ids + row * K + rank, word.to(tl.int64), kept)
    tl.store(sums + row * K + rank, tl.where(runs, total, -float("inf")), kept)
    own = owners + row * K * (length + 1)
    for start in range(0, place + 2, SPAN):
        past = start + tl.arange(0, SPAN)
        known = kept[:, None] & (past <= length)[None, :]
        writer = tl.load(own + parent[:, None] * (length + 1) + past[None, :], known, 0)
        writer = tl.where((past == place + 1)[None, :], rank[:, None].to(tl.int64), writer)
        tl.debug_barrier()
        tl.store(own + rank[:, None] * (length + 1) + past[None, :], writer, known)
