"""Random numbers that follow from a place and a seed, so that they need not be kept."""

import triton
import triton.language as tl


@triton.jit
def kept(x, dropout):
    """Whether what the number x (uint32) stands for is kept: its bits are mixed by Murmur's last steps."""
    x ^= x >> 16
    x *= 0x85EBCA6B
    x ^= x >> 13
    x *= 0xC2B2AE35
    x ^= x >> 16
    return (x >> 8).to(tl.float32) * (1.0 / 16777216.0) >= dropout
