"""Random bits as a hash of an index and a seed: recomputed in the backward pass instead of stored."""

import triton
import triton.language as tl


@triton.jit
def is_kept(x, dropout):
    """Whether dropout keeps the element with the number x (uint32), whose bits are mixed by MurmurHash3's finaliser."""
    x ^= x >> 16
    x *= 0x85EBCA6B
    x ^= x >> 13
    x *= 0xC2B2AE35
    x ^= x >> 16
    return (x >> 8).to(tl.float32) * (1.0 / 16777216.0) >= dropout
