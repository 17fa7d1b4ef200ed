"""A user's text as training and validation see it: portions of examples, epoch after epoch, in constant memory."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from headway.config.config import Config
from headway.data.batches import GRAIN, token_batches
from headway.data.corpora import Parallel
from headway.data.encoding import Side, encode_to, workers_kept
from headway.data.epoch_encoder import EpochEncoder
from headway.data.ragged import Rows, joined, open_rows, stretches, together
from headway.errors import HeadwayError
from headway.files.cache import cached, fingerprint
from headway.text import Tokenizer, Tokenizers
from headway.text.align.words import word_roles
from headway.train.objectives import Example, Marks

PORTION = 1 << 20  # examples that are put in order together; more would take memory and change little


class Examples(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Example: ...


class Portion(NamedTuple):
    """Examples that are sorted and shuffled together."""

    examples: Examples
    lengths: np.ndarray  # (examples, 2), as the model will see them
    together: Sequence[np.ndarray] | None = None  # batches, in their order, where it matters
    portions: int = 1  # of like size in the epoch

    def batches(self, budget: int, seed: Sequence[int], grain: int = GRAIN) -> Sequence[np.ndarray]:
        """Which examples make each batch: like lengths by chance, unless it was decided."""
        return token_batches(self.lengths, budget, seed, grain) if self.together is None else self.together

    def sides(self, chosen: np.ndarray) -> tuple[Rows, Rows]:
        """Sources and targets of these examples, in an order of their own."""
        if isinstance(self.examples, Drawn):
            return self.examples.sides(chosen)
        examples = [self.examples[i] for i in chosen]
        return together([e.source for e in examples]), together([e.target for e in examples])


class Corpus(Protocol):
    @property
    def size(self) -> int:
        """How many examples there are to learn from."""

    @property
    def left_out(self) -> str:
        """What cannot be used and why, in words; '' where everything can."""

    def epoch(self, number: int) -> Iterator[Portion]:
        """What is learned in one epoch, in an order that depends on its number alone."""

    def close(self) -> None: ...


class Encoded(NamedTuple):
    """One corpus in ids."""

    source: Rows
    target: Rows
    weight: float = 1.0
    links: Rows | None = None  # source word, target word, source word, target word …

    def stretch(self, epoch: int, part: int, parts: int) -> np.ndarray:
        """The rows of one part of an epoch. A weight of 0.5 takes the first half in one epoch and the second in the
        next; a weight of 2 takes all of it twice."""
        count = len(self.source)
        first, last = (round(number * self.weight * count) for number in (epoch, epoch + 1))
        start, stop = (first + (last - first) * number // parts for number in (part, part + 1))
        rows: np.ndarray = np.arange(start, stop) % max(count, 1)
        return rows


class Drawn:
    """Examples in the rows of several corpora."""

    def __init__(self, corpora: Sequence[Encoded], owners: np.ndarray, rows: np.ndarray) -> None:
        self.corpora, self.owners, self.rows = corpora, owners, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Example:
        corpus, row = self.corpora[self.owners[index]], self.rows[index]
        links = None if corpus.links is None else corpus.links[row].reshape(-1, 2)
        return Example(corpus.source[row], corpus.target[row], links)

    def sides(self, chosen: np.ndarray) -> tuple[Rows, Rows]:
        """Sources and targets of these examples, corpus after corpus."""
        owners, rows = self.owners[chosen], self.rows[chosen]
        parts = [(corpus, rows[owners == owner]) for owner, corpus in enumerate(self.corpora)]
        return (
            joined([corpus.source.take(own) for corpus, own in parts]),
            joined([corpus.target.take(own) for corpus, own in parts]),
        )


class ParallelText:
    """Sentence pairs that are neither empty nor too long. `respelled` splits their words anew in every epoch."""

    def __init__(
        self, pairs: Sequence[Parallel], tokenizers: Tokenizers, tags: Sequence[str], longest: int,
        respelled: EpochEncoder | None = None, links: Sequence[Rows] = (),
    ) -> None:  # fmt: skip
        self.longest, self.shortest = longest, 1 + bool(tags)  # a source with its end, and with its tag if it has one
        self.respelled = respelled
        self.corpora = []
        with workers_kept():
            for number, p in enumerate(pairs):
                source, target = encoded(p, sides_of(p, tokenizers, tags))
                self.corpora.append(Encoded(source, target, p.weight, links[number] if links else None))
        self.size = self.empty = self.long = 0
        for corpus in self.corpora:
            for start, stop in stretches(len(corpus.source)):
                lengths = self._lengths(corpus, np.arange(start, stop))
                empty = self._empty(lengths)
                fits = self._fits(lengths)
                self.size += int(fits.sum())
                self.empty += int(empty.sum())
                self.long += int((~empty & ~fits).sum())

    @property
    def left_out(self) -> str:
        counts = [f"{self.empty:,} with an empty side"] * bool(self.empty)
        counts += [f"{self.long:,} longer than {self.longest} tokens"] * bool(self.long)
        return f"pairs left out: {', '.join(counts)}" if counts else ""

    def epoch(self, number: int) -> Iterator[Portion]:
        corpora = self.corpora
        if self.respelled is not None:
            rows = iter(self.respelled.epoch(number))
            corpora = [corpus._replace(source=next(rows), target=next(rows)) for corpus in corpora]
        total = sum(len(corpus.stretch(number, 0, 1)) for corpus in corpora)
        parts = -(-total // PORTION)
        for part in np.random.default_rng([number, parts]).permutation(parts).tolist():
            chosen = self._portion(corpora, [corpus.stretch(number, part, parts) for corpus in corpora])
            yield chosen._replace(portions=parts)

    def close(self) -> None:
        if self.respelled is not None:
            self.respelled.close()

    def _portion(self, corpora: Sequence[Encoded], stretches: Sequence[np.ndarray]) -> Portion:
        kept = []
        for owner, (corpus, rows) in enumerate(zip(corpora, stretches)):
            lengths = self._lengths(corpus, rows)
            fits = self._fits(lengths)
            kept.append((np.full(int(fits.sum()), owner, np.int32), rows[fits], lengths[fits]))
        owners, rows, lengths = (np.concatenate(parts) for parts in zip(*kept))
        return Portion(Drawn(corpora, owners, rows), lengths)

    @staticmethod
    def _lengths(corpus: Encoded, rows: np.ndarray) -> np.ndarray:
        """(rows, 2), as the model will see them: the target has one more, its start or its end."""
        read, said = (side.ends[rows] - np.where(rows, side.ends[rows - 1], 0) for side in corpus[:2])
        return np.stack([read, said + 1], axis=1)

    def _empty(self, lengths: np.ndarray) -> np.ndarray:
        return (lengths[:, 0] <= self.shortest) | (lengths[:, 1] <= 1)

    def _fits(self, lengths: np.ndarray) -> np.ndarray:
        fits: np.ndarray = ~self._empty(lengths) & (lengths.max(axis=1) <= self.longest)
        return fits


def sides_of(pairs: Parallel, tokenizers: Tokenizers, tags: Sequence[str]) -> tuple[Side, Side]:
    """How the two sides become ids: a source ends with its end token and, where there are several target languages,
    begins with the tag of its own."""
    source, target = tokenizers.source, tokenizers.target
    if tags and pairs.target_language not in tags:
        raise HeadwayError(
            f'a target is "{pairs.target_language}", and this model learns {", ".join(tags)}. Name the language of '
            "each --target, and of each --valid-target, by --to or by the file's name."
        )
    lead = [source.tags[pairs.target_language]] if tags else []
    return Side("source", source, lead, [source.end]), Side("target", target)


def encoded(pairs: Parallel, sides: Sequence[Side]) -> list[Rows]:
    """The rows of each side, from the cache where they are there."""
    spelling = [f"{side.name} {side.tokenizer.fingerprint()} {[*side.lead, *side.tail]}" for side in sides]
    return cached(
        "rows",
        fingerprint([pairs.identity, *spelling]),
        lambda folder: encode_to(folder, pairs.read(), sides),
        lambda folder: [open_rows(folder, side.name) for side in sides],
    )


def marks_for(config: Config, tokenizers: Tokenizers) -> Marks:
    """With what a guided head needs to find the words in a row of tokens."""
    marks = marks_of(tokenizers.target)
    if config.train.alignment.kind == "none":
        return marks
    return marks._replace(source_roles=word_roles(tokenizers.source), target_roles=word_roles(tokenizers.target))


def marks_of(tokenizer: Tokenizer) -> Marks:
    return Marks(tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.mask, tokenizer.size)


def dropout_of(config: Config) -> float:
    return float(getattr(config.tokenizer, "dropout", 0.0))
