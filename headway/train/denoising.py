"""Denoising objectives: an encoder-decoder learns from running text, whose noise it removes.

    lines ─► Example(target, line_ends) ─► noise, drawn from seed, epoch and step ─► source and target ─► padded batch

span_corruption (T5)   A ⟨0⟩ rides ⟨1⟩ bike .    ─►   ⟨0⟩ man in red ⟨1⟩ his          the target is what is missing
denoising (BART)       rides ⟨mask⟩ bike . A     ─►   A man in red rides his bike .    the target is the whole text

The noise functions take ids and give ids; headway.text.gaps:insert_spans undoes the first of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.objectives import Batch, Example, pad_sequences, refuse_predicted_length

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer

Noise = Callable[[Example], tuple[np.ndarray, np.ndarray]]  # source without its end, target without start and end


def check_sides(model: "Transformer.Config", kind: str) -> None:
    if not (model.encoder.layers and model.decoder.layers):
        raise ConfigError(
            f"{kind} needs an encoder, which reads damaged text, and a decoder, which writes what was there. Set "
            "encoder.layers and decoder.layers, or take a preset of translators, such as tiny or t5.",
            "model",
        )
    refuse_predicted_length(model, kind)


def collate_noisy(examples: Sequence[Example], special: SpecialTokens, noise: Noise) -> Batch:
    """A padded batch, as the objective `translation` makes it: the source with its end token."""
    sources, targets = zip(*map(noise, examples))
    source, source_valid = pad_sequences(sources, special.pad, tail=[special.end])
    inputs, inputs_valid = pad_sequences(targets, special.pad, lead=[special.start])
    labels, _ = pad_sequences(targets, IGNORE_INDEX, tail=[special.end])
    label_count = sum(len(target) + 1 for target in targets)
    token_count = label_count + sum(len(one) + 1 for one in sources)
    return Batch(source, source_valid, inputs, inputs_valid, labels, label_count, token_count)


class SpanCorruptionObjective:
    """Write the spans of a text that were replaced by sentinel tokens (T5)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        carry: ClassVar[bool] = False
        lookahead: ClassVar[int] = 0
        kind: str = "span_corruption"
        share: float = number(0.15, low=0.001, high=0.9)  # of the tokens that are missing
        mean_span: float = number(3.0, low=1, high=1000)  # their mean number in a span
        lines: int = number(1, low=0)  # of text in an example, at most; 0: as many as train.max_tokens allows
        sentinels: int = number(100, low=1, high=10_000)  # that a new vocabulary gets

        def check(self, model: "Transformer.Config") -> None:
            check_sides(model, self.kind)

        def check_vocabulary(self, special: SpecialTokens, max_tokens: int) -> None:
            """Raise ConfigError if the longest text needs more sentinels than there are."""
            needed = count_spans(max_tokens, self.share, self.mean_span)[1]
            if len(special.sentinels) < needed:
                raise ConfigError(
                    f"a text of train.max_tokens = {max_tokens} tokens needs {needed} sentinel tokens, and this "
                    f"vocabulary has {len(special.sentinels)}. Lower train.max_tokens, raise mean_span, or train a new "
                    'vocabulary with more of them; the objective "denoising" needs none.',
                    "train.objective",
                )

        def collate(self, examples: Sequence[Example], special: SpecialTokens, random: np.random.Generator) -> Batch:
            def corrupt(example: Example) -> tuple[np.ndarray, np.ndarray]:
                missing = draw_missing_spans(len(example.target), self.share, self.mean_span, random)
                return cut_spans(example.target, missing, np.array(special.sentinels))

            return collate_noisy(examples, special, corrupt)


class DenoisingObjective:
    """Write a text whose spans were masked, whose tokens were deleted and whose sentences were shuffled (BART)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        carry: ClassVar[bool] = False
        lookahead: ClassVar[int] = 0
        kind: str = "denoising"
        share: float = number(0.3, low=0, high=0.9)  # of the tokens that are in masked spans: text infilling
        mean_span: float = number(3.0, low=0.5, high=1000)  # of their lengths, which are Poisson-distributed
        permute: bool = True  # the lines of an example come in random order
        masked: float = number(0.0, low=0, high=0.9)  # share of tokens that are masked one by one
        deleted: float = number(0.0, low=0, high=0.9)  # share of tokens that are left out without a trace
        lines: int = number(1, low=0)  # of text in an example, at most; 0: as many as train.max_tokens allows

        def check(self, model: "Transformer.Config") -> None:
            check_sides(model, self.kind)
            permutes = self.permute and self.lines != 1
            if not (self.share or self.masked or self.deleted or permutes):
                raise ConfigError(
                    "this leaves the text as it is. Give a share of tokens to infill, mask or delete, or more lines "
                    "to permute.",
                    "train.objective",
                )

        def check_vocabulary(self, special: SpecialTokens, max_tokens: int) -> None:
            if special.mask < 0 and (self.share or self.masked):
                raise ConfigError(
                    "this vocabulary has no mask token. Set share = 0 and masked = 0, with a share of deleted tokens.",
                    "train.objective",
                )

        def collate(self, examples: Sequence[Example], special: SpecialTokens, random: np.random.Generator) -> Batch:
            def add_noise(example: Example) -> tuple[np.ndarray, np.ndarray]:
                ids = example.target
                if self.permute and example.line_ends is not None:
                    ids = permute_lines(ids, example.line_ends, random)
                if self.deleted:
                    ids = ids[random.random(len(ids)) >= self.deleted]
                if self.masked:
                    ids = np.where(random.random(len(ids)) < self.masked, special.mask, ids)
                if self.share:
                    ids = infill_spans(ids, self.share, self.mean_span, special.mask, random)
                return ids, example.target

            return collate_noisy(examples, special, add_noise)


# ---- T5


def count_spans(length: int, share: float, mean_span: float) -> tuple[int, int]:
    """How many of `length` tokens are missing, and in how many spans; at least one token stays before each span."""
    missing = min(max(round(length * share), 1), max(length - 1, 0))
    spans = min(max(round(missing / mean_span), 1), missing, length - missing)
    return missing, spans


def draw_missing_spans(length: int, share: float, mean_span: float, random: np.random.Generator) -> np.ndarray:
    """(spans, 2) where each span that is missing begins and ends. As in T5 a text begins with what stays and ends
    with what is missing, and all divisions into so many spans are equally likely."""
    missing, spans = count_spans(length, share, mean_span)
    if not spans:
        return np.zeros((0, 2), np.int64)
    bounds = np.zeros(2 * spans, np.int64)
    bounds[0::2] = draw_parts(length - missing, spans, random)
    bounds[1::2] = draw_parts(missing, spans, random)
    return bounds.cumsum().reshape(spans, 2)


def draw_parts(total: int, count: int, random: np.random.Generator) -> np.ndarray:
    """`count` lengths, each at least 1, whose sum is `total`; all such divisions are equally likely."""
    cuts = np.sort(random.permutation(total - 1)[: count - 1]) + 1
    return np.diff(cuts, prepend=0, append=total)


def cut_spans(ids: np.ndarray, spans: np.ndarray, sentinels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The source, with the n-th sentinel in place of the n-th span; and the target, each sentinel with its span."""
    names = sentinels[: len(spans)]
    missing = np.zeros(len(ids) + 1, np.int64)
    np.add.at(missing, spans[:, 0], 1)
    np.add.at(missing, spans[:, 1], -1)
    inside = missing.cumsum()[:-1].astype(bool)
    kept = np.flatnonzero(~inside)
    source = np.insert(ids[kept].astype(np.int64), np.searchsorted(kept, spans[:, 0]), names)
    lengths = spans[:, 1] - spans[:, 0]
    target = np.insert(ids[inside].astype(np.int64), lengths.cumsum() - lengths, names)
    return source, target


# ---- BART


def permute_lines(ids: np.ndarray, line_ends: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The lines in random order; `line_ends`: where each ends."""
    parts = np.split(ids, line_ends[:-1])
    return np.concatenate([parts[index] for index in random.permutation(len(parts))])


def infill_spans(ids: np.ndarray, share: float, mean_span: float, mask: int, random: np.random.Generator) -> np.ndarray:
    """Spans replaced by one mask each, whatever their length: Poisson-distributed, until they cover this share of the
    tokens, the last one cut to fit. A span of length 0 inserts a mask. They lie anywhere, and never overlap."""
    lengths = draw_span_lengths(round(len(ids) * share), mean_span, random)
    kept = len(ids) - int(lengths.sum())
    is_span = np.zeros(kept + len(lengths), bool)
    is_span[random.permutation(len(is_span))[: len(lengths)]] = True
    advance = np.ones(len(is_span), np.int64)  # how many tokens of the text each place of the output stands for
    advance[is_span] = lengths
    first = advance.cumsum() - advance
    noisy = np.full(len(is_span), mask, np.int64)
    noisy[~is_span] = ids[first[~is_span]]
    return noisy


def draw_span_lengths(covered: int, mean_span: float, random: np.random.Generator) -> np.ndarray:
    """Poisson-distributed lengths whose sum is `covered`. Where these are more spans than tokens, some of length 0 are
    left out, so that a text never gets longer."""
    lengths: list[int] = []
    left = covered
    while left > 0:
        lengths.append(min(int(random.poisson(mean_span)), left))
        left -= lengths[-1]
    drawn = np.array(lengths, np.int64)
    empty = np.flatnonzero(drawn == 0)
    return np.delete(drawn, empty[: max(len(drawn) - covered, 0)])
