"""Vectors of texts in a .npy file, and the exact search for the nearest: matrix products over blocks of the file, which
stays on disk."""

import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.errors import HeadwayError
from headway.files.atomic import atomic_file, write_text_atomically

ROWS_PER_BLOCK = 65_536
MIN_LENGTH = 1e-12  # of a vector that is divided by its length


class Neighbour(NamedTuple):
    row: int  # in the index, from 0
    score: float  # the cosine of the angle


class VectorIndex(NamedTuple):
    vectors: np.ndarray  # (rows, d), of a file that is mapped into memory
    about: dict[str, Any]  # which model made them, and of which file


def normalise(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1, in float32."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    result: np.ndarray = (vectors / np.maximum(lengths, MIN_LENGTH)).astype(np.float32)
    return result


def write_index(path: Path, blocks: Iterable[np.ndarray], about: dict[str, Any]) -> int:
    """Write blocks of vectors as one .npy file, and beside it NAME.npy.json. Returns how many there are."""
    count, width = 0, 0
    with tempfile.TemporaryFile(dir=path.parent) as raw:  # how many there are is known, and written, last
        for block in blocks:
            raw.write(np.ascontiguousarray(block, np.float32).tobytes())
            count += len(block)
            width = block.shape[1]
        raw.seek(0)
        with atomic_file(path) as partial, partial.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
            np.lib.format.write_array_header_1_0(file, header)
            shutil.copyfileobj(raw, file)
    write_text_atomically(about_path(path), json.dumps({**about, "vectors": count, "width": width}) + "\n")
    return count


def about_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def open_index(path: Path) -> VectorIndex:
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise HeadwayError(
            f"there is no file {path}. Make it: headway embed --model MODEL lines.txt --out {path}"
        ) from None
    except (OSError, ValueError, EOFError):
        raise HeadwayError(f"{path} is not a .npy file of vectors. Make it with headway embed.") from None
    if vectors.size == 0:
        raise HeadwayError(f"{path} holds no vectors: embed a text that has lines.")
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise HeadwayError(
            f"{path} holds an array of {vectors.dtype} {vectors.shape}: give one of vectors, (rows, width)."
        )
    try:
        about = json.loads(about_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        about = {}
    return VectorIndex(vectors, about if isinstance(about, dict) else {})


def search_vectors(
    queries: np.ndarray, vectors: np.ndarray, k: int, rows_per_block: int = ROWS_PER_BLOCK
) -> list[list[Neighbour]]:
    """The k nearest vectors for each query, by cosine, best first; of equal ones the first."""
    if queries.shape[1] != vectors.shape[1]:
        raise HeadwayError(
            f"the query has {queries.shape[1]} numbers and the index {vectors.shape[1]}: they are not of the same "
            "model."
        )
    if k < 1:
        raise HeadwayError(f"k = {k}: give 1 or more.")
    rows, scores = find_nearest(normalise(queries), vectors, k, rows_per_block, unit=False)
    return [[Neighbour(row, score) for row, score in zip(*pair)] for pair in zip(rows.tolist(), scores.tolist())]


def find_nearest(
    queries: np.ndarray, vectors: np.ndarray, k: int, rows_per_block: int = ROWS_PER_BLOCK, *, unit: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The same as arrays (queries, k): rows and scores. The queries have the length 1, and with `unit` the vectors,
    too."""
    scores = np.zeros((len(queries), 0), np.float32)
    rows = np.zeros((len(queries), 0), np.int64)
    for start in range(0, len(vectors), rows_per_block):
        block = np.asarray(vectors[start : start + rows_per_block], np.float32)
        found = queries @ (block if unit else normalise(block)).T  # (queries, block)
        kept = min(k, found.shape[1])
        best = np.argpartition(-found, kept - 1, axis=1)[:, :kept]
        scores = np.concatenate([scores, np.take_along_axis(found, best, 1)], 1)
        rows = np.concatenate([rows, best + start], 1)
        order = np.lexsort((rows, -scores), axis=1)[:, :k]
        scores, rows = np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
    return rows, scores


def rank_of(queries: np.ndarray, vectors: np.ndarray, own: np.ndarray, rows_per_block: int = 1024) -> list[int]:
    """For each query the rank of one vector, its own, among all, from 1; equal ones rank behind it."""
    queries, vectors = normalise(queries), normalise(vectors)
    ranks: list[int] = []
    for start in range(0, len(queries), rows_per_block):
        block = slice(start, start + rows_per_block)
        scores = queries[block] @ vectors.T
        mine = np.take_along_axis(scores, own[block][:, None], 1)
        ranks += (1 + (scores > mine).sum(1)).tolist()
    return ranks
