"""Datasets of running text by lines, for denoising objectives: an example is a line, or several of one document.

Lines are encoded as the sides of pairs are, so that a model which is fine-tuned to translate reads its sources as it
read text before. Empty lines separate documents. A line that is too long is cut into pieces."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headway.data.corpora import TextCorpus
from headway.data.encoding import EncodedSide, encode_to_folder
from headway.data.ragged import RaggedArray, open_ragged
from headway.files.cache import fingerprint, load_or_build
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.dataset import EXAMPLES_PER_SHARD, EpochShard
from headway.train.objectives import Example
from headway.train.preparation import Log, log_nothing

MIN_TOKENS = 2  # of an example: of one token nothing is left when it is missing


def encode_text_lines(text: TextCorpus, tokenizer: Tokenizer, log: Log = log_nothing) -> RaggedArray:
    """A row of ids for each line, from the cache if they are there."""

    def build(folder: Path) -> None:
        log(f"encoding {text.counts.lines:,} lines")
        encode_to_folder(folder, ((line.strip(),) for line in text.read()), [EncodedSide("text", tokenizer)])

    key = fingerprint([text.identity, tokenizer.fingerprint(), "line by line"])
    return load_or_build("text", key, build, lambda folder: open_ragged(folder, "text"))


class LineExamples:
    """Runs of lines: line i ends at flat[line_ends[i]], and example n is the lines first[n] to last[n]."""

    def __init__(self, flat: np.ndarray, line_ends: np.ndarray, first: np.ndarray, last: np.ndarray) -> None:
        self.flat = flat
        self.line_ends = line_ends  # (lines,)
        self.first = first  # (examples,) the first line of each,
        self.last = last  # and the one after its last

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, index: int) -> Example:
        first, last = self.first[index], self.last[index]
        start = int(self.line_ends[first - 1]) if first else 0
        ends = np.asarray(self.line_ends[first:last])
        return Example(self.flat[:0], self.flat[start : ends[-1]], line_ends=ends - start)


class LineDataset:
    """Lines of text, at most `lines` of them in an example and at most `max_tokens` tokens, the end token counted."""

    skipped_summary = ""

    def __init__(self, rows: RaggedArray, max_tokens: int, lines: int) -> None:
        limit = max_tokens - 1
        ends, documents = cut_lines(rows.lengths(), limit)
        first, last = join_lines(np.diff(ends, prepend=0), documents, limit, lines)
        tokens = ends[last - 1] - np.where(first, ends[first - 1], 0)
        usable = tokens >= MIN_TOKENS
        self.flat = rows.flat
        self.line_ends = ends
        self.first = first[usable]
        self.last = last[usable]
        self.tokens = tokens[usable]

    @property
    def size(self) -> int:
        return len(self.first)

    def epoch(self, number: int) -> Iterator[EpochShard]:
        parts = -(-self.size // EXAMPLES_PER_SHARD)
        for part in np.random.default_rng([number, parts]).permutation(parts).tolist():
            own = slice(self.size * part // parts, self.size * (part + 1) // parts)
            examples = LineExamples(self.flat, self.line_ends, self.first[own], self.last[own])
            # Noise makes both sides shorter, or longer by as many masks as there are spans of length 0.
            lengths = np.repeat(self.tokens[own, None] + 1, 2, axis=1)
            yield EpochShard(examples, lengths, shard_count=parts)

    def close(self) -> None:
        """Nothing to close."""


def cut_lines(lengths: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each line that is not empty ends, and the number of its document; one that is longer than `limit` becomes
    pieces of that length and a rest."""
    documents = (lengths == 0).cumsum()[lengths > 0]
    full = lengths[lengths > 0]
    starts = full.cumsum() - full
    pieces = -(-full // limit)
    index = np.arange(pieces.sum()) - np.repeat(pieces.cumsum() - pieces, pieces)  # of each piece in its line
    ends = np.repeat(starts, pieces) + np.minimum((index + 1) * limit, np.repeat(full, pieces))
    return ends.astype(np.int64), np.repeat(documents, pieces)


def join_lines(lengths: np.ndarray, documents: np.ndarray, limit: int, lines: int) -> tuple[np.ndarray, np.ndarray]:
    """The first line of each example, and the one after its last: as many of one document as fit."""
    if lines == 1:
        first = np.arange(len(lengths))
        return first, first + 1
    bounds = [0]
    tokens = 0
    for line, (length, document) in enumerate(zip(lengths.tolist(), documents.tolist())):
        is_full = tokens + length > limit or (lines and line - bounds[-1] >= lines)
        if line and (is_full or document != documents[line - 1]):
            bounds.append(line)
            tokens = 0
        tokens += length
    first = np.array(bounds if len(lengths) else [], np.int64)
    return first, np.append(first[1:], len(lengths)) if len(first) else first
