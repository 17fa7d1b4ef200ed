"""An index of token chunks, from which RETRO retrieves neighbours.

    tokenizer.json          of the text, and so of every model that reads it
    text.u?.ids, text.ends  the text as ids; document_ends, document_keys: headway.retrieval.indexed_text
    chunks                  (chunks, 2) offset of the first token and number of the document
    token_weights           (vocabulary,) of the embedding by n-grams
    vectors                 (chunks, width) the embedding of each chunk, of length 1
    approximate.faiss       if it was asked for: headway.retrieval.approximate

A chunk is `chunk_tokens` tokens of one document, or what is left of it. What is retrieved is the chunk and as many
tokens that follow it in its document: the continuation. Text, chunks and weights take little time and are made at once;
vectors are written block by block, and a run that was interrupted goes on behind the last of them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from headway.data.ragged import iterate_ranges
from headway.errors import HeadwayError
from headway.retrieval.approximate import ApproximateSearch, import_faiss, write_approximate
from headway.retrieval.array_file import ArrayWriter, map_array, write_array
from headway.retrieval.index_folder import IndexAbout, build_index, read_about
from headway.retrieval.indexed_text import (
    DocumentRule,
    IndexedText,
    open_indexed_text,
    write_indexed_text,
)
from headway.retrieval.ngram_embedding import PADDING, NgramEmbedding, count_weights
from headway.retrieval.vector_search import find_nearest
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer

KIND = "chunks"
APPROXIMATE_FILE = "approximate.faiss"
CHUNKS_PER_BLOCK = 4096
QUERIES_PER_BLOCK = 1024
ROWS_PER_SEARCH_BLOCK = 8192
MIN_CHUNK_SHARE = 8  # a rest of a document below 1 / 8 of a chunk is not indexed by itself
SPARE_CANDIDATES = 14  # beside those that are wanted, some of which are of the same document

TextEmbedder = Callable[[list[str]], np.ndarray]  # texts -> (texts, width), by a model
Listener = Callable[[str], None]


class ChunkEmbedding(Protocol):
    """What makes vectors of chunks."""

    def embed(self, ids: np.ndarray) -> np.ndarray:
        """ids (n, chunk_tokens), PADDING at the end of short ones -> (n, width), of length 1"""


class NeighbourRows(NamedTuple):
    """Chunks of an index, best first."""

    rows: np.ndarray  # (queries, k) int64; -1: there are no more
    scores: np.ndarray  # (queries, k) cosines


@dataclass(frozen=True)
class ModelEmbedding:
    """Vectors of the texts of chunks, by a model."""

    tokenizer: Tokenizer
    vectors_of: TextEmbedder

    def embed(self, ids: np.ndarray) -> np.ndarray:
        texts = [self.tokenizer.decode(row[row != PADDING].tolist()) for row in np.asarray(ids)]
        found = np.asarray(self.vectors_of(texts), np.float32)
        result: np.ndarray = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return result


@dataclass(frozen=True)
class ChunkIndex:
    folder: Path
    about: IndexAbout
    tokenizer: Tokenizer
    text: IndexedText
    chunks: np.ndarray  # (chunks, 2) offset of the first token, document
    vectors: np.ndarray  # (chunks, width)
    embedding: ChunkEmbedding
    approximate: ApproximateSearch | None = None

    def __len__(self) -> int:
        return len(self.chunks)

    @property
    def chunk_tokens(self) -> int:
        return int(self.about.settings["chunk_tokens"])

    @property
    def method(self) -> str:
        return "exact" if self.approximate is None else "approximate"

    @property
    def document_rule(self) -> DocumentRule:
        rule: DocumentRule = self.about.settings["documents"]
        return rule

    def search(self, queries: np.ndarray, k: int, excluded: list[frozenset[int]] | None = None) -> NeighbourRows:
        """The k chunks nearest to each query vector of length 1. `excluded`: for each query, keys of documents whose
        chunks it must not get."""
        rows = np.full((len(queries), k), -1, np.int64)
        scores = np.zeros((len(queries), k), np.float32)
        waiting = np.arange(len(queries))
        candidates = k if excluded is None else k + SPARE_CANDIDATES
        while len(waiting):
            found, cosines = self.find_candidates(queries[waiting], candidates)
            keep = self._allowed(found, None if excluded is None else [excluded[n] for n in waiting.tolist()])
            order = np.argsort(~keep, axis=1, kind="stable")[:, :k]  # those that are allowed first
            kept, best = np.take_along_axis(keep, order, 1), order.shape[1]
            rows[waiting, :best] = np.where(kept, np.take_along_axis(found, order, 1), -1)
            scores[waiting, :best] = np.where(kept, np.take_along_axis(cosines, order, 1), 0.0)
            enough = (keep.sum(1) >= k) | (candidates >= len(self))
            waiting, candidates = waiting[~enough], min(8 * candidates, len(self))
        return NeighbourRows(rows, scores)

    def find_candidates(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and cosines (queries, count) of the nearest chunks; -1 for rows that an approximate search missed, which
        finds no more than a part."""
        if self.approximate is not None and count < len(self):
            return self.approximate.find_nearest(queries, count)
        parts = [
            find_nearest(queries[start:stop], self.vectors, count, ROWS_PER_SEARCH_BLOCK)
            for start, stop in iterate_ranges(len(queries), QUERIES_PER_BLOCK)
        ]
        rows, scores = zip(*parts)
        return np.concatenate(rows), np.concatenate(scores)

    def _allowed(self, rows: np.ndarray, excluded: list[frozenset[int]] | None) -> np.ndarray:
        """Whether each of these rows (queries, n) may be given to its query."""
        found: np.ndarray = rows >= 0
        if excluded is None:
            return found
        keys = self.text.document_keys[self.chunks[rows, 1]]  # (queries, n)
        other = np.array([[key not in own for key in row] for row, own in zip(keys.tolist(), excluded)], bool)
        allowed: np.ndarray = found & other
        return allowed

    def retrieved_tokens(self, rows: np.ndarray) -> np.ndarray:
        """The ids of chunks with their continuations: rows (...) -> (..., 2 · chunk_tokens); PADDING behind the end of
        a document, and where the row is -1."""
        size = 2 * self.chunk_tokens
        start, document = np.moveaxis(self.chunks[rows], -1, 0)
        offsets = start[..., None] + np.arange(size)
        known = (offsets < self.text.document_ends[document][..., None]) & (rows >= 0)[..., None]
        ids = self.text.ids[np.where(known, offsets, 0)].astype(np.int64)
        result: np.ndarray = np.where(known, ids, PADDING)
        return result


def open_chunk_index(folder: Path, load_model: Callable[[str], TextEmbedder]) -> ChunkIndex:
    """`load_model` makes the embedder of a model, for an index whose vectors are a model's."""
    about = read_about(folder, KIND)
    try:
        chunks, width = int(about.counts["chunks"]), int(about.counts["width"])
        embedding_name = str(about.settings["embedding"])
    except (KeyError, ValueError, TypeError):
        raise HeadwayError(f"{folder} is damaged. Build the index again, with --overwrite.") from None
    tokenizer = Tokenizers.load(folder / "tokenizer.json").target
    embedding: ChunkEmbedding
    if embedding_name == "ngrams":
        embedding = open_ngram_embedding(folder, tokenizer, width)
    else:
        embedding = ModelEmbedding(tokenizer, load_model(embedding_name))
    vectors = map_array(folder / "vectors", width, "<f4", chunks)
    return ChunkIndex(
        folder,
        about,
        tokenizer,
        open_indexed_text(folder),
        map_array(folder / "chunks", 2, "<i8", chunks),
        vectors,
        embedding,
        ApproximateSearch(folder / APPROXIMATE_FILE, vectors)
        if about.settings.get("search") == "approximate"
        else None,
    )


def open_ngram_embedding(folder: Path, tokenizer: Tokenizer, width: int) -> NgramEmbedding:
    return NgramEmbedding(map_array(folder / "token_weights", 1, "<f8", tokenizer.size)[:, 0], width)


class ChunkIndexSource(NamedTuple):
    """What an index is made of."""

    identity: str  # a fingerprint of the text
    read_lines: Callable[[], Iterable[str]]
    tokenizer: Tokenizer
    documents: DocumentRule


@dataclass(frozen=True)
class ChunkIndexSettings:
    chunk_tokens: int = 64
    width: int = 512  # of the embedding by n-grams
    embedding: str = "ngrams"  # or the model that makes vectors
    approximate: bool = False  # by faiss


def build_chunk_index(
    folder: Path,
    source: ChunkIndexSource,
    settings: ChunkIndexSettings,
    embed_texts: TextEmbedder | None = None,
    *,
    overwrite: bool = False,
    log: Listener = lambda message: None,
    on_chunks: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, int]:
    """Build it, or go on with it. Returns the counts of index.json. `on_chunks` is told how many of how many chunks
    have a vector."""
    table: dict[str, Any] = {
        "text": source.identity,
        "documents": source.documents,
        "tokenizer": source.tokenizer.fingerprint(),
        "chunk_tokens": settings.chunk_tokens,
        "embedding": settings.embedding,
        **({"width": settings.width} if settings.embedding == "ngrams" else {}),
        "search": "approximate" if settings.approximate else "exact",
    }
    if settings.approximate:
        import_faiss()  # before anything is computed
    with build_index(folder, KIND, table, overwrite=overwrite) as build:
        if build.complete is not None:
            return build.complete.counts
        if not (folder / "chunks").exists():
            log("encoding the text")
            Tokenizers(source.tokenizer, source.tokenizer).save(folder / "tokenizer.json")
            write_indexed_text(folder, source.read_lines(), source.documents, source.tokenizer)
            text = open_indexed_text(folder)
            write_array(folder / "chunks", cut_chunks(text, settings.chunk_tokens), "<i8")
        text, chunks = open_indexed_text(folder), map_array(folder / "chunks", 2, "<i8")
        if not len(chunks):
            raise HeadwayError(
                f"no document is long enough for a chunk of {settings.chunk_tokens} tokens. Give a smaller "
                "--chunk-tokens, or --documents blank for text whose lines belong together."
            )
        embedding: ChunkEmbedding
        if embed_texts is None:
            if not (folder / "token_weights").exists():
                blocks = (ids for _, ids in read_chunks(text, chunks, settings.chunk_tokens))
                weights = count_weights(blocks, source.tokenizer.size)
                write_array(folder / "token_weights", weights[:, None], "<f8")
            embedding = open_ngram_embedding(folder, source.tokenizer, settings.width)
        else:
            embedding = ModelEmbedding(source.tokenizer, embed_texts)
        width = _write_vectors(folder, embedding, text, chunks, settings, on_chunks)
        if settings.approximate and not (folder / APPROXIMATE_FILE).exists():
            log("building the approximate search")
            write_approximate(folder / APPROXIMATE_FILE, map_array(folder / "vectors", width, "<f4", len(chunks)))
        counts = {
            "tokens": len(text.ids), "documents": len(text.document_ends), "chunks": len(chunks), "width": width,
        }  # fmt: skip
        build.finish(counts)
        return counts


def _write_vectors(
    folder: Path,
    embedding: ChunkEmbedding,
    text: IndexedText,
    chunks: np.ndarray,
    settings: ChunkIndexSettings,
    on_chunks: Callable[[int, int], None],
) -> int:
    if (folder / "vectors").exists():
        return int((folder / "vectors").stat().st_size) // (4 * len(chunks))
    first = next(read_chunks(text, chunks[:1], settings.chunk_tokens))[1]
    width = int(embedding.embed(first).shape[1])
    with ArrayWriter(folder / "vectors", width, "<f4") as writer:
        for start, ids in read_chunks(text, chunks, settings.chunk_tokens, writer.rows):
            writer.append(embedding.embed(ids))
            on_chunks(start + len(ids), len(chunks))
        writer.finish()
    return width


def cut_chunks(text: IndexedText, size: int) -> np.ndarray:
    """(chunks, 2) the first offset and the document of each chunk."""
    ends = np.asarray(text.document_ends)
    starts = np.concatenate([[1], ends[:-1]])[: len(ends)]  # the line end before the first document belongs to none
    lengths = np.maximum(ends - starts, 0)
    rest = lengths % size
    counts = lengths // size + (rest >= max(1, size // MIN_CHUNK_SHARE))
    documents = np.repeat(np.arange(len(ends)), counts)
    numbers = np.arange(len(documents)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack([starts[documents] + size * numbers, documents], axis=1).astype(np.int64).reshape(-1, 2)


def read_chunks(text: IndexedText, chunks: np.ndarray, size: int, first: int = 0) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of chunks from one on: the number of the first, and their ids (n, size) with PADDING."""
    for begin in range(first, len(chunks), CHUNKS_PER_BLOCK):
        start, document = np.asarray(chunks[begin : begin + CHUNKS_PER_BLOCK]).T
        offsets = start[:, None] + np.arange(size)
        known = offsets < text.document_ends[document][:, None]
        yield begin, np.where(known, text.ids[np.where(known, offsets, 0)].astype(np.int64), PADDING)
