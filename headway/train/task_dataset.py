"""Datasets of labelled text: LabelledData ─► TaskDataset ─► EpochShard, like those of pairs and of running text."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headway.config.config import Config
from headway.data.labelled_files import LabelledData, LabelledExample, is_scored
from headway.errors import ConfigError, HeadwayError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.text.problems import encode_answers, encode_problem, normalise_answer
from headway.text.task_text import encode_pair, encode_texts, encode_words, make_windows
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.dataset import EXAMPLES_PER_SHARD, EpochShard
from headway.train.objectives import Example
from headway.translate.graph_batches import graph_encoder


class TaskDataset:
    """Labelled text as token ids, in memory. Texts that are too long are cut; a label that the model does not know has
    no loss."""

    loader: Any = None  # of pictures

    def __init__(self, data: LabelledData, tokenizer: Tokenizer, config: Config) -> None:
        front_end = config.model.encoder.frontend
        if front_end is not None:
            raise ConfigError(
                f"the data holds text, and this model reads {front_end.reads}. Give pictures with --images, or choose "
                "another model.",
                "model.encoder.frontend",
            )
        self.data = data
        self.examples: Sequence[Any] = encode_examples(data.examples, tokenizer, config)
        self.empty_count = data.empty_count
        self.limit = config.train.max_tokens
        longest = np.array([len(e.source) for e in self.examples], np.int64)
        candidates = np.zeros_like(longest)  # tokens of a positive and its negatives; labels take no space of their own
        if data.task == "embed":
            others = np.array([max(map(len, (e.target, *e.others))) for e in self.examples], np.int64)
            candidates = others * np.array([1 + len(e.others) for e in self.examples])
            longest = np.maximum(longest, others)
        self.lengths = np.stack([[len(e.source) for e in self.examples], candidates], axis=1)
        self.too_long_count = len(data.examples) - len(self.examples)
        if data.task == "solve":  # problem and answer are one row, and none is cut
            rows = [(0, len(e.source) + len(e.target)) for e in self.examples]
            self.lengths = np.array(rows, np.int64).reshape(-1, 2)
            longest = np.zeros(0, np.int64)
        self.cut_count = int((longest >= self.limit).sum())

    @property
    def size(self) -> int:
        return len(self.examples)

    @property
    def skipped_summary(self) -> str:
        parts = [f"{self.empty_count:,} without text left out"] * bool(self.empty_count)
        parts += [f"{self.cut_count:,} read up to {self.limit} tokens only"] * bool(self.cut_count)
        parts += [f"{self.too_long_count:,} longer than {self.limit} tokens left out"] * bool(self.too_long_count)
        return f"examples: {', '.join(parts)}" if parts else ""

    def epoch(self, number: int) -> Iterator[EpochShard]:
        count = -(-len(self.examples) // EXAMPLES_PER_SHARD)
        for part in np.random.default_rng([number, count]).permutation(count).tolist():
            own = slice(len(self.examples) * part // count, len(self.examples) * (part + 1) // count)
            yield EpochShard(self.examples[own], self.lengths[own], shard_count=count)

    def close(self) -> None:
        """Nothing to close."""


def encode_examples(examples: Sequence[LabelledExample], tokenizer: Tokenizer, config: Config) -> list[Example]:
    """As the objective of the task collates them."""
    limit = config.train.max_tokens
    task = config.train.objective.kind
    index = {label: number for number, label in enumerate(config.labels or ())}
    if task == "tag":
        return [_encode_tagged(example, index, tokenizer, limit) for example in examples]
    if task == "solve":
        return _encode_problems(examples, index, tokenizer, config)
    if task == "match":
        return [_encode_pair(example, index, tokenizer, config) for example in examples]
    columns = max(len(example.texts) for example in examples) if examples else 0
    sides = [
        encode_texts([e.texts[column] if column < len(e.texts) else "" for e in examples], tokenizer, limit)
        for column in range(columns)
    ]
    if task == "classify":
        labels = [index.get(example.labels[0], IGNORE_INDEX) for example in examples]
        return [Example(_to_ids(ids), _to_ids([label])) for ids, label in zip(sides[0], labels)]
    return [
        Example(_to_ids(sides[0][n]), _to_ids(sides[1][n]), None, tuple(_to_ids(s[n]) for s in sides[2 : len(e.texts)]))
        for n, e in enumerate(examples)
    ]


def _to_ids(ids: Sequence[int]) -> np.ndarray:
    return np.array(ids, np.int64)


def _encode_tagged(example: LabelledExample, index: dict[str, int], tokenizer: Tokenizer, limit: int) -> Example:
    window = make_windows(encode_words(example.texts, tokenizer), tokenizer, limit)[0]
    labels = np.full(len(window.ids), IGNORE_INDEX, np.int64)
    labels[window.first_tokens] = [index.get(tag, IGNORE_INDEX) for tag in example.labels[: len(window.first_tokens)]]
    return Example(_to_ids(window.ids), labels)


def _encode_pair(example: LabelledExample, index: dict[str, int], tokenizer: Tokenizer, config: Config) -> Example:
    pair = encode_pair(example.texts[0], example.texts[1], tokenizer, config.train.max_tokens)
    label: Any = index.get(example.labels[0], IGNORE_INDEX)
    if not config.labels:
        objective = config.train.objective
        score = (float(example.labels[0]) - objective.low) / (objective.high - objective.low)
        return Example(_to_ids(pair.ids), np.array([score], np.float32), None, (_to_ids([pair.second]),))
    return Example(_to_ids(pair.ids), _to_ids([label]), None, (_to_ids([pair.second]),))


def _encode_problems(
    examples: Sequence[LabelledExample], index: dict[str, int], tokenizer: Tokenizer, config: Config
) -> list[Example]:
    """Without those that are too long: half of an answer is none."""
    encoder = graph_encoder(config, tokenizer)
    answers = encode_answers([normalise_answer(example.texts[1]) for example in examples], tokenizer)
    found = []
    for example, answer in zip(examples, answers):
        problem = encode_problem(example.texts[0], tokenizer)
        if len(problem) + len(answer) <= config.train.max_tokens:
            task = index.get(example.labels[0], -1) if example.labels else -1
            graph = None if encoder is None or example.graph is None else encoder.encode(example.graph, task)
            found.append(Example(_to_ids(problem), _to_ids(answer), graph=graph))
    return found


def find_labels(data: LabelledData) -> tuple[str, ...]:
    """The labels to learn, by name. Raises HeadwayError where there is nothing to tell apart."""
    if data.task == "embed" or is_scored(data):
        return ()
    labels = tuple(data.label_counts())
    if data.task == "solve":  # kinds of problems, perhaps a single one
        return labels
    if len(labels) < 2:
        raise HeadwayError(
            f'all {len(data.examples):,} examples have the label "{labels[0]}": give examples of at least two labels.'
        )
    if len(labels) > len(data.examples) // 2 and len(labels) > 100 and data.task != "tag":
        raise HeadwayError(
            f"{len(labels):,} different labels in {len(data.examples):,} examples: is the label in the last column? It "
            "must occur more than once to be learned."
        )
    return labels
