"""The masked objective (BERT): predict hidden tokens from those around them, and whether a text follows another.

Example, or SentencePair ─► collate: frame, choose what is predicted (masking.py), hide it ─► Batch with labels
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.masking import choose_spans, choose_words
from headway.train.objectives import Batch, Example, pad_sequences

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


class SentencePair(NamedTuple):
    """Two pieces of text, without control tokens."""

    first: np.ndarray
    second: np.ndarray
    follows: bool  # whether the second stands behind the first; else it is from another document


PAIR_TOKENS = 3  # around two texts: [CLS] first [SEP] second [SEP]


class MaskedObjective:
    """Predict masked tokens from those around them (BERT)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        carry: ClassVar[bool] = False
        lookahead: ClassVar[int] = 0
        kind: str = "masked"
        share: float = number(0.15, low=0.001, high=0.9)  # of the tokens that are predicted
        masked: float = number(0.8, low=0, high=1)  # of these, the share replaced by the mask token
        random: float = number(0.1, low=0, high=1)  # the share replaced by a random token; the rest stay as they are
        # What is chosen together: each token by itself, all tokens of a word, or spans of several words (SpanBERT).
        unit: Literal["tokens", "words", "spans"] = "tokens"
        span_stop: float = number(0.2, low=0.01, high=1)  # p of the geometric distribution of a span's words
        max_span: int = number(10, low=1)  # words
        next_sentence: bool = False  # also tell whether the second of two texts follows the first

        def check(self, model: "Transformer.Config") -> None:
            if model.decoder.layers or not model.encoder.layers:
                raise ConfigError("the masked objective needs an encoder only. Set decoder.layers = 0.", "model")
            if self.masked + self.random > 1:
                raise ConfigError(
                    f"masked = {self.masked} and random = {self.random} are shares of the same tokens: their sum "
                    "must be at most 1.",
                    "train.objective",
                )
            if model.head.kind in ("pooled", "tags"):
                raise ConfigError(
                    f'a {model.head.kind} head predicts no tokens. Set model.head = "masked".', "model.head"
                )
            if self.next_sentence and not getattr(model.head, "next_sentence", False):
                raise ConfigError(
                    "next sentences need a head that scores them. Set "
                    'model.head = "masked(next_sentence=true)", or take the preset bert.',
                    "model.head",
                )
            if self.next_sentence and model.embedding.segments < 2:
                raise ConfigError(
                    f"next sentences are learned from pairs of texts, which need an embedding each, and there are "
                    f"{model.embedding.segments}. Set model.embedding.segments = 2.",
                    "model.embedding.segments",
                )

        def check_vocabulary(self, special: SpecialTokens, max_tokens: int) -> None:
            """Raise ConfigError if nothing can stand in the place of a hidden token."""
            if special.mask < 0:
                raise ConfigError(
                    "this vocabulary has no mask token, which masked language modelling hides words behind. Leave out "
                    "--tokenizer, and a new vocabulary with one is learned.",
                    "train.objective",
                )

        @property
        def needs_words(self) -> bool:
            """Whether it must know which tokens make up a word."""
            return self.unit != "tokens"

        def collate(
            self, examples: Sequence[Example | SentencePair], special: SpecialTokens, random: np.random.Generator
        ) -> Batch:
            if examples and isinstance(examples[0], SentencePair):
                return self._collate_pairs(examples, special, random)  # type: ignore[arg-type]
            ids, valid = pad_sequences([example.target for example in examples], special.pad)  # type: ignore[union-attr]
            return self._hide(ids, valid, valid, special, random)

        def _collate_pairs(
            self, pairs: Sequence[SentencePair], special: SpecialTokens, random: np.random.Generator
        ) -> Batch:
            """[CLS] first [SEP] second [SEP]; the control tokens are never predicted."""
            rows = [frame_pair(pair.first, pair.second, special) for pair in pairs]
            ids, valid = pad_sequences(rows, special.pad)
            places = torch.arange(ids.shape[1])
            border = torch.tensor([[len(pair.first) + 1] for pair in pairs])  # of the [SEP] between the two
            end = border + torch.tensor([[len(pair.second) + 1] for pair in pairs])
            text = valid & (places > 0) & (places != border) & (places != end)
            batch = self._hide(ids, valid, text, special, random)
            segments = ((places > border) & valid).long()
            follows = torch.tensor([0 if pair.follows else 1 for pair in pairs])
            return batch._replace(segments=segments, follows=follows)

        def _hide(
            self, ids: Tensor, valid: Tensor, text: Tensor, special: SpecialTokens, random: np.random.Generator
        ) -> Batch:
            """`text` (B, T): what may be predicted."""
            predicted, dice = self._choose(ids, text, special, random)
            masked = torch.where(predicted & (dice < self.masked), special.mask, ids)
            ordinary = list_ordinary_ids(special)
            other = torch.from_numpy(ordinary[random.integers(len(ordinary), size=ids.shape)])
            swap = predicted & (dice >= self.masked) & (dice < self.masked + self.random)
            labels = torch.where(predicted, ids, IGNORE_INDEX)
            count = int(predicted.sum())
            return Batch(torch.where(swap, other, masked), valid, None, None, labels, count, int(valid.sum()))

        def _choose(
            self, ids: Tensor, text: Tensor, special: SpecialTokens, random: np.random.Generator
        ) -> tuple[Tensor, Tensor]:
            """Which tokens are predicted, and (B, T) numbers in [0, 1) that decide what stands in their places: the
            same number for all tokens of a span."""
            if self.unit == "tokens":
                predicted = text & torch.from_numpy(random.random(ids.shape) < self.share)
                rows = torch.arange(len(ids))
                # every row has at least one label
                predicted[rows, text.int().argmax(1)] |= ~predicted.any(1) & text.any(1)
                return predicted, torch.from_numpy(random.random(ids.shape))
            assert special.target_roles is not None
            known = ids.numpy(), text.numpy(), special.target_roles
            if self.unit == "words":
                return torch.from_numpy(choose_words(*known, self.share, random)), torch.from_numpy(
                    random.random(ids.shape)
                )
            chosen, dice = choose_spans(*known, self.share, (self.span_stop, self.max_span), random)
            return torch.from_numpy(chosen), torch.from_numpy(dice)


@functools.lru_cache(maxsize=8)
def list_ordinary_ids(special: SpecialTokens) -> np.ndarray:
    """All that stand for text."""
    control = {special.pad, special.start, special.end, special.mask, *special.sentinels, *special.suppress}
    return np.setdiff1d(np.arange(special.vocabulary), list(control))


def frame_pair(first: np.ndarray, second: np.ndarray, special: SpecialTokens) -> np.ndarray:
    return np.concatenate([[special.start], first, [special.end], second, [special.end]]).astype(np.int64)
