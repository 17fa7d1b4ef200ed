"""A user's text, read and tokenised: what training and validation draw examples from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headway.config import Config
from headway.data.batches import blocks
from headway.text import Tokenizer, Tokenizers
from headway.train.objectives import Example, Marks


class Pairs(NamedTuple):
    """Parallel text of one direction."""

    source: list[str]
    target: list[str]
    source_language: str = ""
    target_language: str = ""


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs. With subword dropout they are split anew in every epoch."""

    pairs: list[Pairs]
    tokenizers: Tokenizers
    tags: tuple[str, ...]
    longest: int
    dropout: float = 0.0

    def examples(self, epoch: int) -> list[Example]:
        """Every pair that is not empty and not too long, in the order of the corpus."""
        return [example for example in self._all() if self._fits(example)]

    def dropped(self) -> int:
        return sum(not self._fits(example) for example in self._all())

    def _fits(self, example: Example) -> bool:
        longest = max(len(example.source), len(example.target) + 1)
        return bool(example.target) and len(example.source) > 1 and longest <= self.longest

    def _all(self) -> Iterator[Example]:
        end = self.tokenizers.source.end
        for source, target, _, language in self.pairs:
            lead = [self.tokenizers.source.tags[language]] if self.tags else []
            sources = self.tokenizers.source.encode_batch(source, dropout=self.dropout)
            targets = self.tokenizers.target.encode_batch(target, dropout=self.dropout)
            for ids, answer in zip(sources, targets):
                yield Example([*lead, *ids, end], answer)


@dataclass(frozen=True)
class RunningText:
    """One long text, cut into pieces."""

    stream: np.ndarray
    length: int
    seed: int

    def examples(self, epoch: int) -> list[Example]:
        return [Example((), piece.tolist()) for piece in blocks(self.stream, self.length, self.seed, epoch)]

    def dropped(self) -> int:
        return 0


Corpus = ParallelText | RunningText


def text_stream(text: str, tokenizer: Tokenizer) -> np.ndarray:
    """A text as one row of ids, opened by the start token."""
    pieces = list(_pieces(text, 100_000))
    return np.array([tokenizer.start, *(i for ids in tokenizer.encode_batch(pieces) for i in ids)], dtype=np.int64)


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
