"""Retriever: the neighbours of token chunks, for a model that retrieves.

    config.train.index, or a folder given ─► open_retriever() ─► Retriever(chunks) ─► Neighbours

The index has the tokens and the chunks of the model; its text may be another one than that of the training.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headway.errors import HeadwayError
from headway.nn.sequence import Neighbours
from headway.retrieval.chunk_index import ChunkIndex, NeighbourRows, open_chunk_index
from headway.retrieval.ngram_embedding import PADDING
from headway.translate.text_vectors import load_embedder

if TYPE_CHECKING:
    from headway.config.config import Config
    from headway.text.tokenizer.tokenizer import Tokenizer


class Retriever:
    def __init__(self, index: ChunkIndex, count: int) -> None:
        """`count`: neighbours of each chunk."""
        self.index = index
        self.count = count

    def __call__(self, chunks: Tensor) -> Neighbours:
        """chunks (n, m) of ids -> Neighbours of the shape (n, 1, K, R)"""
        found = self.search(chunks.cpu().numpy())
        return make_neighbours(self.index.retrieved_tokens(found.rows)[:, None], chunks.device)

    def search(self, chunks: np.ndarray, excluded: list[frozenset[int]] | None = None) -> NeighbourRows:
        """Rows of the index (n, K), and their cosines. `excluded`: as in ChunkIndex.search."""
        return self.index.search(self.index.embedding.embed(chunks), self.count, excluded)

    def text_of(self, row: int) -> tuple[str, str]:
        """A chunk of the index and its continuation."""
        ids = self.index.retrieved_tokens(np.array([row]))[0]
        size = self.index.chunk_tokens
        parts = ids[:size], ids[size:]
        first, rest = (self.index.tokenizer.decode(part[part != PADDING].tolist()) for part in parts)
        return first, rest


def make_neighbours(ids: np.ndarray, device: torch.device) -> Neighbours:
    """ids (B, C, K, R) with PADDING -> Neighbours"""
    given = torch.from_numpy(ids).to(device)
    valid = given != PADDING
    return Neighbours(given.masked_fill(~valid, 0), valid)


def open_retriever(config: "Config", tokenizer: "Tokenizer", folder: str | Path | None = None) -> Retriever:
    """Of an index that fits the model: by default the one that it was trained with."""
    retrieval: Any = config.model.decoder.retrieval
    if retrieval is None:
        raise HeadwayError("this model retrieves nothing: it was trained without --index. Leave --index out.")
    chosen = folder or config.train.index
    if not chosen:
        raise HeadwayError("this model retrieves, and its config names no index. Give one: --index DIR")
    path = Path(chosen)
    if not folder and not path.exists():
        raise HeadwayError(
            f"the index {path}, with which this model was trained, is not there any more. Say where it is: --index "
            "DIR, or read without neighbours: --index none"
        )
    index = open_chunk_index(path, load_embedder)
    check_fit(index, retrieval.chunk, tokenizer)
    return Retriever(index, retrieval.neighbours)


def check_fit(index: ChunkIndex, chunk: int, tokenizer: "Tokenizer") -> None:
    """Raise HeadwayError if a model with such chunks and tokens cannot read what the index holds."""
    if index.chunk_tokens != chunk:
        raise HeadwayError(
            f"{index.folder} has chunks of {index.chunk_tokens} tokens, and decoder.retrieval.chunk is {chunk}. Build "
            f"an index for it: headway index --chunk-tokens {chunk}"
        )
    if index.tokenizer.fingerprint() != tokenizer.fingerprint():
        raise HeadwayError(
            f"{index.folder} was built with another tokenizer than this model has. Build an index for it: headway "
            "index --tokenizer MODEL"
        )
