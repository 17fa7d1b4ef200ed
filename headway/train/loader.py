"""The data loaders: training steps of micro-batches, padded or packed, from any point of any epoch.

    Dataset.epoch() ─► EpochShard ─► DataLoader.plan() ─► LazyStep ─► MicroBatches ─► Trainer.step()

`PaddedLoader` puts sequences of similar length together and pads them to the longest. `PackedLoader` does sequence
packing: sequences lie one after another in a packed sequence of one fixed size. Packing wastes next to nothing and
gives compilers and CUDA graphs a single shape, but only models whose layers keep packed sequences apart support it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from headway.data.batches import (
    PACKED_MULTIPLE,
    PAD_MULTIPLE,
    PackedSizes,
    choose_packed_sizes,
    fit_rows,
    make_packed_batches,
    round_up_lengths,
    split_micro_batches,
)
from headway.nn.masks.masks import make_mask
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.ops.varlen_attention import MAX_HEAD_WIDTH
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.config import TrainConfig
from headway.train.dataset import Dataset, EpochShard
from headway.train.distributed import ProcessGroup
from headway.train.objectives import Batch, unpack_batch

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer

LazyStep = Callable[[np.random.Generator], list[Batch]]  # builds the micro-batches of one step when called


class MicroBatches(list[Batch]):
    """The micro-batches of one optimiser step, whose gradients are accumulated."""

    share: float = 1.0  # of the epoch that is done after this step


class DataLoader(Protocol):
    """What the trainer needs of a data loader."""

    micro_batch_tokens: int  # tokens that fit the device in one forward and backward pass

    def plan(self, shard: EpochShard, seed: list[int]) -> Iterator[LazyStep]:
        """The steps of a shard, in an order that the seed decides. Nothing is built yet."""

    def fits(self, batch: Batch) -> bool:
        """Whether a batch needs no splitting."""

    def split(self, batch: Batch) -> Iterator[Batch]:
        """The batch as it is, or in parts if micro_batch_tokens was lowered since it was built."""

    def fingerprint(self) -> dict[str, int]:
        """What the batches depend on beside the text, saved in checkpoints."""

    def resume(self, fingerprint: dict[str, int]) -> bool:
        """Whether the batches are those of the run with this fingerprint; takes over its sizes if so."""


def read_steps(
    dataset: Dataset, loader: DataLoader, seed: int, rank: int, epoch: int, skip: int
) -> Iterator[MicroBatches]:
    """Endless steps, without the first `skip` of the first epoch. An empty step marks the end of an epoch."""
    while True:
        number = 0
        for part, shard in enumerate(dataset.epoch(epoch)):
            lazy_steps = list(loader.plan(shard, [seed, epoch, part]))
            for done, lazy_step in enumerate(lazy_steps, 1):
                if number >= skip:
                    step = MicroBatches(lazy_step(np.random.default_rng([seed, epoch, number, rank])))
                    step.share = (part + done / len(lazy_steps)) / shard.shard_count
                    yield step
                number += 1
        yield MicroBatches()
        epoch += 1
        skip = 0


@dataclass
class PaddedLoader:
    """Batches of similar lengths, each padded to its longest sequence."""

    settings: TrainConfig
    special_tokens: SpecialTokens
    group: ProcessGroup
    micro_batch_tokens: int
    compiled: bool  # each shape is compiled once, so there should be few

    @property
    def pad_multiple(self) -> int:
        return 4 * PAD_MULTIPLE if self.compiled else PAD_MULTIPLE

    def plan(self, shard: EpochShard, seed: list[int]) -> Iterator[LazyStep]:
        for indices in shard.batches(self.settings.batch_tokens, seed, self.pad_multiple):
            yield lambda random, indices=indices: self._build_step(shard, indices, random)  # type: ignore[misc]

    def fits(self, batch: Batch) -> bool:
        return len(batch.labels) * batch.width <= self.micro_batch_tokens

    def split(self, batch: Batch) -> Iterator[Batch]:
        rows = len(batch.labels)
        fitting = rows if self.fits(batch) else fit_rows(batch.width, self.micro_batch_tokens)
        for start in range(0, rows, fitting):
            yield batch if fitting >= rows else batch.slice_rows(start, start + fitting)

    def fingerprint(self) -> dict[str, int]:
        return {}

    def resume(self, fingerprint: dict[str, int]) -> bool:
        return not fingerprint

    def _build_step(self, shard: EpochShard, indices: np.ndarray, random: np.random.Generator) -> list[Batch]:
        own = indices[self.group.rank :: self.group.size]
        parts = split_micro_batches(
            own if len(own) else indices[:1], shard.lengths, self.micro_batch_tokens, self.pad_multiple
        )
        step = [self._collate(shard, part, random) for part in parts]
        return step if len(own) else [remove_labels(batch) for batch in step]

    def _collate(self, shard: EpochShard, indices: np.ndarray, random: np.random.Generator) -> Batch:
        examples = [shard.examples[i] for i in indices]
        batch: Batch = self.settings.objective.collate(examples, self.special_tokens, random)
        if not self.compiled:
            return batch
        width = int(round_up_lengths(np.array([batch.width]), self.pad_multiple).max())
        rows = fit_rows(width, min(self.settings.batch_tokens, self.micro_batch_tokens))
        return batch.pad_to(rows, self.pad_multiple)


@dataclass
class PackedLoader:
    """Sequence packing: each micro-batch is one packed sequence a side, of sizes that stay the same for the run."""

    settings: TrainConfig
    special_tokens: SpecialTokens
    group: ProcessGroup
    micro_batch_tokens: int
    pin_memory: bool  # in page-locked memory, from which a GPU copies asynchronously
    sizes: PackedSizes | None = (
        None  # tokens of a packed source and target; the batches of the whole run follow from them
    )

    def __post_init__(self) -> None:
        own_tokens = -(-self.settings.batch_tokens // self.group.size)
        self.micro_batch_tokens = max(self.micro_batch_tokens, self.settings.max_tokens + 1)
        # Packed sequences of each process in a step: fixed here, even if less fits the device later.
        self.per_step = -(-own_tokens // self.micro_batch_tokens)
        self.tokens_each = -(-own_tokens // self.per_step)

    @staticmethod
    def unsupported(settings: TrainConfig, model: "Transformer.Config") -> str:
        """Why this model cannot be trained on packed sequences; "" if it can."""
        if settings.objective.kind != "translation" or settings.alignment.kind != "none":
            return "packed batches support only translation without guided alignment"
        if settings.batch_tokens < settings.max_tokens:
            return (
                f"a packed sequence holds at least train.max_tokens = {settings.max_tokens} tokens, and batch_tokens = "
                f"{settings.batch_tokens} is less"
            )
        resolved = model.resolved()
        for side in resolved.sides:
            stack = getattr(resolved, side)
            if stack.memory_tokens is not None:
                return f"packed batches need texts that stand alone, and {side} has memory tokens before them"
            for mixer in (*stack.mixer, *(stack.cross or ())):
                if mixer.kind != "attention":
                    return f"packed batches need attention in every layer, and {side} has {mixer.kind}"
                if mixer.kernel != "auto":
                    return f'packed batches need kernel = "auto", and {side} has "{mixer.kernel}"'
                if max(mixer.d_k, mixer.d_v) > MAX_HEAD_WIDTH:
                    return f"packed batches need heads of width {MAX_HEAD_WIDTH} or less, and {side} has wider ones"
            for position in stack.position:
                if position.applies_to == "scores":
                    return f"packed batches need positions that leave scores alone, and {side} has {position.kind}"
            for mask in stack.mask:
                if make_mask(mask).interval is None:
                    return f"packed batches need masks of one interval per query, and {side} has others"
        return ""

    def plan(self, shard: EpochShard, seed: list[int]) -> Iterator[LazyStep]:
        if self.sizes is None:
            self.sizes = choose_packed_sizes(shard.lengths, self.tokens_each, self.settings.max_tokens)
        sizes = self.sizes
        packed = make_packed_batches(shard.lengths, sizes, seed)
        per_step = self.per_step * self.group.size
        for start in range(0, len(packed), per_step):
            own = packed[start : start + per_step][self.group.rank :: self.group.size]
            yield lambda random, own=own: self._build_step(shard, own, sizes)  # type: ignore[misc]

    def fits(self, batch: Batch) -> bool:
        """A quarter over the limit still counts as fitting: halves are never quite even, and sizes are rounded up."""
        return 4 * batch.width <= 5 * self.micro_batch_tokens or batch.text_count < 2

    def split(self, batch: Batch) -> Iterator[Batch]:
        if self.fits(batch):
            yield batch
            return
        examples = unpack_batch(batch)
        ends = np.cumsum([(len(e.source), len(e.target) + 1) for e in examples], axis=0).max(axis=1)
        half = min(max(int(np.searchsorted(ends, ends[-1] / 2)), 1), len(examples) - 1)
        for part in (examples[:half], examples[half:]):
            tokens = (sum(len(e.source) for e in part), sum(len(e.target) + 1 for e in part))
            sizes = tuple(-(-size // PACKED_MULTIPLE) * PACKED_MULTIPLE for size in tokens)
            packed: Batch = self.settings.objective.pack(part, self.special_tokens, sizes, self.settings.max_tokens)
            yield from self.split(self._pin(packed))

    def fingerprint(self) -> dict[str, int]:
        if self.sizes is None:
            return {}
        return {**self._dependencies(), "source": self.sizes[0], "target": self.sizes[1]}

    def resume(self, fingerprint: dict[str, int]) -> bool:
        same = all(fingerprint.get(name) == value for name, value in self._dependencies().items())
        self.sizes = (fingerprint["source"], fingerprint["target"]) if same else None
        return same

    def _dependencies(self) -> dict[str, int]:
        """The keys are those of state.json in checkpoints."""
        return {
            "batch_tokens": self.settings.batch_tokens,
            "longest": self.settings.max_tokens,
            "processes": self.group.size,
            "lines": self.per_step,
        }

    def _build_step(self, shard: EpochShard, packed: list[np.ndarray], sizes: PackedSizes) -> list[Batch]:
        step = [self._pack(shard, indices, sizes) for indices in packed]
        return step or [remove_labels(self._pack(shard, np.array([0]), sizes))]

    def _pack(self, shard: EpochShard, indices: np.ndarray, sizes: PackedSizes) -> Batch:
        sources, targets = shard.take(indices)
        pack = self.settings.objective.pack_rows
        return self._pin(pack(sources, targets, self.special_tokens, sizes, self.settings.max_tokens))

    def _pin(self, batch: Batch) -> Batch:
        return batch.map(torch.Tensor.pin_memory) if self.pin_memory else batch


def remove_labels(batch: Batch) -> Batch:
    """A batch that teaches nothing, for a process that has no examples in a step but must take part in it."""
    return batch._replace(labels=torch.full_like(batch.labels, IGNORE_INDEX), label_count=0, token_count=0)
