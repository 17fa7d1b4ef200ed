"""What is learned: how examples become a batch with labels. The loss is the same for all, cross-entropy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.data.batches import rounded
from headway.errors import ConfigError
from headway.parts import Part, number

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer

IGNORED = -100  # a label that does not count


class Example(NamedTuple):
    source: np.ndarray  # with its end token; empty for a language model
    target: np.ndarray  # without start and end


class Marks(NamedTuple):
    """The ids that frame text."""

    pad: int
    start: int
    end: int
    mask: int
    vocabulary: int


class Batch(NamedTuple):
    source: Tensor | None  # (B, S)
    source_valid: Tensor | None
    inputs: Tensor | None  # (B, T) what the decoder reads
    inputs_valid: Tensor | None
    labels: Tensor  # (B, T) what it should say
    labelled: int  # labels that count
    tokens: int  # real tokens, source and target

    def shaped(self, rows: int, grain: int) -> "Batch":
        """Padded to a shape that occurs again, for a compiled model: `rows` rows, lengths rounded up."""
        return Batch(
            _shaped(self.source, rows, grain, 0),
            _shaped(self.source_valid, rows, grain, 0),
            _shaped(self.inputs, rows, grain, 0),
            _shaped(self.inputs_valid, rows, grain, 0),
            _shaped(self.labels, rows, grain, IGNORED),  # type: ignore[arg-type]
            self.labelled,
            self.tokens,
        )

    def to(self, device: torch.device) -> "Batch":
        moved = [x.to(device, non_blocking=True) if isinstance(x, Tensor) else x for x in self]
        return Batch(*moved)  # type: ignore[arg-type]


def _shaped(x: Tensor | None, rows: int, grain: int, fill: int) -> Tensor | None:
    if x is None:
        return None
    wide = int(rounded(np.array(x.shape[1]), grain)) - x.shape[1]
    return torch.nn.functional.pad(x, (0, wide, 0, max(rows - x.shape[0], 0)), value=fill)


def padded(
    rows: Sequence[np.ndarray], fill: int, lead: Sequence[int] = (), tail: Sequence[int] = ()
) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor and what of it is real."""
    lengths = np.array([len(row) for row in rows]) + len(lead) + len(tail)
    length = max(int(lengths.max()), 1)
    valid = np.arange(length) < lengths[:, None]
    ids = np.full((len(rows), length), fill, dtype=np.int64)
    ids[valid] = np.concatenate([part for row in rows for part in (lead, row, tail)])
    return torch.from_numpy(ids), torch.from_numpy(valid)


class Translation:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "translation"

        def refuse(self, model: "Transformer.Config") -> None:
            if not (model.encoder.layers and model.decoder.layers):
                raise ConfigError(
                    "translation needs both sides. Give encoder.layers and decoder.layers, or train on --text.", "model"
                )

        def collate(self, examples: Sequence[Example], marks: Marks, random: np.random.Generator) -> Batch:
            source, source_valid = padded([example.source for example in examples], marks.pad)
            inputs, inputs_valid = padded([example.target for example in examples], marks.pad, lead=[marks.start])
            labels, _ = padded([example.target for example in examples], IGNORED, tail=[marks.end])
            count = sum(len(example.target) + 1 for example in examples)
            tokens = count + sum(len(example.source) for example in examples)
            return Batch(source, source_valid, inputs, inputs_valid, labels, count, tokens)


class Causal:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "causal"

        def refuse(self, model: "Transformer.Config") -> None:
            if model.encoder.layers or not model.decoder.layers:
                raise ConfigError("a language model has a decoder only. Set encoder.layers = 0.", "model")

        def collate(self, examples: Sequence[Example], marks: Marks, random: np.random.Generator) -> Batch:
            inputs, valid = padded([example.target[:-1] for example in examples], marks.pad)
            labels, _ = padded([example.target[1:] for example in examples], IGNORED)
            count = sum(len(example.target) - 1 for example in examples)
            return Batch(None, None, inputs, valid, labels, count, count)


class MaskedWords:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "masked"
        share: float = number(0.15, low=0.001, high=0.9)  # of the tokens are to be guessed
        hidden: float = number(0.8, low=0, high=1)  # of those show the mask,
        swapped: float = number(0.1, low=0, high=1)  # and these another token; the rest stay as they are

        def refuse(self, model: "Transformer.Config") -> None:
            if model.decoder.layers or not model.encoder.layers:
                raise ConfigError("masked words are guessed by an encoder alone. Set decoder.layers = 0.", "model")
            if self.hidden + self.swapped > 1:
                raise ConfigError(
                    f"hidden = {self.hidden} and swapped = {self.swapped} are shares of the same tokens: together at "
                    "most 1.",
                    "train.objective",
                )
            if model.head.kind == "pooled":
                raise ConfigError('a pooled head guesses no words. Set model.head = "masked".', "model.head")

        def collate(self, examples: Sequence[Example], marks: Marks, random: np.random.Generator) -> Batch:
            ids, valid = padded([example.target for example in examples], marks.pad)
            guessed = valid & torch.from_numpy(random.random(ids.shape) < self.share)
            guessed[:, 0] |= ~guessed.any(1)  # a row with nothing to guess would teach nothing
            dice = torch.from_numpy(random.random(ids.shape))
            shown = torch.where(guessed & (dice < self.hidden), marks.mask, ids)
            other = torch.from_numpy(random.integers(marks.mask + 1, marks.vocabulary, ids.shape))
            swap = guessed & (dice >= self.hidden) & (dice < self.hidden + self.swapped)
            labels = torch.where(guessed, ids, IGNORED)
            count = int(guessed.sum())
            return Batch(torch.where(swap, other, shown), valid, None, None, labels, count, int(valid.sum()))
