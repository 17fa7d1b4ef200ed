"""Rank fusion: one ranking from several whose scores cannot be compared."""

from collections import defaultdict
from collections.abc import Sequence

from headway.retrieval.bm25 import Hit

RANK_CONSTANT = 60  # of Cormack, Clarke and Büttcher: how little the first ranks differ


def fuse_ranks(rankings: Sequence[Sequence[int]], k: int, constant: int = RANK_CONSTANT) -> list[Hit]:
    """Reciprocal rank fusion: each ranking adds 1 / (constant + rank) to each of its documents, ranks from 1. The k
    best, best first; of equal ones the first document."""
    scores: dict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, document in enumerate(ranking, start=1):
            scores[document] += 1 / (constant + rank)
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Hit(document, score) for document, score in ordered[:k]]
