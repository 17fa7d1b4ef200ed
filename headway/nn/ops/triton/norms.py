"""Norms of the rows of a matrix, forwards and backwards, each in one pass over it."""

import triton
import triton.language as tl


@triton.jit
def forward(
    x,
    gain,
    bias,
    y,
    mean,
    rate,
    rows,
    eps,
    CENTRED: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    """x (rows, D) -> y; mean and rate (rows,), the inverse of the deviation, are kept. CENTRED: layer norm, with a bias;
    else RMS norm, with neither mean nor bias. WIDTH is D rounded up to a power of two."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)
    there = (i < rows)[:, None] & (d < D)[None, :]
    values = tl.load(x + i[:, None].to(tl.int64) * D + d, there, 0.0).to(tl.float32)
    if CENTRED:
        middle = tl.sum(values, 1) / D
        values = tl.where(there, values - middle[:, None], 0.0)
        tl.store(mean + i, middle, i < rows)
    scale = tl.rsqrt(tl.sum(values * values, 1) / D + eps)
    tl.store(rate + i, scale, i < rows)
    result = values * scale[:, None] * tl.load(gain + d, d < D, 0.0).to(tl.float32)[None, :]
    if CENTRED:
        result += tl.load(bias + d, d < D, 0.0).to(tl.float32)[None, :]
    tl.store(y + i[:, None].to(tl.int64) * D + d, result.to(y.dtype.element_ty), there)


@triton.jit
def backward(
    x,
    gain,
    grad,
    mean,
    rate,
    dx,
    dgain,
    dbias,
    rows,
    CENTRED: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    """dx (rows, D), and of each program its part of the sums over rows: dgain and dbias (programs, D)."""
    d = tl.arange(0, WIDTH)
    weight = tl.load(gain + d, d < D, 0.0).to(tl.float32)[None, :]
    to_gain, to_bias = tl.zeros([ROWS, WIDTH], tl.float32), tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        i = start + tl.arange(0, ROWS)
        there = (i < rows)[:, None] & (d < D)[None, :]
        place = i[:, None].to(tl.int64) * D + d
        values, change = tl.load(x + place, there, 0.0).to(tl.float32), tl.load(grad + place, there, 0.0).to(tl.float32)
        scale = tl.load(rate + i, i < rows, 0.0)[:, None]
        if CENTRED:
            values = tl.where(there, values - tl.load(mean + i, i < rows, 0.0)[:, None], 0.0)
        values *= scale
        to_gain += change * values
        to_bias += change
        change *= weight
        result = change - values * (tl.sum(values * change, 1) / D)[:, None]
        if CENTRED:
            result -= (tl.sum(change, 1) / D)[:, None]
        tl.store(dx + place, (result * scale).to(dx.dtype.element_ty), there)
    tl.store(dgain + tl.program_id(0) * D + d, tl.sum(to_gain, 0), d < D)
    if CENTRED:
        tl.store(dbias + tl.program_id(0) * D + d, tl.sum(to_bias, 0), d < D)


@triton.jit
def column_sums(x, sums, rows, D, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Of each program its part of the sums over the rows of x (rows, D): sums (programs, D)."""
    d = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(tl.program_id(1) * ROWS, rows, tl.num_programs(1) * ROWS):
        i = start + tl.arange(0, ROWS)
        total += tl.load(x + i[:, None].to(tl.int64) * D + d, (i < rows)[:, None] & (d < D)[None, :], 0.0).to(
            tl.float32
        )
    tl.store(sums + tl.program_id(1) * D + d, tl.sum(total, 0), d < D)
