"""Layer norm and RMS norm of the rows of a matrix, forward and backward, each in one pass over it."""

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
    """x (rows, D) -> y; mean and rate (rows,), the inverse standard deviation, are saved. CENTRED: layer norm, with a
    bias; else RMS norm, with neither mean nor bias. WIDTH is D rounded up to a power of two."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)
    inside = (i < rows)[:, None] & (d < D)[None, :]
    values = tl.load(x + i[:, None].to(tl.int64) * D + d, inside, 0.0).to(tl.float32)
    if CENTRED:
        average = tl.sum(values, 1) / D
        values = tl.where(inside, values - average[:, None], 0.0)
        tl.store(mean + i, average, i < rows)
    scale = tl.rsqrt(tl.sum(values * values, 1) / D + eps)
    tl.store(rate + i, scale, i < rows)
    result = values * scale[:, None] * tl.load(gain + d, d < D, 0.0).to(tl.float32)[None, :]
    if CENTRED:
        result += tl.load(bias + d, d < D, 0.0).to(tl.float32)[None, :]
    tl.store(y + i[:, None].to(tl.int64) * D + d, result.to(y.dtype.element_ty), inside)


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
    """dx (rows, D), and each program's part of the sums over rows: dgain and dbias (programs, D)."""
    d = tl.arange(0, WIDTH)
    weight = tl.load(gain + d, d < D, 0.0).to(tl.float32)[None, :]
    to_gain, to_bias = tl.zeros([ROWS, WIDTH], tl.float32), tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        i = start + tl.arange(0, ROWS)
        inside = (i < rows)[:, None] & (d < D)[None, :]
        offset = i[:, None].to(tl.int64) * D + d
        values, gradient = (
            tl.load(x + offset, inside, 0.0).to(tl.float32),
            tl.load(grad + offset, inside, 0.0).to(tl.float32),
        )
        scale = tl.load(rate + i, i < rows, 0.0)[:, None]
        if CENTRED:
            values = tl.where(inside, values - tl.load(mean + i, i < rows, 0.0)[:, None], 0.0)
        values *= scale
        to_gain += gradient * values
        to_bias += gradient
        gradient *= weight
        result = gradient - values * (tl.sum(values * gradient, 1) / D)[:, None]
        if CENTRED:
            result -= (tl.sum(gradient, 1) / D)[:, None]
        tl.store(dx + offset, (result * scale).to(dx.dtype.element_ty), inside)
    tl.store(dgain + tl.program_id(0) * D + d, tl.sum(to_gain, 0), d < D)
    if CENTRED:
        tl.store(dbias + tl.program_id(0) * D + d, tl.sum(to_bias, 0), d < D)


@triton.jit
def column_sums(x, sums, rows, D, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Each program's part of the sums over the rows of x (rows, D): sums (programs, D)."""
    d = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(tl.program_id(1) * ROWS, rows, tl.num_programs(1) * ROWS):
        i = start + tl.arange(0, ROWS)
        total += tl.load(x + i[:, None].to(tl.int64) * D + d, (i < rows)[:, None] & (d < D)[None, :], 0.0).to(
            tl.float32
        )
    tl.store(sums + tl.program_id(1) * D + d, tl.sum(total, 0), d < D)
