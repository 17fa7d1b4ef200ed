"""Datasets of running text for language models: one long row of token ids, cut into chunks.

TextDataset            chunks in random order, cut elsewhere in each epoch
WholeTextDataset       the whole text once, for validation
ContiguousTextDataset  rows that continue from batch to batch (Transformer-XL), for the objective causal(carry)
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.batches import draw_chunk_starts
from headway.data.corpora import TextCorpus
from headway.data.encoding import EncodedSide, encode_to_folder
from headway.data.ragged import open_ragged
from headway.files.cache import fingerprint, load_or_build
from headway.text.lm_text import chunk_lines, encode_after_line_end, line_end_id
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.dataset import EXAMPLES_PER_SHARD, Dataset, EpochShard
from headway.train.objectives import Example
from headway.train.preparation import Log, log_nothing


def encode_text_file(text: TextCorpus, tokenizer: Tokenizer, log: Log = log_nothing) -> np.ndarray:
    """A text as one row of ids that begins with a line end, from the cache if it is there."""

    def build(folder: Path) -> None:
        log(f"encoding {text.counts.lines:,} lines")
        chunks = chunk_lines(text.read())
        first = [line_end_id(tokenizer), *encode_after_line_end(next(chunks, ""), tokenizer)]
        encode_to_folder(folder, ((chunk,) for chunk in chunks), [EncodedSide("text", tokenizer)], first)

    key = fingerprint([text.identity, tokenizer.fingerprint(), "behind a line end"])
    flat: np.ndarray = load_or_build("text", key, build, lambda folder: open_ragged(folder, "text").flat)
    return flat


class TextChunks:
    """Chunks of a text as examples."""

    def __init__(self, stream: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        self.stream = stream
        self.starts = starts
        self.ends = ends

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Example:
        return Example(self.stream[:0], self.stream[self.starts[index] : self.ends[index]])


class TextDataset:
    """One long text in chunks, cut elsewhere in each epoch. `lookahead`: tokens after a chunk that are labels only; 1
    for next-token prediction."""

    skipped_summary = ""

    def __init__(self, stream: np.ndarray, length: int, seed: int, lookahead: int = 1) -> None:
        self.stream = stream
        self.length = length
        self.seed = seed
        self.lookahead = lookahead

    @property
    def size(self) -> int:
        return max(len(self.stream) - self.lookahead, 0)  # with next-token prediction the first token is no label

    def epoch(self, number: int) -> Iterator[EpochShard]:
        starts = draw_chunk_starts(self.size + 1, self.length, self.seed, number)
        parts = -(-len(starts) // EXAMPLES_PER_SHARD)
        for part in np.random.default_rng([number, parts]).permutation(parts).tolist():
            own = starts[len(starts) * part // parts : len(starts) * (part + 1) // parts]
            yield self._make_shard(own)._replace(shard_count=parts)

    def close(self) -> None:
        """Nothing to close."""

    def _make_shard(self, starts: np.ndarray) -> EpochShard:
        ends = np.minimum(starts + self.length, self.size)
        lengths = np.stack([np.zeros_like(starts), ends - starts], axis=1)
        return EpochShard(TextChunks(self.stream, starts, ends + self.lookahead), lengths)


class WholeTextDataset(TextDataset):
    """For validation: every token from first to last, in chunks of which the last may be shorter."""

    def __init__(self, stream: np.ndarray, length: int, lookahead: int = 1) -> None:
        super().__init__(stream, length, 0, lookahead)

    def epoch(self, number: int) -> Iterator[EpochShard]:
        yield self._make_shard(np.arange(0, self.size, self.length))


class ContiguousTextDataset:
    """One long text read by several rows side by side, each of which continues in a batch where it stopped in the batch
    before. Every row has its own section of the text; with a seed the text begins elsewhere in each epoch."""

    skipped_summary = ""
    MIN_CHUNKS_PER_ROW = 4  # with fewer, there is hardly anything to carry over

    def __init__(self, stream: np.ndarray, length: int, budget: int, seed: int | None = None) -> None:
        self.stream = stream
        self.length = length
        self.seed = seed
        self.size = max(len(stream) - 1, 0)  # the first token is no label
        self.rows = max(1, min(budget // length, self.size // (length * self.MIN_CHUNKS_PER_ROW)))

    def epoch(self, number: int) -> Iterator[EpochShard]:
        shift = 0 if self.seed is None else int(np.random.default_rng([self.seed, number]).integers(self.length))
        shift = min(shift, max(self.size - 1, 0))
        bounds = shift + np.arange(self.rows + 1) * (self.size - shift) // self.rows  # of the sections
        chunks = -(-int(np.diff(bounds).max(initial=0)) // self.length)
        starts = bounds[:-1, None] + np.arange(chunks) * self.length  # (rows, chunks)
        ends = np.minimum(starts + self.length, bounds[1:, None])
        starts = np.minimum(starts, ends)
        lengths = np.stack([np.zeros(starts.size, np.int64), (ends - starts).ravel() + 1], axis=1)
        batches = np.arange(starts.size).reshape(starts.shape).T  # (chunks, rows)
        yield EpochShard(TextChunks(self.stream, starts.ravel(), ends.ravel() + 1), lengths, list(batches))

    def close(self) -> None:
        """Nothing to close."""


def make_validation_dataset(stream: np.ndarray, length: int, objective: Any) -> Dataset:
    """The whole text, as the objective reads it."""
    if objective.carry:
        return ContiguousTextDataset(stream, length, budget=8 * length)
    return WholeTextDataset(stream, length, objective.lookahead)
