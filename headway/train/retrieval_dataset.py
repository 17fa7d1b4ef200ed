"""Running text with the neighbours of its chunks, for a language model that retrieves (RETRO).

text ─► IndexedText ─► neighbours of every chunk, from the index ─► RetrievalDataset ─► Example(target, neighbours)

Sequences begin at multiples of the chunk, so that their chunks are those whose neighbours are known.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.data.batches import draw_chunk_starts
from headway.data.corpora import TextCorpus
from headway.files.cache import fingerprint, load_or_build
from headway.retrieval.chunk_index import ChunkIndex
from headway.retrieval.indexed_text import IndexedText, open_indexed_text, write_indexed_text
from headway.retrieval.neighbour_search import load_or_find_neighbours
from headway.train.dataset import EXAMPLES_PER_SHARD, EpochShard
from headway.train.objectives import Example
from headway.train.preparation import EncodingProgress, Log, log_nothing
from headway.translate.retriever import open_retriever

if TYPE_CHECKING:
    from headway.config.config import Config
    from headway.text.tokenizer.tokenizer import Tokenizer
    from headway.train.sources import TrainingTexts


def make_retrieval_datasets(
    config: "Config", texts: "TrainingTexts", tokenizer: "Tokenizer", log: Log = log_nothing
) -> "tuple[RetrievalDataset, RetrievalDataset]":
    """For training and for validation."""
    retriever = open_retriever(config, tokenizer)
    assert texts.text is not None and texts.valid_text is not None
    settings = config.train
    found = []
    for corpus, name in ((texts.text, "training"), (texts.valid_text, "validation")):
        text = load_indexed_text(corpus, retriever.index, log)
        progress = NeighbourProgress(log, name)
        neighbours = load_or_find_neighbours(
            retriever.index, text, corpus.identity, retriever.count, progress.on_chunks
        )
        found.append((text, neighbours))
    (text, neighbours), (valid_text, valid_neighbours) = found
    return (
        RetrievalDataset(text, neighbours, retriever.index, settings.max_tokens, settings.seed),
        WholeRetrievalDataset(valid_text, valid_neighbours, retriever.index, settings.max_tokens),
    )


class NeighbourProgress:
    """Says how far a search is, once it has begun."""

    def __init__(self, log: Log, name: str) -> None:
        self.log = log
        self.name = name
        self.progress: EncodingProgress | None = None

    def on_chunks(self, done: int, total: int) -> None:
        if self.progress is None:
            unit = f"chunks of the {self.name} text"
            self.progress = EncodingProgress(self.log, total, unit, ("looking for neighbours of", "looked at"))
        self.progress.on_rows(done)


def load_indexed_text(corpus: TextCorpus, index: ChunkIndex, log: Log = log_nothing) -> IndexedText:
    """A text as ids with its documents, as the index cuts them, from the cache if it is there."""

    def build(folder: Path) -> None:
        log(f"encoding {corpus.counts.lines:,} lines")
        write_indexed_text(folder, corpus.read(), index.document_rule, index.tokenizer)

    key = fingerprint([corpus.identity, index.tokenizer.fingerprint(), index.document_rule])
    return load_or_build("documents_of_text", key, build, open_indexed_text)


class RetrievalExamples:
    """Pieces of a text, with the neighbours of their complete chunks."""

    def __init__(
        self, text: IndexedText, neighbours: np.ndarray, index: ChunkIndex, starts: np.ndarray, ends: np.ndarray
    ) -> None:
        self.text = text
        self.neighbours = neighbours  # (chunks, k)
        self.index = index
        self.starts = starts  # multiples of the chunk
        self.ends = ends

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Example:
        start, end = int(self.starts[index]), int(self.ends[index])
        size = self.index.chunk_tokens
        first = start // size
        rows = np.asarray(self.neighbours[first : first + (end - 1 - start) // size])  # the last token is a label only
        target = np.asarray(self.text.ids[start:end])
        return Example(target[:0], target, neighbours=self.index.retrieved_tokens(rows))


class RetrievalDataset:
    """One long text in pieces of `length` tokens, cut elsewhere in each epoch."""

    skipped_summary = ""

    def __init__(self, text: IndexedText, neighbours: np.ndarray, index: ChunkIndex, length: int, seed: int) -> None:
        self.text = text
        self.neighbours = neighbours
        self.index = index
        self.length = length  # a multiple of the chunk
        self.seed = seed

    @property
    def size(self) -> int:
        return max(len(self.text.ids) - 1, 0)  # the first token is no label

    def epoch(self, number: int) -> Iterator[EpochShard]:
        size = self.index.chunk_tokens
        starts = size * draw_chunk_starts(self.size // size + 1, self.length // size, self.seed, number)
        parts = -(-len(starts) // EXAMPLES_PER_SHARD)
        for part in np.random.default_rng([number, parts]).permutation(parts).tolist():
            own = starts[len(starts) * part // parts : len(starts) * (part + 1) // parts]
            yield self.make_shard(own)._replace(shard_count=parts)

    def make_shard(self, starts: np.ndarray) -> EpochShard:
        ends = np.minimum(starts + self.length, self.size)
        lengths = np.stack([np.zeros_like(starts), ends - starts], axis=1)
        return EpochShard(RetrievalExamples(self.text, self.neighbours, self.index, starts, ends + 1), lengths)

    def close(self) -> None:
        """Nothing to close."""


class WholeRetrievalDataset(RetrievalDataset):
    """For validation: every token from first to last."""

    def __init__(self, text: IndexedText, neighbours: np.ndarray, index: ChunkIndex, length: int) -> None:
        super().__init__(text, neighbours, index, length, 0)

    def epoch(self, number: int) -> Iterator[EpochShard]:
        yield self.make_shard(np.arange(0, self.size, self.length))


def index_settings(folder: str | Path, has_retrieval: bool) -> dict[str, Any]:
    """The settings of a config that follow from the index to train with. has_retrieval: the settings below have some,
    of which only the chunk is set."""
    from headway.retrieval.chunk_index import KIND
    from headway.retrieval.index_folder import read_about

    path = Path(folder).resolve()
    about = read_about(path, KIND)
    retrieval: dict[str, Any] = {"chunk": int(about.settings["chunk_tokens"])}
    retrieval |= {} if has_retrieval else {"kind": "retro"}
    return {
        "model": {"decoder": {"retrieval": retrieval}},
        "train": {"index": str(path), "index_fingerprint": about.fingerprint},
    }
