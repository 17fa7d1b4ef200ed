"""What a run reads: steps of batches, from where it stands, epoch after epoch.

Rows: sentences of like lengths together, padded to the longest. Lines: sentences one behind the other, in lines of one
fixed size. Lines waste next to nothing and are one shape for compilers and CUDA graphs; only models whose layers keep
the texts of a line apart can read them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from headway.data.batches import (
    GRAIN,
    LINE_GRAIN,
    Sizes,
    line_sizes,
    micro_batches,
    packed_batches,
    rounded,
    rows_that_fit,
)
from headway.nn.masks.masks import make_mask
from headway.nn.ops.cross_entropy import IGNORED
from headway.nn.ops.varlen_attention import WIDEST
from headway.train.config import Training
from headway.train.dataset import Corpus, Portion
from headway.train.distributed import Team
from headway.train.objectives import Batch, Marks, unpacked

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer

Draft = Callable[[np.random.Generator], list[Batch]]  # a step that has not been put together yet


class Step(list[Batch]):
    """Micro-batches whose gradients are added up."""

    share: float = 1.0  # of the epoch, that is over when it is taken


class Feed(Protocol):
    at_once: int  # tokens that the device can take

    def drafts(self, portion: Portion, seed: list[int]) -> Iterator[Draft]: ...
    def fits(self, batch: Batch) -> bool: ...
    def parts(self, batch: Batch) -> Iterator[Batch]: ...  # a batch as it is, or cut if less fits than was thought
    def told(self) -> dict[str, int]: ...
    def goes_on(self, told: dict[str, int]) -> bool: ...


def read(corpus: Corpus, feed: Feed, seed: int, rank: int, epoch: int, skip: int) -> Iterator[Step]:
    """Steps without end, but for the first ones of the first epoch. An empty step: an epoch is over."""
    while True:
        number = 0
        for part, portion in enumerate(corpus.epoch(epoch)):
            drafts = list(feed.drafts(portion, [seed, epoch, part]))
            for place, draft in enumerate(drafts, 1):
                if number >= skip:
                    step = Step(draft(np.random.default_rng([seed, epoch, number, rank])))
                    step.share = (part + place / len(drafts)) / portion.portions
                    yield step
                number += 1
        yield Step()
        epoch, skip = epoch + 1, 0


@dataclass
class Rows:
    settings: Training
    marks: Marks
    team: Team
    at_once: int
    compiled: bool  # every shape is compiled once: so few of them

    @property
    def grain(self) -> int:
        return 4 * GRAIN if self.compiled else GRAIN

    def drafts(self, portion: Portion, seed: list[int]) -> Iterator[Draft]:
        for batch in portion.batches(self.settings.batch_tokens, seed, self.grain):
            yield lambda random, batch=batch: self._step(portion, batch, random)  # type: ignore[misc]

    def fits(self, batch: Batch) -> bool:
        return len(batch.labels) * batch.width <= self.at_once

    def parts(self, batch: Batch) -> Iterator[Batch]:
        rows = len(batch.labels)
        fit = rows if self.fits(batch) else rows_that_fit(batch.width, self.at_once)
        for start in range(0, rows, fit):
            yield batch if fit >= rows else batch.rows(start, start + fit)

    def told(self) -> dict[str, int]:
        return {}

    def goes_on(self, told: dict[str, int]) -> bool:
        return not told

    def _step(self, portion: Portion, batch: np.ndarray, random: np.random.Generator) -> list[Batch]:
        mine = batch[self.team.rank :: self.team.size]
        pieces = micro_batches(mine if len(mine) else batch[:1], portion.lengths, self.at_once, self.grain)
        step = [self._collated(portion, piece, random) for piece in pieces]
        return step if len(mine) else [unlabelled(piece) for piece in step]

    def _collated(self, portion: Portion, piece: np.ndarray, random: np.random.Generator) -> Batch:
        batch: Batch = self.settings.objective.collate([portion.examples[i] for i in piece], self.marks, random)
        if not self.compiled:
            return batch
        longest = int(rounded(np.array([batch.width]), self.grain).max())
        return batch.shaped(rows_that_fit(longest, min(self.settings.batch_tokens, self.at_once)), self.grain)


@dataclass
class Lines:
    settings: Training
    marks: Marks
    team: Team
    at_once: int
    pins: bool  # batches are made where a GPU can fetch them
    sizes: Sizes | None = None  # one for the whole run: batches follow from it

    def __post_init__(self) -> None:
        share = -(-self.settings.batch_tokens // self.team.size)
        self.at_once = max(self.at_once, self.settings.longest + 1)
        self.count = -(-share // self.at_once)  # lines of each process in a step, whatever fits later
        self.share = -(-share // self.count)  # tokens of each

    def drafts(self, portion: Portion, seed: list[int]) -> Iterator[Draft]:
        if self.sizes is None:
            self.sizes = line_sizes(portion.lengths, self.share, self.settings.longest)
        sizes = self.sizes
        lines = packed_batches(portion.lengths, sizes, seed)
        together = self.count * self.team.size
        for start in range(0, len(lines), together):
            mine = lines[start : start + together][self.team.rank :: self.team.size]
            yield lambda random, mine=mine: self._step(portion, mine, sizes)  # type: ignore[misc]

    def fits(self, batch: Batch) -> bool:
        """A quarter more than asked for will do: halves are never quite even, and lines are rounded up."""
        return 4 * batch.width <= 5 * self.at_once or batch.texts < 2

    def parts(self, batch: Batch) -> Iterator[Batch]:
        if self.fits(batch):
            yield batch
            return
        examples = unpacked(batch)
        ends = np.cumsum([(len(e.source), len(e.target) + 1) for e in examples], axis=0).max(axis=1)
        half = min(max(int(np.searchsorted(ends, ends[-1] / 2)), 1), len(examples) - 1)
        for part in (examples[:half], examples[half:]):
            tokens = (sum(len(e.source) for e in part), sum(len(e.target) + 1 for e in part))
            sizes = tuple(-(-size // LINE_GRAIN) * LINE_GRAIN for size in tokens)
            packed: Batch = self.settings.objective.pack(part, self.marks, sizes, self.settings.longest)
            yield from self.parts(self._ready(packed))

    def told(self) -> dict[str, int]:
        """What its batches depend on beside the text, for a checkpoint."""
        if self.sizes is None:
            return {}
        return {**self._settings(), "source": self.sizes[0], "target": self.sizes[1]}

    def goes_on(self, told: dict[str, int]) -> bool:
        """Whether the batches will be those of a run that told this; then they are."""
        same = all(told.get(name) == value for name, value in self._settings().items())
        self.sizes = (told["source"], told["target"]) if same else None
        return same

    def _settings(self) -> dict[str, int]:
        settings = self.settings
        known = {"batch_tokens": settings.batch_tokens, "longest": settings.longest}
        return {**known, "processes": self.team.size, "lines": self.count}

    def _step(self, portion: Portion, lines: list[np.ndarray], sizes: Sizes) -> list[Batch]:
        step = [self._packed(portion, line, sizes) for line in lines]
        return step or [unlabelled(self._packed(portion, np.array([0]), sizes))]

    def _packed(self, portion: Portion, line: np.ndarray, sizes: Sizes) -> Batch:
        pack = self.settings.objective.pack_rows
        return self._ready(pack(*portion.sides(line), self.marks, sizes, self.settings.longest))

    def _ready(self, batch: Batch) -> Batch:
        return batch.each(torch.Tensor.pin_memory) if self.pins else batch


def unlined(settings: Training, model: "Transformer.Config") -> str:
    """Why the texts of a line could not be kept apart; '' where they can."""
    if settings.objective.kind != "translation" or settings.alignment.kind != "none":
        return "texts lie one behind the other only for translation without guided alignment"
    if settings.batch_tokens < settings.longest:
        return f"a line holds train.longest = {settings.longest} tokens, and batch_tokens = {settings.batch_tokens} is less"
    resolved = model.resolved()
    for side in resolved.sides:
        stack = getattr(resolved, side)
        for mixer in (*stack.mixer, *(stack.cross or ())):
            if mixer.kind != "attention":
                return f"in a line of texts only attention keeps them apart, and {side} has {mixer.kind}"
            if mixer.kernel != "auto":
                return f'only kernel = "auto" keeps the texts of a line apart, and {side} has "{mixer.kernel}"'
            if max(mixer.d_k, mixer.d_v) > WIDEST:
                return f"in a line of texts heads are at most {WIDEST} wide, and {side} has wider ones"
        for position in stack.position:
            if position.acts == "bends":
                return f"in a line of texts scores are not bent, and {side} has {position.kind} positions"
        for mask in stack.mask:
            if make_mask(mask).span is None:
                return f"in a line of texts a token sees one stretch of its own, and {side} has other masks"
    return ""


def unlabelled(batch: Batch) -> Batch:
    """For a process that has nothing to do in a step and must still take part."""
    return batch._replace(labels=torch.full_like(batch.labels, IGNORED), labelled=0, tokens=0)
