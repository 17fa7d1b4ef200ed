"""A user's text, read and tokenised: what training and validation draw examples from."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from headway.config import Config
from headway.data.batches import blocks
from headway.data.encoding import EpochEncoder, Rows, encode_rows
from headway.errors import HeadwayError
from headway.text import Tokenizer, Tokenizers
from headway.train.objectives import Example, Marks


class Pairs(NamedTuple):
    """Parallel text of one direction."""

    source: list[str]
    target: list[str]
    source_language: str = ""
    target_language: str = ""


class Corpus(Protocol):
    @property
    def size(self) -> int:
        """How many examples there are to learn from."""

    @property
    def left_out(self) -> str:
        """What cannot be used and why, in words; '' where everything can."""

    def epochs(self, first: int) -> Iterator[list[Example]]:
        """The examples of one epoch after another, from a given one on."""

    def close(self) -> None: ...


class ParallelText:
    """Sentence pairs that are neither empty nor too long. With subword dropout they are split anew in every epoch."""

    def __init__(
        self, pairs: Sequence[Pairs], tokenizers: Tokenizers, tags: Sequence[str], longest: int, dropout: float = 0.0
    ) -> None:
        self.pairs, self.tokenizers, self.tags = pairs, tokenizers, tags
        self.longest, self.dropout = longest, dropout
        self.encoder: EpochEncoder | None = None
        self.empty = 0  # pairs of which a side says nothing
        self.plain = self._paired([encode_rows(t, lines, 0.0, lead, tail) for t, lines, lead, tail in self._sides()])

    @property
    def size(self) -> int:
        return len(self.plain)

    @property
    def left_out(self) -> str:
        long = sum(len(p.source) for p in self.pairs) - len(self.plain) - self.empty
        counts = [f"{self.empty:,} with an empty side"] * bool(self.empty)
        counts += [f"{long:,} longer than {self.longest} tokens"] * bool(long)
        return f"pairs left out: {', '.join(counts)}" if counts else ""

    def epochs(self, first: int) -> Iterator[list[Example]]:
        if not self.dropout:
            while True:
                yield self.plain
        sides = [(t.to_json(), lines, lead, tail) for t, lines, lead, tail in self._sides()]
        self.encoder = EpochEncoder(sides, self.dropout)
        for rows in self.encoder.epochs():
            yield self._paired(rows)

    def close(self) -> None:
        if self.encoder is not None:
            self.encoder.close()

    def _sides(self) -> Iterator[tuple[Tokenizer, list[str], list[int], list[int]]]:
        source, target = self.tokenizers.source, self.tokenizers.target
        for p in self.pairs:
            if self.tags and p.target_language not in self.tags:
                raise HeadwayError(
                    f'a target is "{p.target_language}", and this model learns {", ".join(self.tags)}. Name the '
                    "language of each --target, and of each --valid-target, by --to or by the file's name."
                )
            lead = [source.tags[p.target_language]] if self.tags else []
            yield source, p.source, lead, [source.end]
            yield target, p.target, [], []

    def _paired(self, sides: list[Rows]) -> list[Example]:
        found, self.empty = [], 0
        for source, target in zip(sides[0::2], sides[1::2]):
            read, said = source.lengths(), target.lengths()
            empty = (read <= 1 + bool(self.tags)) | (said == 0)
            fits = ~empty & (np.maximum(read, said + 1) <= self.longest)
            self.empty += int(empty.sum())
            found += [Example(source[row], target[row]) for row in np.flatnonzero(fits).tolist()]
        return found


class RunningText:
    """One long text, cut into pieces, at other places in each epoch."""

    left_out = ""

    def __init__(self, stream: np.ndarray, length: int, seed: int) -> None:
        self.stream, self.length, self.seed = stream, length, seed

    @property
    def size(self) -> int:
        return max(len(self.stream) - 1, 0)  # the first token is only read

    def epochs(self, first: int) -> Iterator[list[Example]]:
        while True:
            yield [Example(self.stream[:0], piece) for piece in blocks(self.stream, self.length, self.seed, first)]
            first += 1

    def close(self) -> None:
        """Nothing is running."""


class WholeText(RunningText):
    """The same to measure on: from its first token to its last, the last piece shorter."""

    def __init__(self, stream: np.ndarray, length: int) -> None:
        super().__init__(stream, length, 0)

    def epochs(self, first: int) -> Iterator[list[Example]]:
        starts = range(0, self.size, self.length)
        while True:
            yield [Example(self.stream[:0], self.stream[start : start + self.length + 1]) for start in starts]


def text_stream(text: str, tokenizer: Tokenizer) -> np.ndarray:
    """A text as one row of ids, opened by the start token."""
    rows = encode_rows(tokenizer, list(_pieces(text, 100_000)))
    return np.concatenate([[tokenizer.start], rows.flat])


def _pieces(text: str, size: int) -> Iterator[str]:
    """Large pieces, cut before a line so that no token is torn: the tokenizer's work grows with a piece's length."""
    start = 0
    while start < len(text):
        end = start + size
        cut = text.rfind("\n", start + 1, end) if end < len(text) else len(text)
        end = cut if cut > start else min(end, len(text))
        yield text[start:end]
        start = end


def marks_of(tokenizer: Tokenizer) -> Marks:
    return Marks(tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.mask, tokenizer.size)


def lengths_of(examples: Sequence[Example]) -> np.ndarray:
    """(examples, 2), as the model will see them."""
    return np.array([(len(example.source), len(example.target) + 1) for example in examples], dtype=np.int64)


def dropout_of(config: Config) -> float:
    return float(getattr(config.tokenizer, "dropout", 0.0))
