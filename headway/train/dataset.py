"""Training and validation datasets of sentence pairs, read from the token cache in constant memory.

    corpora ─► encode_corpus() ─► EncodedCorpus ─► ParallelDataset.epoch(n) ─► EpochShard ─► data loader

An epoch is a sequence of shards: examples that are sorted and shuffled together.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from headway.config.config import Config
from headway.data.batches import PAD_MULTIPLE, make_padded_batches
from headway.data.corpora import ParallelCorpus
from headway.data.encoding import EncodedSide, encode_to_folder, keep_workers
from headway.data.epoch_encoder import EpochEncoder
from headway.data.ragged import RaggedArray, concatenate_ragged, iterate_ranges, open_ragged, ragged_from_arrays
from headway.errors import HeadwayError
from headway.files.cache import fingerprint, load_or_build
from headway.text.align.words import subword_roles, token_roles
from headway.text.tokenizer.direction_tokens import find_direction_tokens
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import SpecialTokens, special_tokens
from headway.train.objectives import Example
from headway.train.preparation import EncodingProgress, Log, log_nothing

EXAMPLES_PER_SHARD = 1 << 20  # more would take memory and change little


class Examples(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Any: ...  # what the objective collates: an Example, or a SentencePair


class EpochShard(NamedTuple):
    """Examples that are sorted and shuffled together."""

    examples: Examples
    lengths: np.ndarray  # (examples, 2) tokens of source and target, as the model reads them
    fixed_batches: Sequence[np.ndarray] | None = None  # batches in this order, for rows that continue
    shard_count: int = 1  # shards of this epoch, of similar size

    def batches(self, budget: int, seed: Sequence[int], pad_multiple: int = PAD_MULTIPLE) -> Sequence[np.ndarray]:
        """The indices of the examples of each batch: similar lengths in random order, unless batches are fixed."""
        if self.fixed_batches is not None:
            return self.fixed_batches
        return make_padded_batches(self.lengths, budget, seed, pad_multiple)

    def take(self, indices: np.ndarray) -> tuple[RaggedArray, RaggedArray]:
        """Sources and targets of these examples, paired, but not necessarily in this order."""
        if isinstance(self.examples, ShardExamples):
            return self.examples.take(indices)
        examples = [self.examples[i] for i in indices]
        return ragged_from_arrays([e.source for e in examples]), ragged_from_arrays([e.target for e in examples])


class Dataset(Protocol):
    @property
    def size(self) -> int:
        """How many examples there are to learn from."""

    @property
    def skipped_summary(self) -> str:
        """What cannot be used and why, as a message; "" if everything can."""

    def epoch(self, number: int) -> Iterator[EpochShard]:
        """The shards of one epoch, in an order that depends on its number alone."""

    def close(self) -> None: ...


class EncodedCorpus(NamedTuple):
    """One corpus as token ids."""

    source: RaggedArray
    target: RaggedArray
    weight: float = 1.0
    links: RaggedArray | None = None  # word alignment: source word, target word, source word, target word …

    def epoch_rows(self, epoch: int, part: int, parts: int) -> np.ndarray:
        """The row numbers of one part of an epoch. A weight of 0.5 takes the first half in one epoch and the second
        half in the next; a weight of 2 takes everything twice."""
        count = len(self.source)
        first, last = (round(number * self.weight * count) for number in (epoch, epoch + 1))
        start, stop = (first + (last - first) * number // parts for number in (part, part + 1))
        rows: np.ndarray = np.arange(start, stop) % max(count, 1)
        return rows


class ShardExamples:
    """Examples that are rows of several corpora."""

    def __init__(self, corpora: Sequence[EncodedCorpus], corpus_ids: np.ndarray, rows: np.ndarray) -> None:
        self.corpora = corpora
        self.corpus_ids = corpus_ids  # (examples,)
        self.rows = rows  # (examples,) in their corpus

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Example:
        corpus = self.corpora[self.corpus_ids[index]]
        row = self.rows[index]
        links = None if corpus.links is None else corpus.links[row].reshape(-1, 2)
        return Example(corpus.source[row], corpus.target[row], links)

    def take(self, indices: np.ndarray) -> tuple[RaggedArray, RaggedArray]:
        """Sources and targets of these examples, corpus after corpus."""
        corpus_ids = self.corpus_ids[indices]
        rows = self.rows[indices]
        parts = [(corpus, rows[corpus_ids == number]) for number, corpus in enumerate(self.corpora)]
        return (
            concatenate_ragged([corpus.source.take(own) for corpus, own in parts]),
            concatenate_ragged([corpus.target.take(own) for corpus, own in parts]),
        )


class ParallelDataset:
    """Sentence pairs that are neither empty nor too long. `epoch_encoder` (BPE dropout) encodes them anew
    each epoch."""

    def __init__(
        self,
        pairs: Sequence[ParallelCorpus],
        tokenizers: Tokenizers,
        tags: Sequence[str],
        max_tokens: int,
        epoch_encoder: EpochEncoder | None = None,
        links: Sequence[RaggedArray] = (),
        log: Log = log_nothing,
    ) -> None:
        self.max_tokens = max_tokens
        self.epoch_encoder = epoch_encoder
        self.corpora = []
        self.empty_lengths = np.array([1, 1])  # of a pair without text: control tokens only
        with keep_workers():
            for number, p in enumerate(pairs):
                sides = make_sides(p, tokenizers, tags)
                source, target = encode_corpus(p, sides, log)
                self.corpora.append(EncodedCorpus(source, target, p.weight, links[number] if links else None))
                self.empty_lengths = np.array([len(side.lead) + max(len(side.tail), 1) for side in sides])
        self.size = 0
        self.empty_count = 0
        self.too_long_count = 0
        for corpus in self.corpora:
            for start, stop in iterate_ranges(len(corpus.source)):
                lengths = self._lengths(corpus, np.arange(start, stop))
                empty = self._is_empty(lengths)
                fits = self._fits(lengths)
                self.size += int(fits.sum())
                self.empty_count += int(empty.sum())
                self.too_long_count += int((~empty & ~fits).sum())

    @property
    def skipped_summary(self) -> str:
        counts = [f"{self.empty_count:,} with an empty side"] * bool(self.empty_count)
        counts += [f"{self.too_long_count:,} longer than {self.max_tokens} tokens"] * bool(self.too_long_count)
        return f"pairs left out: {', '.join(counts)}" if counts else ""

    def epoch(self, number: int) -> Iterator[EpochShard]:
        corpora = self.corpora
        if self.epoch_encoder is not None:
            encoded = iter(self.epoch_encoder.epoch(number))
            corpora = [corpus._replace(source=next(encoded), target=next(encoded)) for corpus in corpora]
        total = sum(len(corpus.epoch_rows(number, 0, 1)) for corpus in corpora)
        parts = -(-total // EXAMPLES_PER_SHARD)
        for part in np.random.default_rng([number, parts]).permutation(parts).tolist():
            shard = self._make_shard(corpora, [corpus.epoch_rows(number, part, parts) for corpus in corpora])
            yield shard._replace(shard_count=parts)

    def close(self) -> None:
        if self.epoch_encoder is not None:
            self.epoch_encoder.close()

    def _make_shard(self, corpora: Sequence[EncodedCorpus], rows_of_each: Sequence[np.ndarray]) -> EpochShard:
        usable = []
        for number, (corpus, rows) in enumerate(zip(corpora, rows_of_each)):
            lengths = self._lengths(corpus, rows)
            fits = self._fits(lengths)
            usable.append((np.full(int(fits.sum()), number, np.int32), rows[fits], lengths[fits]))
        corpus_ids, rows, lengths = (np.concatenate(parts) for parts in zip(*usable))
        return EpochShard(ShardExamples(corpora, corpus_ids, rows), lengths)

    @staticmethod
    def _lengths(corpus: EncodedCorpus, rows: np.ndarray) -> np.ndarray:
        """(rows, 2) as the model reads them: the target has one token more, its start or its end."""
        sides = (corpus.source, corpus.target)
        source, target = (side.ends[rows] - np.where(rows, side.ends[rows - 1], 0) for side in sides)
        return np.stack([source, target + 1], axis=1)

    def _is_empty(self, lengths: np.ndarray) -> np.ndarray:
        return np.asarray((lengths <= self.empty_lengths).any(axis=1))

    def _fits(self, lengths: np.ndarray) -> np.ndarray:
        fits: np.ndarray = ~self._is_empty(lengths) & (lengths.max(axis=1) <= self.max_tokens)
        return fits


def make_sides(pairs: ParallelCorpus, tokenizers: Tokenizers, tags: Sequence[str]) -> tuple[EncodedSide, EncodedSide]:
    """How source and target are encoded: with the control tokens of their direction. The objective adds the start and
    the end of a target."""
    if tags and pairs.target_language not in tags:
        raise HeadwayError(
            f'a target has the language "{pairs.target_language}", but this model learns {", ".join(tags)}. Name the '
            "language of each --target and --valid-target with --to, or in the file name."
        )
    languages = pairs.source_language, pairs.target_language
    direction = find_direction_tokens(tokenizers, *languages, tagged=bool(tags))
    source = EncodedSide("source", tokenizers.source, direction.source_lead, direction.source_tail)
    return source, EncodedSide("target", tokenizers.target, direction.target_lead)


def encode_corpus(pairs: ParallelCorpus, sides: Sequence[EncodedSide], log: Log = log_nothing) -> list[RaggedArray]:
    """The token ids of each side, from the cache if they are there."""

    def build(folder: Path) -> None:
        progress = EncodingProgress(log, pairs.counts.lines, "pairs")
        encode_to_folder(folder, pairs.read(), sides, on_rows=progress.on_rows)

    spelling = [f"{side.name} {side.tokenizer.fingerprint()} {[*side.lead, *side.tail]}" for side in sides]
    return load_or_build(
        "rows",
        fingerprint([pairs.identity, *spelling]),
        build,
        lambda folder: [open_ragged(folder, side.name) for side in sides],
    )


def training_special_tokens(config: Config, tokenizers: Tokenizers) -> SpecialTokens:
    """Those of the target vocabulary; with guided alignment, or where words are masked, also the role of each token in
    a word."""
    special = special_tokens(tokenizers.target)
    if getattr(config.train.objective, "needs_words", False):
        return dataclasses.replace(special, target_roles=subword_roles(tokenizers.target))
    if config.train.alignment.kind == "none":
        return special
    return dataclasses.replace(
        special, source_roles=token_roles(tokenizers.source), target_roles=token_roles(tokenizers.target)
    )


def tokenizer_dropout(config: Config) -> float:
    return float(getattr(config.tokenizer, "dropout", 0.0))
