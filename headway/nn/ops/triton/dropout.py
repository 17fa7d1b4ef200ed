"""Dropout fused with an add or a relu. What is dropped follows from a hash, as in ops/dropout.py."""

import triton
import triton.language as tl

from headway.nn.ops.triton import hashing


@triton.jit
def is_kept(seed, index, dropout):
    return hashing.is_kept((index.to(tl.int32).to(tl.uint32) ^ tl.load(seed).to(tl.uint32)) * 0x9E3779B1, dropout)


@triton.jit
def add(stream, x, out, seed, count, dropout, BLOCK: tl.constexpr):
    """out = stream + dropout(x)"""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    value = tl.load(x + index, inside, 0.0).to(tl.float32) / (1.0 - dropout)
    value = tl.where(is_kept(seed, index, dropout), value, 0.0)
    value += tl.load(stream + index, inside, 0.0).to(tl.float32)
    tl.store(out + index, value.to(out.dtype.element_ty), inside)


@triton.jit
def add_backward(grad, dx, seed, count, dropout, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    value = tl.load(grad + index, inside, 0.0).to(tl.float32) / (1.0 - dropout)
    tl.store(dx + index, tl.where(is_kept(seed, index, dropout), value, 0.0).to(dx.dtype.element_ty), inside)


@triton.jit
def relu(x, y, seed, count, dropout, BLOCK: tl.constexpr):
    """y = dropout(relu(x))"""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    value = tl.maximum(tl.load(x + index, inside, 0.0).to(tl.float32), 0.0) / (1.0 - dropout)
    tl.store(y + index, tl.where(is_kept(seed, index, dropout), value, 0.0).to(y.dtype.element_ty), inside)


@triton.jit
def relu_backward(y, grad, dx, count, dropout, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    value = tl.load(grad + index, inside, 0.0).to(tl.float32) / (1.0 - dropout)
    value = tl.where(tl.load(y + index, inside, 0.0).to(tl.float32) > 0.0, value, 0.0)
    tl.store(dx + index, value.to(dx.dtype.element_ty), inside)
