"""What is learned: how examples become a batch with labels. The loss is the same for all, cross-entropy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.config.schema import Part, number
from headway.data.batches import rounded
from headway.data.ragged import Rows, together
from headway.errors import ConfigError
from headway.nn.masks.masks import make_mask
from headway.nn.ops.cross_entropy import IGNORED
from headway.nn.sequence import Packed, Texts
from headway.text.align.words import word_numbers

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


class Example(NamedTuple):
    source: np.ndarray  # with its end token; empty for a language model
    target: np.ndarray  # without start and end
    alignment: np.ndarray | None = None  # (n, 2): source word, target word; for a head that learns it


class Marks(NamedTuple):
    """The ids that frame text."""

    pad: int
    start: int
    end: int
    mask: int
    vocabulary: int
    source_roles: np.ndarray | None = None  # of each id in a word, from word_roles; needed for alignments only
    target_roles: np.ndarray | None = None


class Batch(NamedTuple):
    source: Tensor | None  # (B, S)
    source_valid: Tensor | Packed | None
    inputs: Tensor | None  # (B, T) what the decoder reads
    inputs_valid: Tensor | Packed | None
    labels: Tensor  # (B, T) what it should say
    labelled: int  # labels that count
    tokens: int  # real tokens, source and target
    alignment: Tensor | None = None  # (B, T, S) bool: the source tokens that say what the decoder reads at t

    @property
    def width(self) -> int:
        """Of the longest side."""
        return max(self.labels.shape[1], 0 if self.source is None else self.source.shape[1])

    @property
    def texts(self) -> int:
        """How many there are."""
        if not isinstance(self.inputs_valid, Packed):
            return len(self.labels)
        return int((self.inputs_valid.positions == 0)[self.inputs_valid.valid].sum())

    def rows(self, start: int, stop: int) -> "Batch":
        part = self.each(lambda x: x[start:stop])
        return part._replace(labelled=int((part.labels != IGNORED).sum()))

    def each(self, act: Callable[[Tensor], Tensor]) -> "Batch":
        """The same with every tensor changed."""
        return Batch(*(_each(part, act) for part in self))

    def shaped(self, rows: int, grain: int) -> "Batch":
        """Padded to a shape that occurs again, for a compiled model: `rows` rows, lengths rounded up."""
        return Batch(
            _shaped(self.source, rows, grain, 0),
            _shaped(self.source_valid, rows, grain, 0),  # type: ignore[arg-type]  # packed lines have their shape
            _shaped(self.inputs, rows, grain, 0),
            _shaped(self.inputs_valid, rows, grain, 0),  # type: ignore[arg-type]
            _shaped(self.labels, rows, grain, IGNORED),  # type: ignore[arg-type]
            self.labelled,
            self.tokens,
            _shaped(self.alignment, rows, grain, 0),
        )

    def to(self, device: torch.device) -> "Batch":
        return self.each(lambda x: x.to(device, non_blocking=True))


def _each(part: Any, act: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(part, Tensor):
        return act(part)
    return type(part)(*(_each(one, act) for one in part)) if isinstance(part, tuple) else part


def _shaped(x: Tensor | None, rows: int, grain: int, fill: int) -> Tensor | None:
    if x is None:
        return None
    missing = [int(size) for size in rounded(np.array(x.shape[1:]), grain) - x.shape[1:]]
    behind = [size for axis in reversed([max(rows - x.shape[0], 0), *missing]) for size in (0, axis)]
    return torch.nn.functional.pad(x, behind, value=fill)


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


def packed(
    rows: Rows, size: int, fill: int, longest: int, lead: Sequence[int] = (), tail: Sequence[int] = ()
) -> tuple[Tensor, Packed]:
    """Rows of ids one behind the other in a line of `size`, and where each stands in it. What is left of the line is a
    text of its own that nobody reads."""
    rows = rows.framed(lead, tail)
    lengths = rows.lengths()
    most = size // 2 + 2  # texts of two tokens at least, in tables of one size
    first, last = np.zeros((2, most), np.int32)
    last[: len(rows)] = rows.ends
    first[1 : len(rows) + 1] = last[: len(rows)]
    used = int(last[len(rows) - 1])
    last[len(rows)] = size
    ids = np.full(size, fill, np.int64)
    ids[:used] = rows.flat
    number = np.repeat(np.arange(len(rows) + 1, dtype=np.int32), [*lengths, size - used])
    positions = np.minimum(np.arange(size) - first[number], longest - 1)
    texts = Texts(torch.from_numpy(number)[None], torch.from_numpy(first), torch.from_numpy(last))
    valid = torch.arange(size)[None] < used
    return torch.from_numpy(ids)[None], Packed(torch.from_numpy(positions)[None], valid, texts, longest)


def unpacked(batch: Batch) -> list[Example]:
    """What `Translation.pack` was given."""
    assert isinstance(batch.source_valid, Packed) and isinstance(batch.inputs_valid, Packed)
    assert batch.source is not None and batch.inputs is not None
    (read, said), texts = (batch.source_valid.texts, batch.inputs_valid.texts), batch.texts
    spans = zip(*(part[:texts].tolist() for part in (read.first, read.last, said.first, said.last)))
    source, inputs = batch.source[0].numpy(), batch.inputs[0].numpy()
    return [Example(source[a:b], inputs[c + 1 : d]) for a, b, c, d in spans]


class Translation:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        carry: ClassVar[bool] = False
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
            batch = Batch(source, source_valid, inputs, inputs_valid, labels, count, tokens)
            if all(example.alignment is None for example in examples):
                return batch
            return batch._replace(alignment=aligned(examples, source.numpy(), inputs.numpy(), marks))

        def pack(self, examples: Sequence[Example], marks: Marks, sizes: tuple[int, int], longest: int) -> Batch:
            """The same in one line a side, of these sizes."""
            sources, targets = [example.source for example in examples], [example.target for example in examples]
            return self.pack_rows(together(sources), together(targets), marks, sizes, longest)

        def pack_rows(self, sources: Rows, targets: Rows, marks: Marks, sizes: tuple[int, int], longest: int) -> Batch:
            source, read = packed(sources, sizes[0], marks.pad, longest)
            inputs, said = packed(targets, sizes[1], marks.pad, longest, lead=[marks.start])
            labels, _ = packed(targets, sizes[1], IGNORED, longest, tail=[marks.end])
            count = len(targets.flat) + len(targets)
            return Batch(source, read, inputs, said, labels, count, count + len(sources.flat))


def aligned(examples: Sequence[Example], source: np.ndarray, inputs: np.ndarray, marks: Marks) -> Tensor:
    """(B, T, S) true where a token that the decoder reads and a source token belong to linked words."""
    assert marks.source_roles is not None and marks.target_roles is not None
    read, said = word_numbers(source, marks.source_roles), word_numbers(inputs, marks.target_roles)
    pairs = [np.zeros((0, 2), int) if example.alignment is None else example.alignment for example in examples]
    links = np.concatenate(pairs).astype(np.int64)
    row = np.repeat(np.arange(len(examples)), [len(own) for own in pairs])
    # One word more on each side than any token has: -1, the word of tokens that are no text, finds it, and no link.
    sources, targets = np.maximum(links.max(0, initial=-1), [read.max(), said.max()]) + 2
    linked = np.zeros((len(examples), targets, sources), bool)
    linked[row, links[:, 1], links[:, 0]] = True
    return torch.from_numpy(linked[np.arange(len(examples))[:, None, None], said[:, :, None], read[:, None, :]])


class Causal:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        ahead: ClassVar[int] = 1  # tokens behind those that are read, which are only guessed
        kind: str = "causal"
        carry: bool = False  # a row goes on where it stopped in the step before, and remembers

        def refuse(self, model: "Transformer.Config") -> None:
            if model.encoder.layers or not model.decoder.layers:
                raise ConfigError(
                    "a language model has a decoder only. Set model.encoder.layers = 0, or take the preset tiny_lm.",
                    "model",
                )
            if self.carry:
                refuse_endless(model.resolved().decoder)

        def collate(self, examples: Sequence[Example], marks: Marks, random: np.random.Generator) -> Batch:
            inputs, valid = padded([example.target[:-1] for example in examples], marks.pad)
            labels, _ = padded([example.target[1:] for example in examples], IGNORED)
            count = sum(max(len(example.target) - 1, 0) for example in examples)
            full = self.carry and count == inputs.numel()  # a state takes in what is whole without asking where it is
            return Batch(None, None, inputs, None if full else valid, labels, count, count)


def refuse_endless(decoder: Any) -> None:
    """A text that goes on from step to step has neither a first place nor an end."""
    for layer, (part, mixer, position) in enumerate(zip(*map(decoder.tiled, ("mask", "mixer", "position"))), 1):
        if position.acts == "adds":
            raise ConfigError(
                f"with carry, a text goes on from step to step, and {position.kind} positions count from its start. "
                'Choose "none", or one that knows distances only: "rope", or with attention "xl", "alibi", "t5", "shaw".',
                "model.decoder.position",
            )
        mask = make_mask(part)
        if not mixer.bounded(mask):
            raise ConfigError(
                f'with carry, a layer remembers what its mask can see, and "{mask.name}" of layer {layer} sees everything '
                'that was. Set "causal & segments(256, 256)", or "causal & local(512)"; a list gives each layer its own.',
                "model.decoder.mask",
            )


class MaskedWords:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        carry: ClassVar[bool] = False
        ahead: ClassVar[int] = 0
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
