"""Objectives of tasks on top of an encoder: classify a text, tag its words, match two texts, embed texts. That of
problems, which a decoder solves, has a file of its own.

    Example ─► collate(): a padded batch ─► loss(): what its head says of the encoder's output, against the labels

Each names the head that it needs; both are chosen by `headway train --task`. A loss is summed over the labels that
count, like cross-entropy in headway.train.loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.context import ForwardReport
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.sequence import Memory
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.objectives import Batch, Example, pad_sequences
from headway.train.picture_examples import PictureExample, collate_pictures

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class TaskConfig(Part):
    """What the objectives of tasks have in common."""

    carry: ClassVar[bool] = False
    lookahead: ClassVar[int] = 0
    head: ClassVar[str] = "pooled"  # the kind of head that it needs

    def check(self, model: "Transformer.Config") -> None:
        if model.decoder.layers or not model.encoder.layers:
            raise ConfigError(f'"{self.kind}" needs an encoder only. Set decoder.layers = 0.', "model")
        if model.head.kind != self.head:
            raise ConfigError(
                f'"{self.kind}" needs the head "{self.head}", not "{model.head.kind}". Train with --task {self.kind}, '
                "which sets it.",
                "model.head",
            )
        weights = getattr(self, "weights", ())
        if weights and len(weights) != model.head.classes:
            raise ConfigError(
                f"{len(weights)} weights for {model.head.classes} labels: give one for each, in the order of `labels`.",
                "train.objective.weights",
            )

    def prepare(self, model: "Transformer") -> None:
        """Before the first step: what is not to be trained."""

    def loss(self, model: "Transformer", batch: Batch, smoothing: float, report: ForwardReport | None) -> Tensor:
        raise NotImplementedError

    def hidden(self, model: "Transformer", batch: Batch, report: ForwardReport | None) -> Memory:
        assert batch.source is not None
        return model.encode(batch.source, batch.source_valid, segments=batch.segments, report=report)

    def scores(self, model: "Transformer", batch: Batch, report: ForwardReport | None = None) -> Tensor:
        """(B, classes), of tags (B, S, classes)"""
        hidden = self.hidden(model, batch, report)
        result: Tensor = model.head(hidden.values, None, hidden.positions.valid)
        return result


def class_loss(scores: Tensor, labels: Tensor, weights: Sequence[float], smoothing: float) -> Tensor:
    """Cross-entropy in float32, summed over the labels that count."""
    by_class = torch.tensor(weights, device=scores.device) if weights else None
    return F.cross_entropy(
        scores.float().flatten(0, -2), labels.flatten(), by_class, ignore_index=IGNORE_INDEX, reduction="sum",
        label_smoothing=smoothing,
    )  # fmt: skip


class ClassifyObjective:
    """The label of a text or a picture: cross-entropy of the scores of a pooled head."""

    @dataclass(frozen=True, kw_only=True)
    class Config(TaskConfig):
        kind: str = "classify"
        balance: bool = False  # weigh labels so that rare ones count as much as frequent ones
        weights: tuple[float, ...] = ()  # of each label; with balance, from the training data

        def collate(
            self,
            examples: Sequence[Example] | Sequence[PictureExample],
            special: SpecialTokens,
            random: np.random.Generator,
        ) -> Batch:
            labels = torch.from_numpy(np.stack([example.target for example in examples]))  # (B, 1)
            count = int((labels != IGNORE_INDEX).sum())
            pictures = [example for example in examples if isinstance(example, PictureExample)]
            if pictures:
                patches = collate_pictures(pictures, random)
                return Batch(patches, None, None, None, labels, count, int(patches.valid.sum()))
            texts = [example.source for example in examples if isinstance(example, Example)]
            source, valid = pad_sequences(texts, special.pad)
            return Batch(source, valid, None, None, labels, count, int(valid.sum()))

        def loss(self, model: "Transformer", batch: Batch, smoothing: float, report: ForwardReport | None) -> Tensor:
            return class_loss(self.scores(model, batch, report)[:, None], batch.labels, self.weights, smoothing)


class TagObjective:
    """The tag of every word: cross-entropy at its first token. Other tokens have no label."""

    @dataclass(frozen=True, kw_only=True)
    class Config(TaskConfig):
        head: ClassVar[str] = "tags"
        kind: str = "tag"
        balance: bool = False
        weights: tuple[float, ...] = ()

        def collate(self, examples: Sequence[Example], special: SpecialTokens, random: np.random.Generator) -> Batch:
            source, valid = pad_sequences([example.source for example in examples], special.pad)
            labels, _ = pad_sequences([example.target for example in examples], IGNORE_INDEX)
            count = int((labels != IGNORE_INDEX).sum())
            return Batch(source, valid, None, None, labels, count, int(valid.sum()))

        def loss(self, model: "Transformer", batch: Batch, smoothing: float, report: ForwardReport | None) -> Tensor:
            return class_loss(self.scores(model, batch, report), batch.labels, self.weights, smoothing)


class MatchObjective:
    """The label of two texts that are read together, by cross-entropy; or their score, by the squared error."""

    @dataclass(frozen=True, kw_only=True)
    class Config(TaskConfig):
        kind: str = "match"
        balance: bool = False
        weights: tuple[float, ...] = ()
        low: float = 0.0  # the lowest score and the highest, which the model learns as 0 and 1
        high: float = 1.0

        def collate(self, examples: Sequence[Example], special: SpecialTokens, random: np.random.Generator) -> Batch:
            source, valid = pad_sequences([example.source for example in examples], special.pad)
            labels = torch.from_numpy(np.stack([example.target for example in examples]))  # (B, 1)
            second = torch.tensor([[int(example.others[0][0])] for example in examples])
            segments = (torch.arange(source.shape[1]) >= second).long() * valid
            count = int((labels != IGNORE_INDEX).sum())
            return Batch(source, valid, None, None, labels, count, int(valid.sum()), segments=segments)

        def loss(self, model: "Transformer", batch: Batch, smoothing: float, report: ForwardReport | None) -> Tensor:
            scores = self.scores(model, batch, report)  # (B, classes)
            if scores.shape[1] > 1:
                return class_loss(scores[:, None], batch.labels, self.weights, smoothing)
            counts = batch.labels != IGNORE_INDEX
            error = scores.float() - batch.labels.float()
            return (error.square() * counts).sum()

        def hidden(self, model: "Transformer", batch: Batch, report: ForwardReport | None) -> Memory:
            has_segments = model.config.embedding.segments > 1
            return super().hidden(model, batch if has_segments else batch._replace(segments=None), report)


class EmbedObjective:
    """Contrastive: the vector of a text shall be nearer to that of its partner than to those of all other texts in the
    batch. -log( exp(aᵢ·pᵢ/τ) / Σⱼ exp(aᵢ·pⱼ/τ) ), and with `symmetric` the mean of this and of its mirror image"""

    @dataclass(frozen=True, kw_only=True)
    class Config(TaskConfig):
        head: ClassVar[str] = "embedding"
        kind: str = "embed"
        temperature: float = number(0.05, low=0.001, high=100)
        symmetric: bool = True

        def collate(self, examples: Sequence[Example], special: SpecialTokens, random: np.random.Generator) -> Batch:
            """`inputs` (B, 1 + negatives, T) holds each positive, and the negatives that were given with it. Labels say
            which rows have a text in common: these are no negatives of each other."""
            source, valid = pad_sequences([example.source for example in examples], special.pad)
            count = 1 + max(len(example.others) for example in examples)
            nothing = np.zeros(0, np.int64)
            rows = [(e.target, *e.others, *[nothing] * (count - 1 - len(e.others))) for e in examples]
            others, others_valid = pad_sequences([text for row in rows for text in row], special.pad)
            shape = (len(examples), count, others.shape[1])
            labels = torch.tensor(group_rows(examples))[:, None]
            tokens = int(valid.sum()) + int(others_valid.sum())
            inputs = others.reshape(shape), others_valid.reshape(shape)
            return Batch(source, valid, *inputs, labels, len(examples), tokens)

        def loss(self, model: "Transformer", batch: Batch, smoothing: float, report: ForwardReport | None) -> Tensor:
            assert batch.inputs is not None and isinstance(batch.inputs_valid, Tensor)
            rows, count = batch.inputs.shape[:2]
            memory = self.hidden(model, batch, report)
            anchors = model.head.vector(memory.values, memory.positions.valid)  # (B, d)
            flat, valid = batch.inputs.flatten(0, 1), batch.inputs_valid.flatten(0, 1)
            real = valid.any(1)  # (B · candidates,)
            read = valid | ~real[:, None]  # texts that are not there are computed, and count nowhere
            vectors = model.head.vector(model.encode(flat, read, report=report).values, read)
            scores = anchors.float() @ vectors.float().T / self.temperature  # (B, B · candidates)
            labels = batch.labels[:, 0]
            own = torch.arange(rows, device=scores.device) * count
            alike = (labels[:, None] == labels[None]).repeat_interleave(count, 1)  # (B, B · candidates)
            positive = F.one_hot(own, rows * count).bool()
            negatives_of_own = torch.arange(rows * count, device=scores.device)[None] // count == own[:, None] // count
            hidden = ~real[None] | (alike & ~positive & ~negatives_of_own)
            scores = scores.masked_fill(hidden, -torch.inf)
            counts = labels != IGNORE_INDEX
            loss = F.cross_entropy(scores, own, reduction="none", label_smoothing=0.0)
            if self.symmetric:
                back = scores[:, ::count].T  # (positives, anchors)
                mirrored = F.cross_entropy(back, torch.arange(rows, device=scores.device), reduction="none")
                loss = (loss + mirrored) / 2
            return torch.where(counts, loss, 0.0).sum()


def group_rows(examples: Sequence[Example]) -> list[int]:
    """A number for each row; rows that have a text in common, also by way of others, have the same."""
    groups = list(range(len(examples)))

    def find(row: int) -> int:
        while groups[row] != row:
            groups[row] = groups[groups[row]]
            row = groups[row]
        return row

    seen: dict[bytes, int] = {}
    for row, example in enumerate(examples):
        for text in (example.source, example.target):
            first = seen.setdefault(text.tobytes(), row)
            groups[find(row)] = find(first)
    return [find(row) for row in range(len(examples))]
