"""Compressive memory of Infini-attention: all earlier segments as one matrix per head, written to and read by linear
attention.

    read(q)     = σ(q) M / (σ(q) · z)          σ(x) = elu(x) + 1
    linear:     M += Σ_s σ(k_s)ᵀ v_s           z += Σ_s σ(k_s)          over the tokens s of a segment
    delta:      M += Σ_s σ(k_s)ᵀ (v_s - read(k_s))                      only what the memory does not say already

M and z are columns of one tensor, `memory` (B, H, D, E + 1), so that one product gives σ(q) M and σ(q) · z. An empty
memory is 0, and reads as 0. What a segment's tokens write is summed up in `pending`, of the same shape, and joins the
memory when the segment is complete: until then they all read the same.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops.retention import accumulator_dtype


def feature_map(x: Tensor) -> Tensor:
    """σ(x) = elu(x) + 1, positive; in float32 at least, because memories sum many of them."""
    return F.elu(x.to(accumulator_dtype(x))) + 1


def read_memory(memory: Tensor, features: Tensor) -> Tensor:
    """σ(q) (…, T, D) -> (…, T, E); 0 where nothing has been written."""
    found = features @ memory
    values, norm = found[..., :-1], found[..., -1:]
    return values / torch.where(norm > 0, norm, 1.0)


def write_memory(memory: Tensor, features: Tensor, values: Tensor, shares: Tensor | None, *, delta: bool) -> Tensor:
    """What tokens with σ(k) (…, T, D) and v (…, T, E) add to the memory; a token with σ(k) = 0 adds nothing. `shares`
    (…, T, 1): how much of each value is written."""
    new = values.to(features.dtype)
    if delta:
        new = new - read_memory(memory, features)
    if shares is not None:
        new = new * shares
    return features.mT @ F.pad(new, (0, 1), value=1.0)


def write_segments(
    features: Tensor,
    values: Tensor,
    shares: Tensor | None,
    memory: Tensor,
    pending: Tensor,
    complete: Tensor,
    *,
    delta: bool,
) -> tuple[list[Tensor], Tensor]:
    """Segment after segment. Returns the memory before each of them and after the last, and what is pending then.

    features, values, shares: (B, H, N, L, D), (B, H, N, L, E), (B, H, N, L, 1). complete (B or 1, N): whether each
    segment ends among these tokens.
    """
    memories = [memory]
    # By unbind: the gradient of each of n slices would be as large as the whole.
    given = zip(
        features.unbind(2), values.unbind(2), [None] * features.shape[2] if shares is None else shares.unbind(2)
    )
    for n, (feature, value, share) in enumerate(given):
        pending = pending + write_memory(memory, feature, value, share, delta=delta)
        ends = complete[:, n, None, None, None]
        memory, pending = torch.where(ends, memory + pending, memory), torch.where(ends, 0.0, pending)
        memories.append(memory)
    return memories, pending
