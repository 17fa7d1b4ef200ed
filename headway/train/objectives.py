"""Training objectives: translation and causal language modelling. The masked one and those of tasks have own files.

    Example ─► objective.collate(): a padded batch, or objective.pack(): a packed one ─► Batch with labels ─► loss

An objective decides what a batch and its labels are; the loss of these three is cross-entropy over the vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.config.schema import Part
from headway.data.batches import round_up_lengths
from headway.data.ragged import RaggedArray, ragged_from_arrays
from headway.errors import ConfigError
from headway.nn.frontends.frontend import MediaBatch
from headway.nn.graphs import Graphs
from headway.nn.masks.masks import make_mask
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.sequence import FactorisationOrder, Neighbours, PackedPositions, PackedTexts
from headway.text.align.words import word_indices
from headway.text.tokenizer.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


class Example(NamedTuple):
    source: np.ndarray  # with its end token; empty for a language model
    target: np.ndarray  # without start and end
    alignment: np.ndarray | None = None  # (n, 2) source word, target word; for guided alignment
    others: tuple[np.ndarray, ...] = ()  # what a task reads beside these: see headway.train.task_objectives
    line_ends: np.ndarray | None = None  # where each line of the target ends; for denoising
    graph: Any = None  # an EncodedGraph, of a problem that is to be solved
    neighbours: np.ndarray | None = None  # (C, K, R) ids retrieved for its chunks, -1 on padding


class Batch(NamedTuple):
    """Padded: B rows, and a boolean mask of real tokens. Packed: one row (B = 1) of texts one after another, and
    PackedPositions that say where each begins and ends."""

    source: Tensor | MediaBatch | None  # (B, S); or pictures or sounds, which say themselves what is padding
    source_valid: Tensor | PackedPositions | None
    inputs: Tensor | None  # (B, T) what the decoder reads
    inputs_valid: Tensor | PackedPositions | FactorisationOrder | None
    labels: Tensor  # (B, T) what the model should predict; IGNORE_INDEX does not count
    label_count: int  # labels that count
    token_count: int  # real tokens, source and target
    alignment: Tensor | None = None  # (B, T, S) bool: source tokens linked with the token that the decoder reads at t
    segments: Tensor | None = None  # (B, S) which of two texts each token of the source belongs to, 0 or 1
    follows: Tensor | None = None  # (B,) 0: the second text follows the first, 1: it does not; IGNORE_INDEX: no pair
    graphs: Graphs | None = None  # of problems that are to be solved
    neighbours: Neighbours | None = None  # of the chunks that are complete in each row

    @property
    def width(self) -> int:
        """The length of the longer side."""
        if self.source is None:
            return self.labels.shape[1]
        source = self.source.shape[1] if isinstance(self.source, Tensor) else self.source.width
        return max(self.labels.shape[1], source)

    @property
    def text_count(self) -> int:
        """How many texts are in it: rows, or texts of a packed row."""
        if not isinstance(self.inputs_valid, PackedPositions):
            return len(self.labels)
        return int((self.inputs_valid.positions == 0)[self.inputs_valid.valid].sum())

    def slice_rows(self, start: int, stop: int) -> "Batch":
        part = self.map(lambda x: x[start:stop])
        return part._replace(label_count=int((part.labels != IGNORE_INDEX).sum()))

    def map(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        """The batch with `function` applied to each of its tensors."""
        return Batch(*(_map_tensors(part, function) for part in self))

    def pad_to(self, rows: int, pad_multiple: int) -> "Batch":
        """Padded to a shape that occurs often, for a compiled model: `rows` rows, lengths rounded up."""
        return Batch(
            _pad_part(self.source, rows, pad_multiple),
            _pad_part(self.source_valid, rows, pad_multiple),
            _pad_tensor(self.inputs, rows, pad_multiple, 0),
            _pad_part(self.inputs_valid, rows, pad_multiple),
            _pad_tensor(self.labels, rows, pad_multiple, IGNORE_INDEX),  # type: ignore[arg-type]
            self.label_count,
            self.token_count,
            _pad_tensor(self.alignment, rows, pad_multiple, 0),
            _pad_tensor(self.segments, rows, pad_multiple, 0),
            _pad_tensor(self.follows, rows, pad_multiple, IGNORE_INDEX),
            None if self.graphs is None else self.graphs.pad_to(rows),
            None if self.neighbours is None else self._pad_neighbours(self.neighbours, rows, pad_multiple),
        )

    def _pad_neighbours(self, neighbours: Neighbours, rows: int, pad_multiple: int) -> Neighbours:
        """For as many chunks as the padded rows have."""
        length = int(round_up_lengths(np.array([self.labels.shape[1]]), pad_multiple)[0])
        chunks = length // (neighbours.ids.shape[3] // 2)
        padding = (0, 0, 0, 0, 0, chunks - neighbours.ids.shape[1], 0, max(rows - len(neighbours.ids), 0))
        return Neighbours(*(torch.nn.functional.pad(part, padding) for part in neighbours))

    def to(self, device: torch.device) -> "Batch":
        return self.map(lambda x: x.to(device, non_blocking=True))


def _map_tensors(part: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(part, Tensor):
        return function(part)
    return type(part)(*(_map_tensors(one, function) for one in part)) if isinstance(part, tuple) else part


def _pad_part(part: Any, rows: int, pad_multiple: int) -> Any:
    """Ids, a mask of real tokens, pictures or sounds, or an order of factorisation. (Packed batches are never
    padded.)"""
    if isinstance(part, MediaBatch):
        return part.pad_to(rows, pad_multiple)
    if isinstance(part, FactorisationOrder):
        return FactorisationOrder(*(_pad_tensor(x, rows, pad_multiple, 0) for x in part))  # type: ignore[arg-type]
    return _pad_tensor(part, rows, pad_multiple, 0)


def _pad_tensor(x: Tensor | None, rows: int, pad_multiple: int, fill: int) -> Tensor | None:
    if x is None:
        return None
    missing = [int(size) for size in round_up_lengths(np.array(x.shape[1:]), pad_multiple) - x.shape[1:]]
    padding = [size for axis in reversed([max(rows - x.shape[0], 0), *missing]) for size in (0, axis)]
    return torch.nn.functional.pad(x, padding, value=fill)


def pad_sequences(
    rows: Sequence[np.ndarray], fill: int, lead: Sequence[int] = (), tail: Sequence[int] = ()
) -> tuple[Tensor, Tensor]:
    """Sequences of ids as one padded tensor (B, T), and which of its entries are real (B, T)."""
    lengths = np.array([len(row) for row in rows]) + len(lead) + len(tail)
    length = max(int(lengths.max()), 1)
    valid = np.arange(length) < lengths[:, None]
    ids = np.full((len(rows), length), fill, dtype=np.int64)
    ids[valid] = np.concatenate([part for row in rows for part in (lead, row, tail)])
    return torch.from_numpy(ids), torch.from_numpy(valid)


def pack_sequences(
    rows: RaggedArray, size: int, fill: int, max_tokens: int, lead: Sequence[int] = (), tail: Sequence[int] = ()
) -> tuple[Tensor, PackedPositions]:
    """Sequences of ids one after another in a packed row (1, size), and where each lies in it. The unused rest of the
    row counts as a text of its own that no other one attends to."""
    rows = rows.wrap_rows(lead, tail)
    lengths = rows.lengths()
    capacity = size // 2 + 2  # tables of one size, large enough for texts of two tokens each
    first, last = np.zeros((2, capacity), np.int32)
    last[: len(rows)] = rows.ends
    first[1 : len(rows) + 1] = last[: len(rows)]
    used = int(last[len(rows) - 1])
    last[len(rows)] = size
    ids = np.full(size, fill, np.int64)
    ids[:used] = rows.flat
    number = np.repeat(np.arange(len(rows) + 1, dtype=np.int32), [*lengths, size - used])
    positions = np.minimum(np.arange(size) - first[number], max_tokens - 1)
    texts = PackedTexts(torch.from_numpy(number)[None], torch.from_numpy(first), torch.from_numpy(last))
    valid = torch.arange(size)[None] < used
    return torch.from_numpy(ids)[None], PackedPositions(torch.from_numpy(positions)[None], valid, texts, max_tokens)


def unpack_batch(batch: Batch) -> list[Example]:
    """The examples that `TranslationObjective.Config.pack` was given."""
    assert isinstance(batch.source_valid, PackedPositions) and isinstance(batch.inputs_valid, PackedPositions)
    assert batch.source is not None and batch.inputs is not None
    sources, targets = batch.source_valid.texts, batch.inputs_valid.texts
    bounds = (sources.starts, sources.ends, targets.starts, targets.ends)
    spans = zip(*(bound[: batch.text_count].tolist() for bound in bounds))
    source, inputs = batch.source[0].numpy(), batch.inputs[0].numpy()
    return [Example(source[a:b], inputs[c + 1 : d]) for a, b, c, d in spans]


class TranslationObjective:
    """Predict each target token, given the source and the target tokens before it."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        carry: ClassVar[bool] = False
        kind: str = "translation"

        def check(self, model: "Transformer.Config") -> None:
            if not (model.encoder.layers and model.decoder.layers):
                raise ConfigError(
                    "translation needs an encoder and a decoder. Set encoder.layers and decoder.layers, or train on "
                    "--text.",
                    "model",
                )

            refuse_predicted_length(model, self.kind)

        def collate(self, examples: Sequence[Example], special: SpecialTokens, random: np.random.Generator) -> Batch:
            """A padded batch."""
            targets = [example.target for example in examples]
            source, source_valid = pad_sequences([example.source for example in examples], special.pad)
            inputs, inputs_valid = pad_sequences(targets, special.pad, lead=[special.start])
            labels, _ = pad_sequences(targets, IGNORE_INDEX, tail=[special.end])
            label_count = sum(len(target) + 1 for target in targets)
            token_count = label_count + sum(len(example.source) for example in examples)
            batch = Batch(source, source_valid, inputs, inputs_valid, labels, label_count, token_count)
            if all(example.alignment is None for example in examples):
                return batch
            return batch._replace(alignment=make_alignment(examples, source.numpy(), inputs.numpy(), special))

        def pack(
            self, examples: Sequence[Example], special: SpecialTokens, sizes: tuple[int, int], max_tokens: int
        ) -> Batch:
            """A packed batch: one row of these sizes on each side."""
            sources = ragged_from_arrays([example.source for example in examples])
            targets = ragged_from_arrays([example.target for example in examples])
            return self.pack_rows(sources, targets, special, sizes, max_tokens)

        def pack_rows(
            self,
            sources: RaggedArray,
            targets: RaggedArray,
            special: SpecialTokens,
            sizes: tuple[int, int],
            max_tokens: int,
        ) -> Batch:
            source, source_positions = pack_sequences(sources, sizes[0], special.pad, max_tokens)
            inputs, input_positions = pack_sequences(targets, sizes[1], special.pad, max_tokens, lead=[special.start])
            labels, _ = pack_sequences(targets, sizes[1], IGNORE_INDEX, max_tokens, tail=[special.end])
            label_count = len(targets.flat) + len(targets)
            token_count = label_count + len(sources.flat)
            return Batch(source, source_positions, inputs, input_positions, labels, label_count, token_count)


def refuse_predicted_length(model: "Transformer.Config", kind: str) -> None:
    """For objectives that predict the next token."""
    if model.predicted_length is not None:
        raise ConfigError(
            f"with a predicted length the decoder sees all of its target, so {kind} would teach it to copy. Leave it "
            "out, or set train.objective = masked_target.",
            "model.predicted_length",
        )


def make_alignment(
    examples: Sequence[Example], source: np.ndarray, inputs: np.ndarray, special: SpecialTokens
) -> Tensor:
    """(B, T, S) true where a token that the decoder reads and a source token belong to linked words."""
    assert special.source_roles is not None and special.target_roles is not None
    source_words = word_indices(source, special.source_roles)  # (B, S)
    target_words = word_indices(inputs, special.target_roles)  # (B, T)
    pairs = [np.zeros((0, 2), int) if example.alignment is None else example.alignment for example in examples]
    links = np.concatenate(pairs).astype(np.int64)
    row = np.repeat(np.arange(len(examples)), [len(own) for own in pairs])
    # One more word on each side than any token has: index -1, the word of tokens outside the text, has no links.
    sources, targets = np.maximum(links.max(0, initial=-1), [source_words.max(), target_words.max()]) + 2
    linked = np.zeros((len(examples), targets, sources), bool)
    linked[row, links[:, 1], links[:, 0]] = True
    rows = np.arange(len(examples))[:, None, None]
    return torch.from_numpy(linked[rows, target_words[:, :, None], source_words[:, None, :]])


class CausalObjective:
    """Predict the next token (GPT)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        lookahead: ClassVar[int] = 1  # tokens after a chunk that are labels only
        kind: str = "causal"
        carry: bool = False  # each row continues where it stopped in the step before, with its carried state

        def check(self, model: "Transformer.Config") -> None:
            if model.encoder.layers or not model.decoder.layers:
                raise ConfigError(
                    "a language model has a decoder only. Set model.encoder.layers = 0, or take the preset tiny_lm.",
                    "model",
                )
            if model.decoder.content == "mutual":
                raise ConfigError(
                    'with content = "mutual" a text is read again for each of its tokens. Train it by '
                    'objective = "permutation", or set content = "ordered".',
                    "model.decoder.content",
                )
            if any(make_mask(part).splits_texts for part in model.decoder.mask or ()):
                raise ConfigError(
                    "running text has no documents that a mask could keep apart: a row is a piece of it, wherever it "
                    'was cut. Leave "document" out.',
                    "model.decoder.mask",
                )
            if self.carry:
                if model.decoder.retrieval is not None:
                    raise ConfigError(
                        "a model that retrieves is not trained with carry. Set train.objective = causal.",
                        "train.objective",
                    )
                refuse_unbounded_memory(model.resolved().decoder)

        def collate(self, examples: Sequence[Example], special: SpecialTokens, random: np.random.Generator) -> Batch:
            inputs, valid = pad_sequences([example.target[:-1] for example in examples], special.pad)
            labels, _ = pad_sequences([example.target[1:] for example in examples], IGNORE_INDEX)
            count = sum(max(len(example.target) - 1, 0) for example in examples)
            neighbours = collate_neighbours(examples, inputs.shape[1])
            unpadded = self.carry and count == inputs.numel()  # a carried state is faster without a mask
            batch = Batch(None, None, inputs, None if unpadded else valid, labels, count, count)
            return batch._replace(neighbours=neighbours)


def collate_neighbours(examples: Sequence[Example], length: int) -> Neighbours | None:
    """Of rows that are padded to this length; None if nothing is retrieved."""
    given = [example.neighbours for example in examples if example.neighbours is not None]
    if not given:
        return None
    _, count, tokens = given[0].shape
    ids = np.full((len(given), length // (tokens // 2), count, tokens), -1, np.int64)
    for row, own in zip(ids, given):
        row[: len(own)] = own
    valid = ids >= 0
    return Neighbours(torch.from_numpy(np.where(valid, ids, 0)), torch.from_numpy(valid))


def refuse_unbounded_memory(decoder: Any) -> None:
    """With `carry`, a text has no first position and no end: positions must be relative and lookback bounded, unless
    memory tokens go from segment to segment."""
    if decoder.memory_tokens is not None and decoder.memory_tokens.kind == "recurrent":
        return
    for layer, (part, mixer, position) in enumerate(zip(*map(decoder.tiled, ("mask", "mixer", "position"))), 1):
        if position.applies_to == "input" or position.counts_from_start:
            raise ConfigError(
                f"with carry, a text continues from step to step, and {position.kind} positions count from its start. "
                'Choose "none" or relative positions: "rope", or with attention "transformer_xl", "alibi", "t5", '
                '"shaw".',
                "model.decoder.position",
            )
        mask = make_mask(part)
        if not mixer.bounded(mask):
            raise ConfigError(
                f'with carry, a layer keeps everything that its mask can see, and "{mask.name}" of layer {layer} is '
                'unbounded. Set "causal & segments(256, 256)" or "causal & local(512)"; a list sets one for each '
                "layer.",
                "model.decoder.mask",
            )
