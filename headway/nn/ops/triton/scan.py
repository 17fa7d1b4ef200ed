"""The scan h_t = a_t ⊙ h_{t-1} + b_t, one pass over memory: each program carries some channels of a row along the text.
The backward pass is the same kernel in the other direction."""

import triton
import triton.language as tl


@triton.jit
def scan(a, b, initial, states, length, channels, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    """a, b, states (rows, length, channels), initial (rows, channels), all contiguous and of one dtype."""
    row = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    state = tl.load(initial + row * channels + channel, inside, 0.0)
    for step in range(length):
        t = length - 1 - step if REVERSE else step
        offset = (row * length + t) * channels + channel
        state = tl.load(a + offset, inside, 0.0) * state + tl.load(b + offset, inside, 0.0)
        tl.store(states + offset, state, inside)
