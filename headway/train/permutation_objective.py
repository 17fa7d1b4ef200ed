"""Permutation language modelling (XLNet): predict tokens in a random order, each from those before it in that order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.sequence import FactorisationOrder
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.objectives import Batch, Example, pad_sequences, refuse_unbounded_memory

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


class PermutationObjective:
    """Draw an order of each row's tokens; predict the last of them, given those before (partial prediction)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        lookahead: ClassVar[int] = 0
        kind: str = "permutation"
        share: float = number(1 / 6, low=0.001, high=1)  # of the tokens that are predicted: the paper's 1 / K
        max_span: int = number(5, low=1)  # neighbours that are predicted together; 1: single tokens
        # ordered: the tokens that are not predicted have an order, too; mutual: all of them see each other
        context: Literal["ordered", "mutual"] = "ordered"
        carry: bool = False  # each row continues where it stopped in the step before, with its carried state

        def check(self, model: "Transformer.Config") -> None:
            if model.encoder.layers or model.decoder.streams != 2:
                raise ConfigError(
                    "the permutation objective needs a decoder with two streams. Set encoder.layers = 0 and "
                    "decoder.streams = 2, or take the preset xlnet.",
                    "model",
                )
            if self.carry:
                refuse_unbounded_memory(model.resolved().decoder)

        def collate(self, examples: Sequence[Example], special: SpecialTokens, random: np.random.Generator) -> Batch:
            rows = [example.target for example in examples]
            rows = [row[:-1] for row in rows] if self.carry else rows  # the next row begins with it
            ids, valid = pad_sequences(rows, special.pad)
            drawn = [self.draw_order(len(row), random) for row in rows]
            ranks, _ = pad_sequences([self.rank_tokens(order, count) for order, count in drawn], 0)
            predicted, real = pad_sequences([np.sort(order[len(order) - count :]) for order, count in drawn], 0)
            labels = torch.where(real, ids.gather(1, predicted), IGNORE_INDEX)
            count = int(real.sum())
            order = FactorisationOrder(valid, ranks, predicted)
            return Batch(None, None, ids, order, labels, count, int(valid.sum()))

        def draw_order(self, length: int, random: np.random.Generator) -> tuple[np.ndarray, int]:
            """The indices of a row's tokens in the order of factorisation, and how many of the last are predicted."""
            predicted = self.draw_predicted(length, random)
            shuffled = random.permutation(length)
            order = np.concatenate([shuffled[~predicted[shuffled]], shuffled[predicted[shuffled]]])
            return order, int(predicted.sum())

        def draw_predicted(self, length: int, random: np.random.Generator) -> np.ndarray:
            """(T,) bool: about `share` of the tokens, in spans of 1 to max_span; at least one, if there is any.

            The row is cut into pieces of span / share tokens, each with its span somewhere inside."""
            predicted = np.zeros(length, bool)
            start = 0
            while start < length:
                span = int(random.integers(1, self.max_span + 1))
                piece = max(span, int(span / self.share + random.random()))  # rounded so that the mean is exact
                first = start + int(random.integers(piece - span + 1))
                predicted[first : first + span] = True
                start += piece
            if length and not predicted.any():
                predicted[random.integers(length)] = True
            return predicted

        def rank_tokens(self, order: np.ndarray, count: int) -> np.ndarray:
            """(T,) the rank of each token, given their order, of which the last `count` are predicted."""
            ranks: np.ndarray = np.argsort(order)
            return ranks if self.context == "ordered" else np.maximum(ranks - (len(order) - count - 1), 0)
