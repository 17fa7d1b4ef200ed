"""The objective of conditional masked language models: masked tokens of a target, given the source and the others.

source, target ─► some target tokens masked ─► the decoder sees all of the target ─► these tokens, its length"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from headway.config.schema import Part
from headway.errors import ConfigError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.objectives import Batch, Example, pad_sequences

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


class MaskedTargetObjective:
    """Predict the masked tokens of a target; how many are masked is uniform from one to all (CMLM)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        carry: ClassVar[bool] = False
        kind: str = "masked_target"

        def check(self, model: "Transformer.Config") -> None:
            if model.predicted_length is None:
                raise ConfigError(
                    "masked_target trains a decoder that sees all of its target, whose length is predicted. Set "
                    "model.predicted_length to the longest one, such as 256.",
                    "model.predicted_length",
                )

        def check_vocabulary(self, special: SpecialTokens, max_tokens: int) -> None:
            if special.mask < 0:
                raise ConfigError("this vocabulary has no mask token. Train a new one.", "train.objective")

        def collate(self, examples: Sequence[Example], special: SpecialTokens, random: np.random.Generator) -> Batch:
            source, source_valid = pad_sequences([example.source for example in examples], special.pad)
            targets = [example.target.astype(np.int64) for example in examples]  # as stored, they may be unsigned
            masks = [draw_masked(len(target), random) for target in targets]
            read = [np.where(mask, special.mask, target) for mask, target in zip(masks, targets)]
            said = [np.where(mask, target, IGNORE_INDEX) for mask, target in zip(masks, targets)]
            inputs, inputs_valid = pad_sequences(read, special.pad)
            labels, _ = pad_sequences(said, IGNORE_INDEX)
            label_count = sum(int(mask.sum()) for mask in masks)
            token_count = sum(len(example.source) + len(example.target) for example in examples)
            return Batch(source, source_valid, inputs, inputs_valid, labels, label_count, token_count)


def draw_masked(length: int, random: np.random.Generator) -> np.ndarray:
    """(length,) Which tokens are masked: first their number is drawn, uniform from 1 to all, then which."""
    masked = np.zeros(length, bool)
    if length:
        masked[random.permutation(length)[: random.integers(1, length + 1)]] = True
    return masked
