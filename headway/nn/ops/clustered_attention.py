"""Clustered attention: similar queries attend as one (Vyas 2020).

Queries are grouped by k-means over the signs of random projections, which is quick, and each group attends once, by its
mean. The improved form then corrects the keys that matter most: the K keys with the largest weights of a group share
out the same sum of weights, but each query does so by its own scores.

    A_i  = A_j = softmax(mean of the queries in group j · kᵀ / √d)     for all queries i of group j
    A_is = m_j exp(q_i·k_s/√d) / Σ_{r ∈ T_j} exp(q_i·k_r/√d)           for s ∈ T_j, the K largest of A_j; m_j: their sum

Two forms, equal up to rounding: `dense_clustered` (the specification: the weights of every pair) and `clustered`, which
is linear in the number of queries. Shapes: q (B, H, T, D), k (B, H, T, D), v (B, H, T, E), valid (B, T).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from headway.nn.ops.attention import masked_softmax


class Clustering(NamedTuple):
    """Which queries attend together."""

    group_of: Tensor  # (B, H, T) of each query; padding belongs to some group, but does not count in its mean
    groups: int  # how many; some may be empty


def draw_planes(width: int, bits: int, seed: int) -> Tensor:
    """Random directions (D, bits), the same for the same seed on every machine."""
    return torch.randn(width, bits, generator=torch.Generator("cpu").manual_seed(seed), device="cpu")


@torch.no_grad()
def cluster_queries(q: Tensor, planes: Tensor, clusters: int, iterations: int, valid: Tensor | None) -> Clustering:
    """k-means over the signs of q · planes, by the number of signs that differ. Its first centre is the first query,
    and each further one is the query that differs most from all centres so far; then they move to the majority of their
    groups. Where distances are equal, the first counts. With as many clusters as there are different signs, only
    queries with the same signs are together."""
    count = min(clusters, q.shape[2])
    signs = torch.where(q.float() @ planes.float() >= 0, 1.0, -1.0)  # (B, H, T, bits)
    centres, agreement = _spread_centres(signs, count, valid)
    counted = signs if valid is None else signs * valid[:, None, :, None]
    group_of = _first_largest(agreement)
    for _ in range(iterations):
        votes = torch.zeros_like(centres).scatter_add_(2, group_of[..., None].expand_as(counted), counted)
        centres = torch.where(votes == 0, centres, votes.sign())  # an empty group keeps its centre
        group_of = _first_largest(signs @ centres.mT)
    return Clustering(group_of, count)


def _spread_centres(signs: Tensor, count: int, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """Centres (B, H, C, bits), and how many signs of each query agree with them, less those that differ: (B, H, T,
    C)."""
    chosen = torch.zeros(signs.shape[:2], dtype=torch.long, device=signs.device)  # (B, H)
    centres, agreements = [], []
    nearest = torch.full(signs.shape[:3], -torch.inf, device=signs.device)  # agreement with the nearest centre
    if valid is not None:
        nearest = nearest.masked_fill(~valid[:, None], torch.inf)  # padding is never chosen
    for _ in range(count):
        centres.append(signs.take_along_dim(chosen[..., None, None], 2))
        agreements.append(signs @ centres[-1].mT)  # (B, H, T, 1)
        nearest = torch.maximum(nearest, agreements[-1].squeeze(-1))
        chosen = _first_largest(-nearest)
    return torch.cat(centres, 2), torch.cat(agreements, 3)


def _first_largest(x: Tensor) -> Tensor:
    """The first of the largest along the last axis: argmax does not say which one it takes."""
    last = x.shape[-1] - 1
    places = torch.arange(last, -1, -1, device=x.device)
    return last - torch.where(x == x.amax(-1, keepdim=True), places, -1).amax(-1)


def dense_clustered(
    q: Tensor, k: Tensor, v: Tensor, clustering: Clustering, top_k: int, valid: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The output (B, H, T, E) and the weights of every pair (B, H, T, T)."""
    allowed = None if valid is None else valid[:, None, None]
    weights = masked_softmax(_scores(_mean_queries(q, clustering, valid), k), allowed)  # (B, H, C, T)
    top = torch.zeros_like(weights, dtype=torch.bool).scatter_(-1, _top_keys(weights, top_k), True)
    own, top = (x.take_along_dim(clustering.group_of[..., None], 2) for x in (weights, top))  # (B, H, T, T)
    exact = masked_softmax(_scores(q, k), top if allowed is None else top & allowed)
    own = torch.where(top, (own * top).sum(-1, keepdim=True) * exact, own)
    return own @ v, own


def clustered(
    q: Tensor, k: Tensor, v: Tensor, clustering: Clustering, top_k: int, valid: Tensor | None = None
) -> Tensor:
    """The same, from the weights of each group and the exact ones of its K keys."""
    allowed = None if valid is None else valid[:, None, None]
    weights = masked_softmax(_scores(_mean_queries(q, clustering, valid), k), allowed)  # (B, H, C, T)
    if not top_k:
        return (weights @ v).take_along_dim(clustering.group_of[..., None], 2)
    top = _top_keys(weights, top_k)  # (B, H, C, K)
    mass = weights.take_along_dim(top, 3).sum(-1, keepdim=True)  # (B, H, C, 1)
    others = weights.scatter(3, top, 0.0) @ v  # (B, H, C, E)
    keys = top.take_along_dim(clustering.group_of[..., None], 2)  # (B, H, T, K) of each query
    scores = (q[:, :, :, None] @ _pick(k, keys).mT).squeeze(3) * q.shape[-1] ** -0.5  # (B, H, T, K)
    seen = None if valid is None else valid[:, None, None].expand(-1, *keys.shape[1:3], -1).take_along_dim(keys, 3)
    exact = (masked_softmax(scores, seen)[:, :, :, None] @ _pick(v, keys)).squeeze(3)  # (B, H, T, E)
    own_mass, own_others = (x.take_along_dim(clustering.group_of[..., None], 2) for x in (mass, others))
    return own_others + own_mass * exact


def _mean_queries(q: Tensor, clustering: Clustering, valid: Tensor | None) -> Tensor:
    """(B, H, C, D). By a product, as scattered sums would depend on their order on a GPU."""
    groups = torch.arange(clustering.groups, device=q.device)[:, None]
    members = clustering.group_of[:, :, None] == groups  # (B, H, C, T)
    members = members if valid is None else members & valid[:, None, None]
    return (members.to(q.dtype) @ q) / members.sum(-1, keepdim=True).clamp(min=1).to(q.dtype)


def _top_keys(weights: Tensor, top_k: int) -> Tensor:
    return weights.detach().topk(min(top_k, weights.shape[-1]), -1).indices


def _pick(x: Tensor, keys: Tensor) -> Tensor:
    """(B, H, S, D) at (B, H, T, K) -> (B, H, T, K, D)"""
    return x.take_along_dim(keys.flatten(2)[..., None], 2).view(*keys.shape, x.shape[3])


def _scores(q: Tensor, k: Tensor) -> Tensor:
    scale: float = q.shape[-1] ** -0.5
    return q @ k.mT * scale
