"""The delta rule of RWKV-7: a matrix per head that decays, is corrected in one direction, and is added to.

    S_t = S_{t-1} (diag(γ_t) - e_t (a_t ⊙ e_t)ᵀ) + v_t k_tᵀ          o_t = S_t r_t

e is the key (a unit vector) whose value is erased; a, between 0 and 1, says how much of it in each channel. Two ways to
compute it, equal up to rounding: token by token (`recurrent`, the specification), and chunk by chunk (`chunkwise`).

In a chunk that begins with S, let c be the cumulative sum of log γ, and u_t = -S_{t-1} e_t what token t erases. Then

    S_t = S diag(exp c_t) + Σ_{i ≤ t} (u_i (a_i ⊙ e_i)ᵀ + v_i k_iᵀ) diag(exp(c_t - c_i))

All u of a chunk solve one triangular system (the WY representation of the product of its matrices). It is linear in S,
so all chunks are solved at once, and only S goes from one to the next. exp(c_t - c_i) is split into a factor for t and
one for i, so that sums over channels are matrix products: decays are therefore bounded, and chunks short.

Shapes: r, k, erase, rate, log_decay (B, H, T, D), v (B, H, T, E); log_decay ≥ MIN_LOG_DECAY. S (B, H, E, D); None: 0. A
token with k = erase = 0 and log_decay = 0 has no effect.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from headway.nn.ops.retention import accumulator_dtype

Form = Literal["auto", "recurrent", "chunkwise"]
DeltaResult = tuple[Tensor, Tensor]  # the output (B, H, T, E), and the new S, in float32 at least

MIN_LOG_DECAY = -math.exp(-0.5)
CHUNK_TOKENS = 32  # tokens
MAX_CHUNK_TOKENS = 64  # exp(-64 · MIN_LOG_DECAY) is far inside float32, and so is its square


class DeltaInputs(NamedTuple):
    r: Tensor  # what is asked for
    k: Tensor
    v: Tensor
    erase: Tensor  # e
    rate: Tensor  # a
    log_decay: Tensor  # log γ


def recurrent(inputs: DeltaInputs, state: Tensor) -> DeltaResult:
    outputs = []
    for r, k, v, erase, rate, log_decay in zip(*(x.unbind(2) for x in inputs)):  # (B, H, D or E) each
        erased = state @ erase[..., None] * (rate * erase)[..., None, :]
        state = state * log_decay.exp()[..., None, :] - erased + v[..., None] * k[..., None, :]
        outputs.append(state @ r[..., None])  # (B, H, E, 1)
    return torch.stack(outputs, 2)[..., 0], state


def chunkwise(inputs: DeltaInputs, state: Tensor, chunk: int = CHUNK_TOKENS) -> DeltaResult:
    length = inputs.r.shape[2]
    cut = length - length % chunk
    parts = []
    for first, last, size in ((0, cut, chunk), (cut, length, length - cut)):
        if first < last:
            own = DeltaInputs(*(x[:, :, first:last].unflatten(2, (-1, size)) for x in inputs))  # (B, H, N, C, D or E)
            output, state = _run_chunks(own, state)
            parts.append(output.flatten(2, 3))
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2), state


def _run_chunks(inputs: DeltaInputs, state: Tensor) -> DeltaResult:
    r, k, v, erase, rate, log_decay = inputs
    size = r.shape[3]
    since_start = log_decay.cumsum(3)  # c: (B, H, N, C, D)
    until_end = since_start[..., -1:, :] - since_start
    # Left and right factors of all pairs of tokens in a chunk.
    erasing = -erase * (since_start - log_decay).exp()
    reading = r * since_start.exp()
    adding = torch.cat([rate * erase, k], 3)  # (B, H, N, 2C, D)
    pairs = torch.cat([erasing, reading], 3) @ (adding * (-since_start).exp().repeat(1, 1, 1, 2, 1)).mT
    erased_pairs, read_pairs = pairs.split(size, 3)  # (B, H, N, C, 2C)
    earlier = erased_pairs.unflatten(-1, (2, size)).transpose(3, 4).tril(-1)  # (B, H, N, 2, C, C)
    so_far = read_pairs.unflatten(-1, (2, size)).transpose(3, 4).tril()
    # What each token erases: by itself of what the chunk adds, and a matrix for what it erases of S.
    known = torch.cat([earlier[:, :, :, 1] @ v, erasing], -1)
    solved = torch.linalg.solve_triangular(-earlier[:, :, :, 0], known, upper=False, unitriangular=True)
    own, of_state = solved.split([v.shape[-1], erase.shape[-1]], -1)  # (B, H, N, C, E), (B, H, N, C, D)
    ends = adding * until_end.exp().repeat(1, 1, 1, 2, 1)
    transition = of_state.mT @ ends[..., :size, :] + torch.diag_embed(since_start[..., -1, :].exp())  # (B, H, N, D, D)
    added = torch.cat([own, v], 3).mT @ ends  # (B, H, N, E, D)
    before = []
    for change, more in zip(transition.unbind(2), added.unbind(2)):
        before.append(state)
        state = state @ change + more
    states = torch.stack(before, 2).mT  # (B, H, N, D, E)
    values = torch.stack([own + of_state @ states, v], 3)  # (B, H, N, 2, C, E)
    return reading @ states + (so_far @ values).sum(3), state


def apply_delta_rule(
    inputs: DeltaInputs, state: Tensor | None = None, *, form: Form = "auto", chunk: int = CHUNK_TOKENS
) -> DeltaResult:
    """The outputs in the dtype of v, and the new S; auto: by the number of tokens."""
    with torch.autocast(inputs.v.device.type, enabled=False):  # it would round the state
        dtype, wide = inputs.v.dtype, accumulator_dtype(inputs.v)
        inputs = DeltaInputs(*(x.to(wide) for x in inputs))
        if state is None:
            state = inputs.v.new_zeros(*inputs.v.shape[:2], inputs.v.shape[3], inputs.k.shape[3])
        if form == "recurrent" or (form == "auto" and inputs.r.shape[2] == 1):
            output, state = recurrent(inputs, state)
        else:
            output, state = chunkwise(inputs, state, chunk)
        return output.to(dtype), state
