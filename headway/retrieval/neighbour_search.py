"""The neighbours of every chunk of a text: searched once, before training, and kept beside the index.

    text as ids  |  chunk 0  |  chunk 1  |  chunk 2  | …        cut at multiples of chunk_tokens, across documents
    neighbours     rows of the index for each: DIR/neighbours/<fingerprint>

A chunk never gets a neighbour from the documents that it, or the chunk behind it, is a part of: their text would tell
what follows. Documents that begin alike count as the same (headway.retrieval.indexed_text), so copies are left out,
too. Passages that other documents share are not: headway.workflows.leakage measures how much they tell.
"""

import fcntl
from collections.abc import Callable
from pathlib import Path

import numpy as np

from headway.data.ragged import iterate_ranges
from headway.errors import HeadwayError
from headway.files.cache import fingerprint
from headway.retrieval.array_file import ArrayWriter, map_array
from headway.retrieval.chunk_index import ChunkIndex, NeighbourRows
from headway.retrieval.indexed_text import IndexedText

SEARCH_VERSION = "1"  # another one where the same index would give other neighbours
CHUNKS_PER_SEARCH = 1024


def cut_queries(ids: np.ndarray, size: int) -> np.ndarray:
    """(chunks, size) the complete chunks of a text."""
    count = len(ids) // size
    return np.asarray(ids[: count * size], np.int64).reshape(count, size)


def excluded_documents(text: IndexedText, first: int, count: int, size: int) -> list[frozenset[int]]:
    """For chunks from one on: the keys of the documents that each is a part of, or the chunk behind it."""
    starts = np.arange(first, first + count) * size
    last = np.minimum(starts + 2 * size, len(text.ids)) - 1
    bounds = zip(text.documents_of(starts).tolist(), text.documents_of(last).tolist())
    keys = text.document_keys
    return [frozenset(keys[one : other + 1].tolist()) for one, other in bounds]


def find_neighbours(index: ChunkIndex, text: IndexedText, k: int, first: int, stop: int) -> NeighbourRows:
    """Of the chunks `first` to `stop` of a text."""
    size = index.chunk_tokens
    queries = cut_queries(text.ids[first * size : stop * size], size)
    excluded = excluded_documents(text, first, len(queries), size)
    return index.search(index.embedding.embed(queries), k, excluded)


def load_or_find_neighbours(
    index: ChunkIndex,
    text: IndexedText,
    identity: str,
    k: int,
    on_chunks: Callable[[int, int], None] = lambda done, total: None,
) -> np.ndarray:
    """(chunks, k) rows of the index, -1 where there are no more. An interrupted search goes on where it stopped.
    `identity`: a fingerprint of the text."""
    total = len(text.ids) // index.chunk_tokens
    key = fingerprint([SEARCH_VERSION, index.about.fingerprint, index.method, identity, str(k)])
    path = index.folder / "neighbours" / key
    if not path.exists():
        try:
            path.parent.mkdir(exist_ok=True)
            _write_neighbours(path, index, text, k, total, on_chunks)
        except PermissionError:
            raise HeadwayError(
                f"{path.parent} cannot be written to, and neighbours of the text are kept there. Copy the index to a "
                "folder of your own."
            ) from None
    return map_array(path, k, "<i8", total)


def _write_neighbours(
    path: Path, index: ChunkIndex, text: IndexedText, k: int, total: int, on_chunks: Callable[[int, int], None]
) -> None:
    with ArrayWriter(path, k, "<i8") as writer:
        try:
            fcntl.flock(writer.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeadwayError(
                f"another run is looking for the same neighbours, in {path.parent}. Wait until it has found them."
            ) from None
        for start, stop in iterate_ranges(total - writer.rows, CHUNKS_PER_SEARCH):
            first = writer.rows
            writer.append(find_neighbours(index, text, k, first, first + stop - start).rows)
            on_chunks(writer.rows, total)
        writer.finish()
