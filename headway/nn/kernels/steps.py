"""Attention in a step of decoding: a few beams, each at its newest place, look at what they have read and at the source.

There are too few queries for a product of matrices, so what counts is that keys and values are read once.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def listen(
    joined, past, owners, now, out, stride_b, stride_k, stride_h, length, scale,
    H: tl.constexpr, G: tl.constexpr, K: tl.constexpr, D: tl.constexpr,
    BEAMS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """joined (rows, K, H + 2G, D): queries, keys and values of the newest place; the latter two are written into past
    (2, rows, G, length, K, D). owners (rows, K, length + 1): which beam wrote what this one takes for its past.
    out (rows, K, H · D). BEAMS and WIDTH are K and D rounded up to powers of two."""
    row, head = tl.program_id(0), tl.program_id(1)
    group, place = head // (H // G), tl.load(now)
    k, d = tl.arange(0, BEAMS), tl.arange(0, WIDTH)
    real = (k < K)[:, None] & (d < D)[None, :]
    at = joined + row.to(tl.int64) * stride_b + k[:, None] * stride_k + d[None, :]
    asked = tl.load(at + head * stride_h, real, 0.0).to(tl.float32) * (scale * LOG2_E)
    key = tl.load(at + (H + group) * stride_h, real, 0.0)
    value = tl.load(at + (H + G + group) * stride_h, real, 0.0)
    keys = past + (row.to(tl.int64) * G + group) * length * K * D
    values = keys + tl.num_programs(0).to(tl.int64) * G * length * K * D
    if head % (H // G) == 0:  # one of those that share them
        newest = (place * K + k[:, None]) * D + d[None, :]
        tl.store(keys + newest, key, real)
        tl.store(values + newest, value, real)
    high = tl.sum(asked * key.to(tl.float32), 1)
    total = tl.full([BEAMS], 1.0, tl.float32)
    heard = value.to(tl.float32)
    for start in range(0, place, BLOCK):
        i = start + tl.arange(0, BLOCK)
        seen = (k < K)[:, None] & (i < place)[None, :]
        writer = tl.load(owners + (row * K + k)[:, None] * (length + 1) + i[None, :], seen, 0)
        where = (i[None, :] * K + tl.maximum(writer, 0)) * D  # (BEAMS, BLOCK)
        there = seen[:, :, None] & (d < D)[None, None, :]
        known = tl.load(keys + where[:, :, None] + d[None, None, :], there, 0.0).to(tl.float32)
        score = tl.where((i < place)[None, :], tl.sum(asked[:, None, :] * known, 2), -float("inf"))
        top = tl.maximum(high, tl.max(score, 1))
        weight, fade = tl.exp2(score - top[:, None]), tl.exp2(high - top)
        said = tl.load(values + where[:, :, None] + d[None, None, :], there, 0.0).to(tl.float32)
        heard = heard * fade[:, None] + tl.sum(weight[:, :, None] * said, 1)
        total = total * fade + tl.sum(weight, 1)
        high = top
    heard = heard / total[:, None]
    tl.store(out + ((row * K + k)[:, None] * H + head) * D + d[None, :], heard.to(out.dtype.element_ty), real)


@triton.jit
def listen_across(
    asking, source, hidden, out, length, scale,
    H: tl.constexpr, G: tl.constexpr, K: tl.constexpr, D: tl.constexpr,
    BEAMS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """asking (rows, K, H · D), source (2, rows, G, length, D): its keys and values; hidden (rows, length): what is added
    to their scores. out like asking."""
    row, head = tl.program_id(0), tl.program_id(1)
    k, d = tl.arange(0, BEAMS), tl.arange(0, WIDTH)
    real = (k < K)[:, None] & (d < D)[None, :]
    at = ((row * K + k)[:, None] * H + head) * D + d[None, :]
    asked = tl.load(asking + at, real, 0.0).to(tl.float32) * (scale * LOG2_E)
    keys = source + (row.to(tl.int64) * G + head // (H // G)) * length * D
    values = keys + tl.num_programs(0).to(tl.int64) * G * length * D
    high = tl.full([BEAMS], -float("inf"), tl.float32)
    total = tl.zeros([BEAMS], tl.float32)
    heard = tl.zeros([BEAMS, WIDTH], tl.float32)
    for start in range(0, length, BLOCK):
        j = start + tl.arange(0, BLOCK)
        there = (j < length)[:, None] & (d < D)[None, :]
        known = tl.load(keys + j[:, None] * D + d[None, :], there, 0.0).to(tl.float32)
        added = tl.load(hidden + row * length + j, j < length, -float("inf")).to(tl.float32)
        score = tl.sum(asked[:, None, :] * known[None, :, :], 2) + added[None, :]
        top = tl.maximum(high, tl.max(score, 1))
        floor = tl.where(top == -float("inf"), 0.0, top)
        weight, fade = tl.exp2(score - floor[:, None]), tl.exp2(high - floor)
        said = tl.load(values + j[:, None] * D + d[None, :], there, 0.0).to(tl.float32)
        heard = heard * fade[:, None] + tl.sum(weight[:, :, None] * said[None, :, :], 1)
        total = total * fade + tl.sum(weight, 1)
        high = top
    tl.store(out + at, (heard / total[:, None]).to(out.dtype.element_ty), real)


@triton.jit
def add_norm(s, y, gain, bias, normed, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """LayerNorm of s + y; all (N, WIDTH), one program a line."""
    i = tl.arange(0, BLOCK)
    at, real = tl.program_id(0).to(tl.int64) * WIDTH + i, i < WIDTH
    x = tl.load(s + at, real, 0.0).to(tl.float32) + tl.load(y + at, real, 0.0).to(tl.float32)
    x = x.to(normed.dtype.element_ty).to(tl.float32)  # rounded like a sum that is written down
    apart = tl.where(real, x - tl.sum(x) / WIDTH, 0.0)
    scaled = apart / tl.sqrt(tl.sum(apart * apart) / WIDTH + eps)
    scaled = scaled * tl.load(gain + i, real, 0.0).to(tl.float32) + tl.load(bias + i, real, 0.0).to(tl.float32)
    tl.store(normed + at, scaled.to(normed.dtype.element_ty), real)
