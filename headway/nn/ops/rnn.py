"""Recurrent networks: the steps of a GRU and of an LSTM, run token by token (`run_steps`, the specification) or by
PyTorch's own loop (`run_fused`). Gates are in the order of torch.nn.GRU (r, z, n) and torch.nn.LSTM (i, f, g, o).

Shapes: inputs (B, T, G·D), what each token adds to its G gates; state (B, D) each: (h,) of a GRU, (h, c) of an LSTM.
States and outputs are in float32 at least.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from headway.nn.ops.retention import accumulator_dtype

CellKind = Literal["gru", "lstm"]
State = tuple[Tensor, ...]
GATES: dict[CellKind, int] = {"gru": 3, "lstm": 4}


class CellWeights(NamedTuple):
    """Of one direction, as torch.nn.GRU and torch.nn.LSTM have them."""

    input: Tensor  # (G·D, d)
    recurrent: Tensor  # (G·D, D)
    biases: tuple[Tensor, ...]  # both (G·D,), or none


def new_state(cell: CellKind, like: Tensor, width: int) -> State:
    """Zeros, for the rows of `like`."""
    zeros = torch.zeros(len(like), width, dtype=accumulator_dtype(like), device=like.device)
    return (zeros,) if cell == "gru" else (zeros, zeros)


def gru_step(inputs: Tensor, recurrent: Tensor, state: State) -> State:
    """r, z = sigmoid(…);  n = tanh(inputs_n + r ⊙ recurrent_n);  h = (1 - z) ⊙ n + z ⊙ h"""
    (h,) = state
    (r, z, n), (hidden_r, hidden_z, hidden_n) = inputs.chunk(3, -1), recurrent.chunk(3, -1)
    reset, keep = torch.sigmoid(r + hidden_r), torch.sigmoid(z + hidden_z)
    new = torch.tanh(n + reset * hidden_n)
    return (new + keep * (h - new),)


def lstm_step(inputs: Tensor, recurrent: Tensor, state: State) -> State:
    """i, f, o = sigmoid(…);  g = tanh(…);  c = f ⊙ c + i ⊙ g;  h = o ⊙ tanh(c)"""
    _, c = state
    i, f, g, o = (inputs + recurrent).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


STEPS: dict[CellKind, Callable[[Tensor, Tensor, State], State]] = {"gru": gru_step, "lstm": lstm_step}


def run_steps(
    cell: CellKind, inputs: Tensor, state: State, recur: Callable[[Tensor], Tensor], valid: Tensor | None = None
) -> tuple[Tensor, State]:
    """Outputs (B, T, D) and the last state. `recur`: what a hidden state (B, D) adds to the gates of the next token.
    valid (B, T): padding, where it is false, leaves the state as it is."""
    step, wide, outputs = STEPS[cell], state[0].dtype, []
    for t in range(inputs.shape[1]):
        after = step(inputs[:, t].to(wide), recur(state[0].to(inputs.dtype)).to(wide), state)
        if valid is not None:
            after = tuple(torch.where(valid[:, t, None], new, old) for new, old in zip(after, state))
        state = after
        outputs.append(state[0])
    return torch.stack(outputs, 1), state


def run_fused(cell: CellKind, x: Tensor, state: State, weights: CellWeights) -> tuple[Tensor, State]:
    """The same by PyTorch's loop, without padding: x (B, T, d) -> outputs (B, T, D) and the last state."""
    wide = state[0].dtype
    parameters = [weight.to(wide) for weight in (weights.input, weights.recurrent, *weights.biases)]
    before = [part[None].contiguous() for part in state]
    options = (bool(weights.biases), 1, 0.0, torch.is_grad_enabled(), False, True)  # layers, dropout, train, both, rows
    with torch.autocast(x.device.type, enabled=False), _ignore_layout_warning(x.is_cuda):
        if cell == "gru":
            output, h = torch.gru(x.to(wide), before[0], parameters, *options)
            return output, (h[0],)
        output, h, c = torch.lstm(x.to(wide), before, parameters, *options)
        return output, (h[0], c[0])


@contextlib.contextmanager
def _ignore_layout_warning(on_gpu: bool) -> Iterator[None]:
    """cuDNN would like all weights in one buffer, as only torch.nn's own modules keep them."""
    if not on_gpu:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
        yield


def reverse_texts(x: Tensor, valid: Tensor | None) -> Tensor:
    """Each row (T, d) backwards; padding, which is at the end, stays where it is. Applied twice it changes nothing."""
    if valid is None:
        return x.flip(1)
    places, lengths = torch.arange(x.shape[1], device=x.device), valid.sum(1, keepdim=True)
    index = torch.where(places < lengths, lengths - 1 - places, places)  # (B, T)
    return x.gather(1, index[..., None].expand_as(x))
