"""The search in tensors that keep their shape: what the plain loop finds, without asking the device at every step.

Rows, source and length are rounded up to a few sizes, so that a recorded step serves many batches. Where the output
outgrows its frame, or most rows are done, the search goes on in another frame.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from headway.decode import lattice
from headway.decode.cuda.beam_state import Plan, Size
from headway.decode.cuda.decoder import Folded, hindrance
from headway.decode.cuda.graphs import Player, Players, Watch
from headway.decode.reference.model import ModelStepper
from headway.decode.request import Job, Task
from headway.decode.types import Hypothesis
from headway.nn.transformer import Transformer

LONGEST_PREFIX = 64  # prefixes are read token by token, which the plain loop does at once
SHRINK = 4  # by how much too large a frame must be before the search leaves it


def why_not(stepper: Any, task: Task, source: Tensor | None, lengths: list[int]) -> str:
    """Why this search has to take the plain loop; nothing if it need not. lengths: of the sources."""
    search = task.search
    for name in ("sample", "no_repeat_ngram", "shortlist"):
        if getattr(search, name):
            return f"{name} is set"
    if not isinstance(stepper, ModelStepper):
        return "the model is none of ours, or several"
    if any(job.demands for job in task.jobs):
        return "something must be said"
    if task.record is not None:
        return "it is being recorded"
    if torch.is_autocast_enabled(stepper.device.type):
        return "autocast changes the precision on the way"
    if (source is None) == ("encoder" in stepper.model.stacks):
        return "the model reads a source and has none, or has one and reads none"
    if source is not None and min(lengths, default=1) < 1:
        return "a source is empty"
    if max((len(job.prefix) for job in task.jobs), default=0) > LONGEST_PREFIX:
        return f"a prefix has more than {LONGEST_PREFIX} tokens"
    longest = max((len(job.prefix) + job.room for job in task.jobs), default=0)
    return hindrance(stepper.model, longest)


# One search at a time in this process: a recording takes in whatever else is launched on its stream.
_ALONE = threading.Lock()


class Engine:
    """What is kept of a model between searches."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.mark = model, _mark(model)
        self.folded = Folded(model)
        self.players = Players(self.folded)
        self.stream = _stream(model.device) if model.device.type == "cuda" else None
        self.shortest, self.fewest = 32, 32  # positions of a frame; rows from which on shrinking pays

    @property
    def current(self) -> bool:
        """Whether the weights are still those that it knows."""
        return self.mark == _mark(self.model)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Graphs are recorded on a stream of their own; all that belongs to a search runs there."""
        with contextlib.ExitStack() as stack:
            if self.stream is not None:
                outside = torch.cuda.current_stream(self.model.device)
                self.stream.wait_stream(outside)
                stack.callback(outside.wait_stream, self.stream)
                stack.enter_context(torch.cuda.stream(self.stream))
            self.folded.refresh()
            try:
                yield
            except BaseException:  # what is left in the frames may be no numbers
                self.players.kept.clear()
                raise
            self.players.tidy()


def run(stepper: ModelStepper, task: Task, source: Tensor | None, valid: Tensor | None) -> list[tuple[Job, Hypothesis]]:
    """The n_best of every job that has room for a token."""
    jobs = [job for job in task.jobs if job.room > 0]
    if not jobs:
        return []
    if source is not None and len(jobs) < len(source):
        rows = [job.row for job in jobs]
        source, valid = source[rows], None if valid is None else valid[rows]
    # Frames outlive the call, and what is made in inference mode could not be written outside of it.
    with _ALONE, torch.inference_mode(False), torch.no_grad():
        if stepper.engine is None or not stepper.engine.current:
            stepper.engine = Engine(stepper.model)
        engine: Engine = stepper.engine
        try:
            with engine.running():
                parts = _Walk(engine, task, jobs, source, valid).parts()
                return list(lattice.found(lattice.joined(parts, len(jobs)), jobs, task))
        except torch.OutOfMemoryError:
            stepper.engine = None
            raise


class _Walk:
    """One search through as many frames as it takes."""

    def __init__(
        self, engine: Engine, task: Task, jobs: list[Job], source: Tensor | None, valid: Tensor | None
    ) -> None:
        self.engine, self.task, self.jobs = engine, task, jobs
        self.total = max(len(job.prefix) + job.room for job in jobs)
        marks, prefixed = task.marks, any(job.prefix for job in jobs)
        self.plan = Plan(task.search.beam_size, marks.start, marks.end, marks.suppress, prefixed)
        self.rows = torch.arange(len(jobs), device=engine.model.device)  # those in the frame
        self.done: list[tuple[Tensor, Tensor]] = []
        self.first = self.now = 0  # the first step that this frame has made, and the next one
        if source is not None:
            device = engine.model.device
            source, valid = source.to(device), None if valid is None else valid.to(device)
        width = 0 if source is None else -(-rounded(source.shape[1]) // 8) * 8  # kernels copy what is no multiple of 8
        self.player = self._player(len(jobs), width, engine.shortest)
        self.player.frame.load(task.search, jobs, source, valid)
        self.player.begin()

    def parts(self) -> list[tuple[Tensor, Tensor]]:
        """All steps, as lattice.joined takes them."""
        watch, left = Watch(self.engine.model.device), None
        while self.now < self.total and left != 0:
            size = self.player.frame.size
            full = self.now == size.length
            if full or (left is not None and size.rows >= max(SHRINK * left, self.engine.fewest)):
                active = self._active()
                if not len(active):
                    break
                if full or rounded(len(active)) < size.rows:
                    self._move(active, 2 * size.length if full else size.length)
                    watch = Watch(self.engine.model.device)
            self.player.step(self.now)
            self.now += 1
            left = watch.look(self.player.frame.left)
        self._read()
        return self.done

    def _player(self, rows: int, source: int, length: int) -> Player:
        return self.engine.players.get(self.plan, Size(rounded(rows), source, length))

    def _active(self) -> Tensor:
        """Which rows of the frame are searched further. Waits for the device."""
        return self.player.frame.active[: len(self.rows)].nonzero()[:, 0]

    def _read(self) -> None:
        self.done.append((self.rows, self.player.frame.read(self.first, self.now)))
        self.first = self.now

    def _move(self, active: Tensor, length: int) -> None:
        """Go on with the rows of the frame that are active."""
        self._read()
        old = self.player.frame
        self.rows = self.rows[active]
        self.player = self._player(len(active), old.size.source, length)
        jobs = [self.jobs[row] for row in self.rows.tolist()]
        self.player.frame.take(old, active, self.task.search, jobs)


def rounded(count: int, least: int = 1) -> int:
    """Up to 1, 2, 3, 4, 6, 8, 12, 16, 24 …: at most a third is empty."""
    if count <= least:
        return least if count else 0
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if power > 3 and count <= power * 3 // 4 else power


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One for all: memory that was used on a stream is free for that one only."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _mark(model: Transformer) -> list[Any]:
    """Changes when a weight moves, or one that tables were made of changes. Other copies are made anew each time:
    fused optimisers change weights without telling."""
    positions: list[Any] = [stack.positions for stack in model.stacks.values()]
    tables = [p.detach().double().sum().item() for part in positions for p in part.parameters()]
    return [*(p.data_ptr() for p in model.parameters()), *tables]
