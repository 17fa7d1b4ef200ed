"""Dropout together with what stands beside it. What is dropped follows from a hash of the place (see nn/dropout.py)."""

import triton
import triton.language as tl

from headway.nn.ops.triton import hashing


@triton.jit
def kept(seed, place, dropout):
    return hashing.kept((place.to(tl.int32).to(tl.uint32) ^ tl.load(seed).to(tl.uint32)) * 0x9E3779B1, dropout)


@triton.jit
def add(stream, x, out, seed, count, dropout, BLOCK: tl.constexpr):
    """out = stream + dropout(x)"""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = place < count
    value = tl.load(x + place, there, 0.0).to(tl.float32) / (1.0 - dropout)
    value = tl.where(kept(seed, place, dropout), value, 0.0)
    value += tl.load(stream + place, there, 0.0).to(tl.float32)
    tl.store(out + place, value.to(out.dtype.element_ty), there)


@triton.jit
def add_backward(grad, dx, seed, count, dropout, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = place < count
    value = tl.load(grad + place, there, 0.0).to(tl.float32) / (1.0 - dropout)
    tl.store(dx + place, tl.where(kept(seed, place, dropout), value, 0.0).to(dx.dtype.element_ty), there)


@triton.jit
def relu(x, y, seed, count, dropout, BLOCK: tl.constexpr):
    """y = dropout(relu(x))"""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = place < count
    value = tl.maximum(tl.load(x + place, there, 0.0).to(tl.float32), 0.0) / (1.0 - dropout)
    tl.store(y + place, tl.where(kept(seed, place, dropout), value, 0.0).to(y.dtype.element_ty), there)


@triton.jit
def relu_backward(y, grad, dx, count, dropout, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = place < count
    value = tl.load(grad + place, there, 0.0).to(tl.float32) / (1.0 - dropout)
    value = tl.where(tl.load(y + place, there, 0.0).to(tl.float32) > 0.0, value, 0.0)
    tl.store(dx + place, value.to(dx.dtype.element_ty), there)
