"""Approximate search by faiss: vectors in lists around centres, of which a query looks into a few (IVF).

Vectors are kept with 8 bits a number, and what is found is ranked again by the exact ones. The file is mapped into
memory, as the vectors are."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import HeadwayError
from headway.files.atomic import atomic_file

VECTORS_PER_LIST = 64  # on average
TRAINING_VECTORS_PER_LIST = 64
MIN_VECTORS = 256  # with fewer there is nothing to gain
MIN_PROBES = 8
PROBED_SHARE = 1 / 16  # of the lists
ROWS_PER_BLOCK = 65_536
SEED = 1


def import_faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise HeadwayError(
            "approximate search needs faiss, which is not installed: pip install faiss-cpu. Without --approximate the "
            "search is exact."
        ) from None
    return faiss


def write_approximate(path: Path, vectors: np.ndarray) -> None:
    """Centres are learned from a part of the vectors, then all of them are added."""
    faiss = import_faiss()
    lists = max(1, len(vectors) // VECTORS_PER_LIST)
    kind = f"IVF{lists},SQ8" if len(vectors) >= MIN_VECTORS else "Flat"
    index = faiss.index_factory(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    count = min(len(vectors), lists * TRAINING_VECTORS_PER_LIST)
    chosen = np.sort(np.random.default_rng(SEED).choice(len(vectors), count, replace=False))
    index.train(np.ascontiguousarray(vectors[chosen], np.float32))
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        index.add(np.ascontiguousarray(vectors[start : start + ROWS_PER_BLOCK], np.float32))
    with atomic_file(path) as partial:
        faiss.write_index(index, os.fspath(partial))


class ApproximateSearch:
    def __init__(self, path: Path, vectors: np.ndarray) -> None:
        faiss = import_faiss()
        try:
            self.index = faiss.read_index(os.fspath(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        except RuntimeError:
            raise HeadwayError(f"{path} cannot be read. Build the index again, with --overwrite.") from None
        if self.index.ntotal != len(vectors) or self.index.d != vectors.shape[1]:
            raise HeadwayError(f"{path} does not fit its index. Build the index again, with --overwrite.")
        self.vectors = vectors
        lists = getattr(self.index, "nlist", 1)
        self.parameters = None
        if lists > 1:
            probes = min(lists, max(MIN_PROBES, int(lists * PROBED_SHARE)))
            self.parameters = faiss.SearchParametersIVF(nprobe=probes)

    def find_nearest(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and cosines (queries, k), best first; rows that were not found are -1. As
        headway.retrieval.vector_search.find_nearest, which finds the best."""
        _, rows = self.index.search(np.ascontiguousarray(queries, np.float32), k, params=self.parameters)
        known = rows >= 0
        found = np.asarray(self.vectors[np.where(known, rows, 0)], np.float32)  # (queries, k, width)
        scores = np.where(known, np.einsum("qd,qkd->qk", queries, found), -np.inf).astype(np.float32)
        order = np.lexsort((rows, -scores), axis=1)
        return np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)
