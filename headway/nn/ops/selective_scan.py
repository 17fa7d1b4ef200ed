"""The selective scan of Mamba (S6, Gu 2023): a linear state space per channel, whose step, input and readout depend on
the token.

    h_t = exp(Δ_t A) ⊙ h_{t-1} + (Δ_t x_t) B_t           y_t = h_t C_t

Two forms, equal up to rounding: token by token (`recurrent`, the specification), and `chunked`: chunks of tokens one
after another, the scan within each. All states of a text together are N times as large as its inputs, so they exist for
one chunk at a time only; the backward pass computes them again, from the state before the chunk.

Shapes: x and step Δ (B, T, D), a (D, N), b and c (B, T, N), state (B, D, N): after all earlier tokens; None: 0. A token
with Δ = 0 has no effect.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from headway.nn.ops.scan import scan

SelectiveForm = Literal["auto", "recurrent", "chunked"]
SelectiveResult = tuple[Tensor, Tensor]  # y (B, T, D), and the new state

CHUNK_TOKENS = 128  # whose states exist at the same time


def recurrent(x: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None) -> SelectiveResult:
    """h = exp(Δ_t A) ⊙ h + Δ_t x_t B_t;  y_t = h C_t"""
    state = x.new_zeros(len(x), *a.shape) if state is None else state
    outputs = []
    for t in range(x.shape[1]):
        added = (step[:, t] * x[:, t])[..., None] * b[:, t, None]  # (B, D, N)
        state = (step[:, t, :, None] * a).exp() * state + added
        outputs.append(state @ c[:, t, :, None])  # (B, D, 1)
    return torch.cat(outputs, 2).mT, state


def chunked(
    x: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None, chunk: int = CHUNK_TOKENS
) -> SelectiveResult:
    """Linear in time; in memory T · D for the inputs and D · N for each chunk."""
    state = x.new_zeros(len(x), *a.shape) if state is None else state
    outputs = []
    split = [torch.split(y, chunk, 1) for y in (x, step, b, c)]
    for u, delta, write, read in zip(*split):
        if torch.is_grad_enabled():
            y, state = checkpoint(
                _scan_chunk, u, delta, a, write, read, state, use_reentrant=False, preserve_rng_state=False
            )
        else:
            y, state = _scan_chunk(u, delta, a, write, read, state)
        outputs.append(y)
    assert state is not None
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1), state


def _scan_chunk(x: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor) -> SelectiveResult:
    decay = (step[..., None] * a).exp()  # (B, L, D, N)
    states, last = scan(decay, (step * x)[..., None] * b[:, :, None], state)
    return (states @ c[..., None])[..., 0], last


def selective_scan(
    x: Tensor, step: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor | None = None, *,
    form: SelectiveForm = "auto", chunk: int = CHUNK_TOKENS,
) -> SelectiveResult:  # fmt: skip
    """In the given form; auto: by the number of tokens."""
    with torch.autocast(x.device.type, enabled=False):  # it would round the states
        if form == "recurrent" or (form == "auto" and x.shape[1] == 1):
            return recurrent(x, step, a, b, c, state)
        return chunked(x, step, a, b, c, state, chunk)
