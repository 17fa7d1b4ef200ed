"""Varlen attention: each query sees one interval of keys, in texts packed into one row, sliding windows, causal masks.

A block of queries visits only the blocks of keys between the first and the last key that any of them sees, so that the
cost grows with the lengths of the texts and not with that of the row. Scores are never written to memory; the backward
pass computes them again. What is dropped follows from a hash of head, query and key, the same in all three kernels.
"""

import triton
import triton.language as tl

from headway.nn.ops.triton import hashing

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def is_kept(seed, head, i, j, dropout):
    """Which of the weights (i, j) dropout keeps."""
    x = (i.to(tl.uint32) * 0x9E3779B1)[:, None] ^ (j.to(tl.uint32) * 0x85EBCA6B + head.to(tl.uint32) * 0xC2B2AE35)[
        None, :
    ]
    return hashing.is_kept(x ^ seed, dropout)


@triton.jit
def forward(
    q, k, v, out, lse, first, last, seed,
    stride_q, stride_k, stride_v, stride_out, queries, keys, scale, dropout,
    GROUP: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, E: tl.constexpr, VALUES: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """q (queries, H, D), k (keys, G, D), v (keys, G, E) -> out (queries, H, E), lse (H, queries).
    WIDTH and VALUES are D and E rounded up to powers of two. first and last (queries,): the keys of each."""
    head = tl.program_id(1)
    i = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d, e = tl.arange(0, WIDTH), tl.arange(0, VALUES)
    real = i < queries
    begin, end = tl.load(first + i, real, keys), tl.load(last + i, real, 0)
    query = tl.load(q + i[:, None].to(tl.int64) * stride_q + head * D + d, real[:, None] & (d < D)[None, :], 0.0)
    high = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    output = tl.zeros([BLOCK_Q, VALUES], tl.float32)
    for start in range(tl.min(begin), tl.max(end), BLOCK_K):
        j = start + tl.arange(0, BLOCK_K)
        inside = j < keys
        key = tl.load(
            k + j[:, None].to(tl.int64) * stride_k + head // GROUP * D + d, inside[:, None] & (d < D)[None, :], 0.0
        )
        score = tl.dot(query, tl.trans(key), input_precision=PRECISION) * (scale * LOG2_E)
        score = tl.where((j[None, :] >= begin[:, None]) & (j[None, :] < end[:, None]), score, -float("inf"))
        top = tl.maximum(high, tl.max(score, 1))
        floor = tl.where(top == -float("inf"), 0.0, top)
        weight = tl.exp2(score - floor[:, None])
        rescale = tl.exp2(high - floor)
        total = total * rescale + tl.sum(weight, 1)
        if DROPS:
            weight = tl.where(is_kept(tl.load(seed), head, i, j, dropout), weight, 0.0)
        value = tl.load(
            v + j[:, None].to(tl.int64) * stride_v + head // GROUP * E + e, inside[:, None] & (e < E)[None, :], 0.0
        )
        output = output * rescale[:, None] + tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
        high = top
    empty = total == 0.0
    output = output / (tl.where(empty, 1.0, total) * (1.0 - dropout))[:, None]
    tl.store(
        out + i[:, None].to(tl.int64) * stride_out + head * E + e,
        output.to(out.dtype.element_ty),
        real[:, None] & (e < E)[None, :],
    )
    tl.store(lse + head * queries + i, tl.where(empty, float("inf"), high + tl.log2(total)), real)


@triton.jit
def backward_queries(
    q, k, v, out, grad, lse, delta, dq, first, last, seed,
    stride_q, stride_k, stride_v, stride_out, stride_grad, queries, keys, scale, dropout,
    GROUP: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, E: tl.constexpr, VALUES: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dq (queries, H, D), and delta (H, queries) = out · grad, which the other kernel needs."""
    head = tl.program_id(1)
    i = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d, e = tl.arange(0, WIDTH), tl.arange(0, VALUES)
    real = i < queries
    begin, end = tl.load(first + i, real, keys), tl.load(last + i, real, 0)
    query = tl.load(q + i[:, None].to(tl.int64) * stride_q + head * D + d, real[:, None] & (d < D)[None, :], 0.0)
    d_output = tl.load(
        grad + i[:, None].to(tl.int64) * stride_grad + head * E + e, real[:, None] & (e < E)[None, :], 0.0
    )
    output = tl.load(out + i[:, None].to(tl.int64) * stride_out + head * E + e, real[:, None] & (e < E)[None, :], 0.0)
    own = tl.sum(output.to(tl.float32) * d_output.to(tl.float32), 1)
    tl.store(delta + head * queries + i, own, real)
    norm = tl.load(lse + head * queries + i, real, float("inf"))
    result = tl.zeros([BLOCK_Q, WIDTH], tl.float32)
    for start in range(tl.min(begin), tl.max(end), BLOCK_K):
        j = start + tl.arange(0, BLOCK_K)
        inside = j < keys
        key = tl.load(
            k + j[:, None].to(tl.int64) * stride_k + head // GROUP * D + d, inside[:, None] & (d < D)[None, :], 0.0
        )
        value = tl.load(
            v + j[:, None].to(tl.int64) * stride_v + head // GROUP * E + e, inside[:, None] & (e < E)[None, :], 0.0
        )
        score = tl.dot(query, tl.trans(key), input_precision=PRECISION) * (scale * LOG2_E)
        seen = (j[None, :] >= begin[:, None]) & (j[None, :] < end[:, None])
        weight = tl.where(seen, tl.exp2(score - norm[:, None]), 0.0)
        d_weight = tl.dot(d_output, tl.trans(value), input_precision=PRECISION)
        if DROPS:
            d_weight = tl.where(is_kept(tl.load(seed), head, i, j, dropout), d_weight / (1.0 - dropout), 0.0)
        result += tl.dot((weight * (d_weight - own[:, None])).to(key.dtype), key, input_precision=PRECISION)
    result *= scale
    tl.store(dq + (i[:, None].to(tl.int64) * tl.num_programs(1) + head) * D + d, result.to(dq.dtype.element_ty),
             real[:, None] & (d < D)[None, :])  # fmt: skip


@triton.jit
def backward_keys(
    q, k, v, grad, lse, delta, dk, dv, first, last, earliest, latest, seed,
    stride_q, stride_k, stride_v, stride_grad, queries, keys, scale, dropout,
    GROUP: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, E: tl.constexpr, VALUES: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dk (keys, G, D) and dv (keys, G, E). earliest and latest (keys,): between them are all queries that see a key."""
    group = tl.program_id(1)
    j = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    d, e = tl.arange(0, WIDTH), tl.arange(0, VALUES)
    inside = j < keys
    key = tl.load(k + j[:, None].to(tl.int64) * stride_k + group * D + d, inside[:, None] & (d < D)[None, :], 0.0)
    value = tl.load(v + j[:, None].to(tl.int64) * stride_v + group * E + e, inside[:, None] & (e < E)[None, :], 0.0)
    low, top = tl.min(tl.load(earliest + j, inside, queries)), tl.max(tl.load(latest + j, inside, 0))
    d_key = tl.zeros([BLOCK_K, WIDTH], tl.float32)
    d_value = tl.zeros([BLOCK_K, VALUES], tl.float32)
    for head in range(group * GROUP, (group + 1) * GROUP):
        for start in range(low, top, BLOCK_Q):
            i = start + tl.arange(0, BLOCK_Q)
            real = i < queries
            begin, end = tl.load(first + i, real, keys), tl.load(last + i, real, 0)
            query = tl.load(
                q + i[:, None].to(tl.int64) * stride_q + head * D + d, real[:, None] & (d < D)[None, :], 0.0
            )
            d_output = tl.load(
                grad + i[:, None].to(tl.int64) * stride_grad + head * E + e, real[:, None] & (e < E)[None, :], 0.0
            )
            norm = tl.load(lse + head * queries + i, real, float("inf"))
            own = tl.load(delta + head * queries + i, real, 0.0)
            score = tl.dot(query, tl.trans(key), input_precision=PRECISION) * (scale * LOG2_E)
            seen = (j[None, :] >= begin[:, None]) & (j[None, :] < end[:, None])
            weight = tl.where(seen, tl.exp2(score - norm[:, None]), 0.0)
            d_weight = tl.dot(d_output, tl.trans(value), input_precision=PRECISION)
            dropped = weight
            if DROPS:
                keep = is_kept(tl.load(seed), head + tl.zeros([], tl.int32), i, j, dropout)
                dropped = tl.where(keep, weight / (1.0 - dropout), 0.0)
                d_weight = tl.where(keep, d_weight / (1.0 - dropout), 0.0)
            d_value += tl.dot(tl.trans(dropped.to(d_output.dtype)), d_output, input_precision=PRECISION)
            d_key += tl.dot(
                tl.trans((weight * (d_weight - own[:, None])).to(query.dtype)), query, input_precision=PRECISION
            )
    d_key *= scale
    groups = tl.num_programs(1)
    tl.store(
        dk + (j[:, None].to(tl.int64) * groups + group) * D + d,
        d_key.to(dk.dtype.element_ty),
        inside[:, None] & (d < D)[None, :],
    )
    tl.store(
        dv + (j[:, None].to(tl.int64) * groups + group) * E + e,
        d_value.to(dv.dtype.element_ty),
        inside[:, None] & (e < E)[None, :],
    )
