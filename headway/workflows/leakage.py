"""How much of a text stands in an index word for word, and how well a model does on what does not.

    overlap of a chunk   the longest run of its tokens that one of its nearest chunks of the index has, too, with what
                         follows it there, as a share of the chunk (Borgeaud 2022)

A model that retrieves may copy what it finds. Its perplexity on chunks of small overlap tells what is left without.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headway.retrieval.neighbour_search import cut_queries, find_neighbours

if TYPE_CHECKING:
    from headway.retrieval.chunk_index import ChunkIndex
    from headway.retrieval.indexed_text import IndexedText
    from headway.translate.language_model import LanguageModel

SEARCHED_NEIGHBOURS = 10  # of each chunk
LIMITS = (0.125, 0.25, 0.5, 1.0)
ROWS_PER_BATCH = 16


class OverlapRow(NamedTuple):
    """The chunks whose overlap is at most `limit`."""

    limit: float
    share: float  # of all chunks
    perplexities: tuple[float, ...]  # of each model, on these chunks


def measure_leakage(models: "Sequence[LanguageModel]", text: str, index: "ChunkIndex") -> list[OverlapRow]:
    """Each model reads the text as it is set to: with neighbours or without. All have the tokenizer of the index."""
    from headway.retrieval.indexed_text import open_indexed_text, write_indexed_text

    with TemporaryDirectory(prefix="headway-") as folder:
        lines = text.removesuffix("\n").split("\n")
        write_indexed_text(Path(folder), lines, index.document_rule, index.tokenizer)
        indexed = open_indexed_text(Path(folder))
        overlaps = measure_overlaps(index, indexed)
        losses = [chunk_losses(model, indexed, index) for model in models]
    found = []
    for limit in LIMITS:
        kept = overlaps <= limit
        share = float(kept.mean()) if len(kept) else 0.0
        means = [float(own[kept].mean()) if kept.any() else math.nan for own in losses]
        found.append(OverlapRow(limit, share, tuple(math.exp(min(mean, 700.0)) for mean in means)))
    return found


def measure_overlaps(index: "ChunkIndex", text: "IndexedText", neighbours: int = SEARCHED_NEIGHBOURS) -> np.ndarray:
    """(chunks,) from 0 to 1, of each complete chunk of a text with the chunks nearest to itself."""
    size = index.chunk_tokens
    chunks = cut_queries(text.ids, size)
    rows = find_neighbours(index, text, neighbours, 0, len(chunks)).rows
    longest = np.zeros(len(chunks), np.int64)
    for column in rows.T:
        longest = np.maximum(longest, longest_common_runs(chunks, index.retrieved_tokens(column)))
    return longest / size


def longest_common_runs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """For rows of ids (n, a) and (n, b): how long the longest run of ids is that both have. Padding is below 0."""
    longest = np.zeros(len(first), np.int64)
    ending = np.zeros((len(second), second.shape[1] + 1), np.int64)  # of runs that end at each id of the second
    for column in first.T:
        same = (second == column[:, None]) & (column[:, None] >= 0)
        ending[:, 1:] = np.where(same, ending[:, :-1] + 1, 0)
        longest = np.maximum(longest, ending.max(1))
    return longest


def chunk_losses(model: "LanguageModel", text: "IndexedText", index: "ChunkIndex") -> np.ndarray:
    """(chunks,) mean loss in nats a token, of each complete chunk of a text."""
    import torch
    import torch.nn.functional as F

    from headway.nn.ops.cross_entropy import IGNORE_INDEX
    from headway.retrieval.neighbour_search import find_neighbours as search
    from headway.train.dataset import training_special_tokens
    from headway.train.retrieval_dataset import WholeRetrievalDataset

    size, config = index.chunk_tokens, model.config
    count = len(text.ids) // size
    retriever = model.retriever
    given = retriever.index if retriever is not None else index
    neighbours = 1 if retriever is None else retriever.count
    rows = search(given, text, neighbours, 0, count).rows if retriever is not None else np.full((count, 1), -1)
    dataset = WholeRetrievalDataset(text, rows, given, config.train.max_tokens)
    special = training_special_tokens(config, model.loaded.tokenizers)
    losses = np.full(len(text.ids), np.nan)  # of predicting each token
    (shard,) = dataset.epoch(0)
    starts: Any = shard.examples
    for first in range(0, len(shard.examples), ROWS_PER_BATCH):
        numbers = range(first, min(first + ROWS_PER_BATCH, len(shard.examples)))
        batch = config.train.objective.collate([shard.examples[n] for n in numbers], special, np.random.default_rng(0))
        batch = batch.to(model.model.device)
        with torch.no_grad():
            own = batch.neighbours if model.retrieves else None
            logits = model.model.logits(model.model.decode(batch.inputs, batch.inputs_valid, neighbours=own))
            each = F.cross_entropy(logits.transpose(1, 2), batch.labels, ignore_index=IGNORE_INDEX, reduction="none")
        for row, number in enumerate(numbers):
            start, end = int(starts.starts[number]), int(starts.ends[number])
            losses[start + 1 : end] = each[row, : end - 1 - start].double().cpu().numpy()
    result: np.ndarray = np.nanmean(losses[: count * size].reshape(count, size), axis=1)
    return result
