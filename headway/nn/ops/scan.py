"""The scan: a linear recurrence along the tokens of a text, which every recurrent mixer is built on.

    h_t = a_t ⊙ h_{t-1} + b_t

Two forms, equal up to rounding: token by token (`recurrent`, the specification), and in chunks of about √T tokens
(`chunked`): first what each chunk leaves behind if it starts from nothing, all chunks at once, then the states between
the chunks, then all states, again all chunks at once. That takes O(√T) operations on large tensors instead of T on
small ones. No state is divided by a product of decays, so a decay may be 0.

The gradient of a scan is a scan in the other direction, so training keeps a and h, and nothing else.

Shapes: b (B, T, …), a the same or 1 in any place, initial (B, …): the state before the first token; None: 0. A token
with a = 1 and b = 0 has no effect.
"""

import math
from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from headway.nn.ops.retention import accumulator_dtype
from headway.nn.ops.triton import HAS_TRITON

ScanForm = Literal["auto", "recurrent", "chunked"]
ScanResult = tuple[Tensor, Tensor]  # all states (B, T, …), and the last one (B, …), in float32 at least

MAX_RECURRENT_TOKENS = 8  # up to which the loop is the fastest form
MAX_ONE_CHUNK_TOKENS = 32  # up to which a text is one chunk
BLOCK_CHANNELS = 64  # that one program of the GPU kernel carries along the text


def recurrent(a: Tensor, b: Tensor, initial: Tensor | None = None) -> ScanResult:
    """h = a_t ⊙ h + b_t"""
    dtype = accumulator_dtype(b)
    a = a.to(dtype).expand(-1, b.shape[1], *a.shape[2:])
    state = b.new_zeros(b[:, 0].shape, dtype=dtype) if initial is None else initial.to(dtype)
    states = []
    for t in range(b.shape[1]):
        state = a[:, t] * state + b[:, t].to(dtype)
        states.append(state)
    return torch.stack(states, 1).to(b.dtype), state


def chunked(a: Tensor, b: Tensor, initial: Tensor | None = None) -> ScanResult:
    """All chunks at once, one position of a chunk after another."""
    dtype = accumulator_dtype(b)
    initial = b.new_zeros(b[:, 0].shape, dtype=dtype) if initial is None else initial.to(dtype)
    a = a.to(dtype).expand(-1, b.shape[1], *a.shape[2:])
    states: Tensor = _scan(a, b.to(dtype), initial, False)
    return states.to(b.dtype), states[:, -1].clone()  # a view would keep all states in memory


def scan(a: Tensor, b: Tensor, initial: Tensor | None = None, *, form: ScanForm = "auto") -> ScanResult:
    """In the given form; auto: by the number of tokens."""
    with torch.autocast(b.device.type, enabled=False):  # it would round the states
        if form == "recurrent" or (form == "auto" and b.shape[1] <= MAX_RECURRENT_TOKENS):
            return recurrent(a, b, initial)
        return chunked(a, b, initial)


@torch.library.custom_op("headway::scan", mutates_args=())
def _scan(a: Tensor, b: Tensor, initial: Tensor, reverse: bool) -> Tensor:
    """All states. `reverse`: from the last token to the first, h_t = a_t ⊙ h_{t+1} + b_t."""
    if b.is_cuda and HAS_TRITON:
        return _scan_by_triton(a, b, initial, reverse)
    states = torch.empty_like(b, memory_format=torch.contiguous_format)
    length, direction = b.shape[1], -1 if reverse else 1
    chunk = length if length <= MAX_ONE_CHUNK_TOKENS else math.isqrt(length // 2)
    rest = length % chunk  # tokens that fill no chunk: the first ones on the way
    start, end = (0, length - rest) if reverse else (rest, length)
    state = initial[:, None]  # (B, 1, …)
    if rest:
        early = slice(end, None) if reverse else slice(start)
        parts = a[:, None, early], b[:, None, early], states[:, None, early]  # (B, 1, rest, …)
        state = _walk(*parts, state, range(rest)[::direction])
    a, b, into = (x[:, start:end].unflatten(1, (-1, chunk)) for x in (a, b, states))  # (B, N, C, …)
    steps = range(chunk)[::direction]
    if b.shape[1] > 1:
        state = _scan_between_chunks(a, b, state[:, 0], steps)
    _walk(a, b, into, state, steps)
    return states


def _walk(a: Tensor, b: Tensor, into: Tensor, state: Tensor, steps: Iterable[int]) -> Tensor:
    """The states of all chunks, from those before them (B, N, …), written into (B, N, C, …)."""
    for t in steps:
        state = torch.addcmul(b[:, :, t], a[:, :, t], state, out=into[:, :, t])
    return state


def _scan_between_chunks(a: Tensor, b: Tensor, initial: Tensor, steps: range) -> Tensor:
    """The state before each chunk: the same recurrence, over chunks instead of tokens."""
    added = torch.zeros_like(b[:, :, 0])
    for t in steps:
        added = torch.addcmul(b[:, :, t], a[:, :, t], added)
    decay, state = a.prod(2), initial
    before = torch.empty_like(added)  # (B, N, …)
    for n in range(added.shape[1])[:: steps.step]:
        before[:, n] = state
        state = torch.addcmul(added[:, n], decay[:, n], state)
    return before


def _scan_by_triton(a: Tensor, b: Tensor, initial: Tensor, reverse: bool) -> Tensor:
    import triton

    from headway.nn.ops.triton import scan as kernels

    a, b, initial = a.expand_as(b).contiguous(), b.contiguous(), initial.contiguous()
    states = torch.empty_like(b)
    rows, length = b.shape[:2]
    channels = initial[0].numel()
    grid = (rows, triton.cdiv(channels, BLOCK_CHANNELS))
    kernels.scan[grid](a, b, initial, states, length, channels, REVERSE=reverse, BLOCK=BLOCK_CHANNELS)
    return states


@_scan.register_fake
def _(a: Tensor, b: Tensor, initial: Tensor, reverse: bool) -> Tensor:
    return torch.empty_like(b, memory_format=torch.contiguous_format)


def _setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, bool], output: Tensor) -> None:
    a, _, initial, reverse = inputs
    ctx.save_for_backward(a, initial, output)
    ctx.reverse = reverse


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
    a, initial, states = ctx.saved_tensors
    reverse = ctx.reverse
    # What h_t changes: its own output, and h_{t+1} by a_{t+1}.
    following = _shift(a, torch.ones_like(a[:, :1]), not reverse)
    db: Tensor = _scan(following, grad, torch.zeros_like(initial), not reverse)
    da = (db * _shift(states, initial[:, None], reverse)).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
    first = -1 if reverse else 0
    return da, db, a[:, first] * db[:, first], None


def _shift(x: Tensor, first: Tensor, reverse: bool) -> Tensor:
    """Each token in the place of the next, `first` before them all; `reverse`: in the place of the one before."""
    return torch.cat([x[:, 1:], first] if reverse else [first, x[:, :-1]], 1)


_scan.register_autograd(_backward, setup_context=_setup_context)
