"""Attention where each query sees one stretch of keys: texts that lie one behind the other, windows, triangles.

Tokens of all texts stand in one line. A block of queries looks only at the blocks of keys between the first and the last
that any of them may see, so that the cost goes with the lengths of the texts and not with that of the line. Scores
are never written to memory; going backwards they are computed again. What is dropped is decided by a hash of head, query
and key, the same in all three kernels.
"""

import triton
import triton.language as tl

from headway.nn.ops.triton import hashing

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def kept(seed, head, i, j, dropout):
    """Which of the weights (i, j) stay."""
    x = (i.to(tl.uint32) * 0x9E3779B1)[:, None] ^ (j.to(tl.uint32) * 0x85EBCA6B + head.to(tl.uint32) * 0xC2B2AE35)[
        None, :
    ]
    return hashing.kept(x ^ seed, dropout)


@triton.jit
def forward(
    q, k, v, out, lse, first, last, seed,
    stride_q, stride_k, stride_v, stride_out, queries, keys, scale, dropout,
    GROUP: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, E: tl.constexpr, VALUES: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """q (queries, H, D), k (keys, G, D), v (keys, G, E) -> out (queries, H, E), lse (H, queries).
    WIDTH and VALUES are D and E rounded up to powers of two. first and last (queries,): the keys that each sees."""
    head = tl.program_id(1)
    i = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d, e = tl.arange(0, WIDTH), tl.arange(0, VALUES)
    real = i < queries
    begin, end = tl.load(first + i, real, keys), tl.load(last + i, real, 0)
    asked = tl.load(q + i[:, None].to(tl.int64) * stride_q + head * D + d, real[:, None] & (d < D)[None, :], 0.0)
    high = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    heard = tl.zeros([BLOCK_Q, VALUES], tl.float32)
    for start in range(tl.min(begin), tl.max(end), BLOCK_K):
        j = start + tl.arange(0, BLOCK_K)
        there = j < keys
        known = tl.load(
            k + j[:, None].to(tl.int64) * stride_k + head // GROUP * D + d, there[:, None] & (d < D)[None, :], 0.0
        )
        score = tl.dot(asked, tl.trans(known), input_precision=PRECISION) * (scale * LOG2_E)
        score = tl.where((j[None, :] >= begin[:, None]) & (j[None, :] < end[:, None]), score, -float("inf"))
        top = tl.maximum(high, tl.max(score, 1))
        floor = tl.where(top == -float("inf"), 0.0, top)
        weight = tl.exp2(score - floor[:, None])
        fade = tl.exp2(high - floor)
        total = total * fade + tl.sum(weight, 1)
        if DROPS:
            weight = tl.where(kept(tl.load(seed), head, i, j, dropout), weight, 0.0)
        said = tl.load(
            v + j[:, None].to(tl.int64) * stride_v + head // GROUP * E + e, there[:, None] & (e < E)[None, :], 0.0
        )
        heard = heard * fade[:, None] + tl.dot(weight.to(said.dtype), said, input_precision=PRECISION)
        high = top
    empty = total == 0.0
    heard = heard / (tl.where(empty, 1.0, total) * (1.0 - dropout))[:, None]
    tl.store(
        out + i[:, None].to(tl.int64) * stride_out + head * E + e,
        heard.to(out.dtype.element_ty),
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
    asked = tl.load(q + i[:, None].to(tl.int64) * stride_q + head * D + d, real[:, None] & (d < D)[None, :], 0.0)
    wanted = tl.load(grad + i[:, None].to(tl.int64) * stride_grad + head * E + e, real[:, None] & (e < E)[None, :], 0.0)
    heard = tl.load(out + i[:, None].to(tl.int64) * stride_out + head * E + e, real[:, None] & (e < E)[None, :], 0.0)
    own = tl.sum(heard.to(tl.float32) * wanted.to(tl.float32), 1)
    tl.store(delta + head * queries + i, own, real)
    norm = tl.load(lse + head * queries + i, real, float("inf"))
    result = tl.zeros([BLOCK_Q, WIDTH], tl.float32)
    for start in range(tl.min(begin), tl.max(end), BLOCK_K):
        j = start + tl.arange(0, BLOCK_K)
        there = j < keys
        known = tl.load(
            k + j[:, None].to(tl.int64) * stride_k + head // GROUP * D + d, there[:, None] & (d < D)[None, :], 0.0
        )
        said = tl.load(
            v + j[:, None].to(tl.int64) * stride_v + head // GROUP * E + e, there[:, None] & (e < E)[None, :], 0.0
        )
        score = tl.dot(asked, tl.trans(known), input_precision=PRECISION) * (scale * LOG2_E)
        seen = (j[None, :] >= begin[:, None]) & (j[None, :] < end[:, None])
        weight = tl.where(seen, tl.exp2(score - norm[:, None]), 0.0)
        change = tl.dot(wanted, tl.trans(said), input_precision=PRECISION)
        if DROPS:
            change = tl.where(kept(tl.load(seed), head, i, j, dropout), change / (1.0 - dropout), 0.0)
        result += tl.dot((weight * (change - own[:, None])).to(known.dtype), known, input_precision=PRECISION)
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
    there = j < keys
    known = tl.load(k + j[:, None].to(tl.int64) * stride_k + group * D + d, there[:, None] & (d < D)[None, :], 0.0)
    said = tl.load(v + j[:, None].to(tl.int64) * stride_v + group * E + e, there[:, None] & (e < E)[None, :], 0.0)
    low, top = tl.min(tl.load(earliest + j, there, queries)), tl.max(tl.load(latest + j, there, 0))
    to_keys = tl.zeros([BLOCK_K, WIDTH], tl.float32)
    to_values = tl.zeros([BLOCK_K, VALUES], tl.float32)
    for head in range(group * GROUP, (group + 1) * GROUP):
        for start in range(low, top, BLOCK_Q):
            i = start + tl.arange(0, BLOCK_Q)
            real = i < queries
            begin, end = tl.load(first + i, real, keys), tl.load(last + i, real, 0)
            asked = tl.load(
                q + i[:, None].to(tl.int64) * stride_q + head * D + d, real[:, None] & (d < D)[None, :], 0.0
            )
            wanted = tl.load(
                grad + i[:, None].to(tl.int64) * stride_grad + head * E + e, real[:, None] & (e < E)[None, :], 0.0
            )
            norm = tl.load(lse + head * queries + i, real, float("inf"))
            own = tl.load(delta + head * queries + i, real, 0.0)
            score = tl.dot(asked, tl.trans(known), input_precision=PRECISION) * (scale * LOG2_E)
            seen = (j[None, :] >= begin[:, None]) & (j[None, :] < end[:, None])
            weight = tl.where(seen, tl.exp2(score - norm[:, None]), 0.0)
            change = tl.dot(wanted, tl.trans(said), input_precision=PRECISION)
            shown = weight
            if DROPS:
                stays = kept(tl.load(seed), head + tl.zeros([], tl.int32), i, j, dropout)
                shown = tl.where(stays, weight / (1.0 - dropout), 0.0)
                change = tl.where(stays, change / (1.0 - dropout), 0.0)
            to_values += tl.dot(tl.trans(shown.to(wanted.dtype)), wanted, input_precision=PRECISION)
            to_keys += tl.dot(
                tl.trans((weight * (change - own[:, None])).to(asked.dtype)), asked, input_precision=PRECISION
            )
    to_keys *= scale
    groups = tl.num_programs(1)
    tl.store(
        dk + (j[:, None].to(tl.int64) * groups + group) * D + d,
        to_keys.to(dk.dtype.element_ty),
        there[:, None] & (d < D)[None, :],
    )
    tl.store(
        dv + (j[:, None].to(tl.int64) * groups + group) * E + e,
        to_values.to(dv.dtype.element_ty),
        there[:, None] & (e < E)[None, :],
    )
