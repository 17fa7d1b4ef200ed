"""Attention by locality-sensitive hashing (Reformer): tokens whose vectors point the same way meet, others do not.

Queries and keys are the same vectors, keys scaled to length 1. In each round of hashing a random rotation puts every
token into a bucket; tokens are sorted by bucket, then by position, and cut into chunks, and each chunk attends to
itself and to the chunk before it. All rounds share one softmax, in which a key that is met twice counts twice:

    o_t = Σ_s c_ts exp(q_t · k_s/|k_s|) v_s / Σ_s c_ts exp(q_t · k_s/|k_s|)        c_ts: how often t meets s

A token attends to itself only if it meets nobody else. The chunks of all rounds lie in a circle, so before the first
chunk of a round comes the last one of the round before; a text of a single chunk attends to itself alone. Padding
belongs to no chunk, so more of it changes nothing.

Two forms, equal up to rounding: `dense_lsh` (the specification) and `chunked_lsh`, which computes only the pairs that
meet: O(n log n). Shapes: qk (B, H, T, D), v (B, H, T, E), valid (B, T), buckets (B, H, R, T).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops.attention import masked_softmax
from headway.nn.ops.partial_softmax import PartialSoftmax, attend_partly, merge_parts

SELF_SCORE = -1e5  # of a token with itself: no weight, unless it meets nobody else
EPS = 1e-6  # of the mean square of a key
PADDING_BUCKET = 1 << 30  # behind all others


def draw_rotations(heads: int, width: int, rounds: int, buckets: int, seed: int) -> Tensor:
    """(H, D, R, buckets / 2), the same for the same seed on every machine."""
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(heads, width, rounds, buckets // 2, generator=generator, device="cpu")


@torch.no_grad()
def hash_tokens(qk: Tensor, rotations: Tensor, valid: Tensor | None = None) -> Tensor:
    """The bucket of each token in each round: (B, H, R, T). Padding has PADDING_BUCKET."""
    rotated = torch.einsum("bhtd,hdrn->bhrtn", qk, rotations.to(qk.dtype))
    buckets = torch.cat([rotated, -rotated], -1).argmax(-1)
    return buckets if valid is None else buckets.masked_fill(~valid[:, None, None], PADDING_BUCKET)


def dense_lsh(qk: Tensor, v: Tensor, buckets: Tensor, chunk: int, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Every pair: the output (B, H, T, E) and the weights (B, H, T, T)."""
    counts = count_meetings(buckets, chunk, valid)
    scores = qk @ _unit_keys(qk).mT
    own = torch.eye(qk.shape[2], dtype=torch.bool, device=qk.device)
    scores = scores.masked_fill(own, SELF_SCORE) + counts.clamp(min=1).to(qk.dtype).log()
    weights = masked_softmax(scores, counts > 0)
    return weights @ v, weights


@torch.no_grad()
def count_meetings(buckets: Tensor, chunk: int, valid: Tensor | None = None) -> Tensor:
    """In how many chunks, over all rounds, each query meets each key: (B, H, T, T)."""
    batch, heads, rounds, length = buckets.shape
    order = buckets.argsort(dim=-1, stable=True)
    chunk_of = order.argsort(-1) // chunk  # (B, H, R, T) the chunk of each token
    lengths = _lengths(buckets, valid)
    chunks = -(-lengths // chunk)  # (B,) of each round
    place = chunk_of + torch.arange(rounds, device=order.device)[:, None] * chunks[:, None, None, None]  # in the circle
    before = torch.where(chunks > 1, rounds * chunks, 0)[:, None, None, None]  # chunks in the circle; 0: a single one
    previous = torch.where(before > 0, (place - 1) % before.clamp(min=1), -1)
    counts = torch.zeros(batch, heads, length, length, dtype=torch.long, device=order.device)
    for r in range(rounds):
        query, query_previous = place[:, :, r, :, None], previous[:, :, r, :, None]
        counts += query == place[:, :, r, None]
        for other in range(rounds):
            counts += query_previous == place[:, :, other, None]
    return counts if valid is None else counts * valid[:, None, None]


def chunked_lsh(qk: Tensor, v: Tensor, buckets: Tensor, chunk: int, valid: Tensor | None = None) -> Tensor:
    """The same from only the pairs that meet."""
    cut = SortedChunks(buckets, chunk, valid)
    queries, keys, values = cut.gather(qk), cut.gather(_unit_keys(qk)), cut.gather(v)  # (B, H, R·N, M, D)
    keys, values = cut.look_back(keys), cut.look_back(values)  # (B, H, R·N, 2M, D)
    scores = (queries @ keys.mT).masked_fill(cut.is_self, SELF_SCORE)  # (B, H, R·N, M, 2M)
    parts = attend_partly(scores, values, cut.allowed)
    return merge_parts(PartialSoftmax(*map(cut.scatter, parts)), 2).to(v.dtype)


class SortedChunks:
    """Tokens sorted by bucket in each of R rounds, and cut into N chunks of M; the last ones may hold padding."""

    def __init__(self, buckets: Tensor, chunk: int, valid: Tensor | None) -> None:
        self.length, self.chunk = buckets.shape[3], chunk
        self.count = -(-self.length // chunk)
        self.missing = self.count * chunk - self.length
        if self.missing:  # padding that fills the last chunk: behind everything else
            buckets = F.pad(buckets, (0, self.missing), value=PADDING_BUCKET)
        self.order = buckets.argsort(dim=-1, stable=True)  # (B, H, R, N·M) positions
        self.inverse = self.order.argsort(-1)
        lengths = _lengths(buckets[..., : self.length], valid)
        self.previous = self._previous_chunks(-(-lengths // chunk), buckets.shape[2])  # (B, R·N)
        own = self.order.reshape(*buckets.shape[:2], -1, chunk)  # (B, H, R·N, M)
        keys = torch.cat([self._previous(own), own], -1)  # (B, H, R·N, 2M) positions
        self.is_self = own[..., None] == keys[..., None, :]  # (B, H, R·N, M, 2M)
        alone = (lengths <= chunk)[:, None, None, None] & (torch.arange(2 * chunk, device=keys.device) < chunk)
        self.allowed = ((keys < lengths[:, None, None, None]) & ~alone)[..., None, :]  # (B, H, R·N, 1, 2M)

    def _previous_chunks(self, chunks: Tensor, rounds: int) -> Tensor:
        """The place of the chunk before each one. chunks (B,): how many of a round hold real tokens."""
        place = torch.arange(rounds * self.count, device=chunks.device)
        last = (place // self.count - 1) % rounds * self.count + chunks.clamp(min=1)[:, None] - 1
        return torch.where(place % self.count == 0, last, place - 1)

    def _previous(self, x: Tensor) -> Tensor:
        """The chunk before each one: (B, H, R·N, M, …)"""
        index = self.previous.view(len(x), 1, -1, *[1] * (x.dim() - 3))
        return x.take_along_dim(index, 2)

    def look_back(self, x: Tensor) -> Tensor:
        """(B, H, R·N, M, D) -> (B, H, R·N, 2M, D), each chunk behind the one before it."""
        return torch.cat([self._previous(x), x], 3)

    def gather(self, x: Tensor) -> Tensor:
        """(B, H, T, D) -> (B, H, R·N, M, D)"""
        x = F.pad(x, (0, 0, 0, self.missing)) if self.missing else x
        ordered = x[:, :, None].take_along_dim(self.order[..., None], 3)  # (B, H, R, N·M, D)
        return ordered.reshape(*x.shape[:2], -1, self.chunk, x.shape[3])

    def scatter(self, x: Tensor) -> Tensor:
        """(B, H, R·N, M, D) -> (B, H, R, T, D)"""
        ordered = x.reshape(*self.inverse.shape, x.shape[4])
        return ordered.take_along_dim(self.inverse[..., None], 3)[:, :, :, : self.length]


def _unit_keys(qk: Tensor) -> Tensor:
    scale: float = qk.shape[-1] ** -0.5
    return F.rms_norm(qk, qk.shape[-1:], eps=EPS) * scale


def _lengths(buckets: Tensor, valid: Tensor | None) -> Tensor:
    """(B,) real tokens: padding is at the end."""
    if valid is None:
        return torch.full(buckets.shape[:1], buckets.shape[3], device=buckets.device)
    return valid.sum(1)
