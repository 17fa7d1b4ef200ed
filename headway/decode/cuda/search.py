"""The search on a GPU, in tensors of fixed shape: what the reference search finds, without waiting for the device at
every step.

Rows, source and length are rounded up to a few sizes, so that a recorded step serves many batches. When the output
outgrows its buffers, or most rows are done, the search goes on in others.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from headway.decode.cuda import decoder as cuda_decoder
from headway.decode.cuda import lattice
from headway.decode.cuda.beam_state import BufferSize, StepSpec
from headway.decode.cuda.decoder import CudaDecoder
from headway.decode.cuda.graphs import ActiveRowCount, GraphRunner, GraphRunners
from headway.decode.reference.model import ModelStepper
from headway.decode.request import SearchJob, SearchTask, describe_reference_only
from headway.decode.stop import check_stop
from headway.decode.types import Hypothesis
from headway.nn.transformer import Transformer

MAX_PREFIX_TOKENS = 64  # prefixes are read token by token here, and at once by the reference search
SHRINK_FACTOR = 4  # so much too large buffers must be before the search leaves them
INITIAL_LENGTH = 32  # positions of the first buffers
MIN_SHRINK_ROWS = 32  # with fewer rows, smaller buffers would gain nothing

_SEARCH_LOCK = threading.Lock()  # one search at a time: a recording includes whatever else is launched on its stream


def unsupported(stepper: object, task: SearchTask, source: Tensor | None, lengths: list[int]) -> str:
    """Why this search cannot run here; "" if it can. lengths: of the sources."""
    search = task.search
    for name in ("sample", "no_repeat_ngram", "shortlist"):
        if getattr(search, name):
            return f"{name} is set"
    if reason := describe_reference_only(search):
        return reason
    if not isinstance(stepper, ModelStepper):
        return "the model is an ensemble, or not one of Headway's"
    if any(job.constraints for job in task.jobs):
        return "outputs have constraints"
    if task.record is not None:
        return "its steps are recorded"
    if torch.is_autocast_enabled(stepper.device.type):
        return "autocast is on"
    if (source is None) == ("encoder" in stepper.model.stacks):
        return "the model needs a source and there is none, or there is one and it takes none"
    if source is not None and min(lengths, default=1) < 1:
        return "a source is empty"
    if max((len(job.prefix) for job in task.jobs), default=0) > MAX_PREFIX_TOKENS:
        return f"a prefix has more than {MAX_PREFIX_TOKENS} tokens"
    max_length = max((len(job.prefix) + job.max_new_tokens for job in task.jobs), default=0)
    return cuda_decoder.unsupported(stepper.model, max_length)


class CudaSearch:
    """What is kept of a model between searches: its decoder and its graphs."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.fingerprint = _weights_fingerprint(model)
        self.decoder = CudaDecoder(model)
        self.runners = GraphRunners(self.decoder)
        self.stream = _search_stream(model.device) if model.device.type == "cuda" else None
        self.initial_length = INITIAL_LENGTH
        self.min_shrink_rows = MIN_SHRINK_ROWS

    @property
    def is_current(self) -> bool:
        """Whether the weights are still those that it was made of."""
        return self.fingerprint == _weights_fingerprint(self.model)

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Graphs are recorded on a stream of their own; all that belongs to a search runs there."""
        with contextlib.ExitStack() as stack:
            if self.stream is not None:
                outside = torch.cuda.current_stream(self.model.device)
                self.stream.wait_stream(outside)
                stack.callback(outside.wait_stream, self.stream)
                stack.enter_context(torch.cuda.stream(self.stream))
            self.decoder.refresh()
            try:
                yield
            except BaseException:  # what is left in the buffers may be NaN
                self.runners.by_size.clear()
                raise
            self.runners.evict()


def run_search(
    stepper: ModelStepper, task: SearchTask, source: Tensor | None, valid: Tensor | None
) -> list[tuple[SearchJob, Hypothesis]]:
    """The n_best of every job that may produce a token."""
    jobs = task.open_jobs
    if not jobs:
        return []
    if source is not None and len(jobs) < len(source):
        rows = [job.row for job in jobs]
        source = source[rows]
        valid = None if valid is None else valid[rows]
    # Buffers outlive the call, and what is made in inference mode could not be written outside of it.
    with _SEARCH_LOCK, torch.inference_mode(False), torch.no_grad():
        if stepper.cuda_search is None or not stepper.cuda_search.is_current:
            stepper.cuda_search = CudaSearch(stepper.model)
        engine: CudaSearch = stepper.cuda_search
        try:
            with engine.session():
                parts = SearchRun(engine, task, jobs, source, valid).run()
                return list(lattice.extract_hypotheses(lattice.join_steps(parts, len(jobs)), jobs, task))
        except torch.OutOfMemoryError:
            stepper.cuda_search = None
            raise


class SearchRun:
    """One search, through as many buffers as it takes."""

    def __init__(
        self, engine: CudaSearch, task: SearchTask, jobs: list[SearchJob], source: Tensor | None, valid: Tensor | None
    ) -> None:
        self.engine = engine
        self.task = task
        self.jobs = jobs
        self.max_length = max(len(job.prefix) + job.max_new_tokens for job in jobs)
        special = task.special_tokens
        has_prefixes = any(job.prefix for job in jobs)
        self.spec = StepSpec(task.search.beam_size, special.start, special.end, special.suppress, has_prefixes)
        device = engine.model.device
        self.rows = torch.arange(len(jobs), device=device)  # those in the buffers
        self.parts: list[tuple[Tensor, Tensor]] = []
        self.first = 0  # the first step that these buffers have made
        self.now = 0  # the next step
        width = 0
        if source is not None:
            source = source.to(device)
            valid = None if valid is None else valid.to(device)
            width = -(-round_up_size(source.shape[1]) // 8) * 8  # kernels copy what is no multiple of 8
        self.runner = self._runner(len(jobs), width, engine.initial_length)
        self.runner.state.load(task.search, jobs, source, valid)
        self.runner.begin()

    def run(self) -> list[tuple[Tensor, Tensor]]:
        """The candidates of all steps, as lattice.join_steps takes them."""
        counter = ActiveRowCount(self.engine.model.device)
        active_count: int | None = None
        while self.now < self.max_length and active_count != 0:
            size = self.runner.state.size
            full = self.now == size.length
            if full or (
                active_count is not None and size.rows >= max(SHRINK_FACTOR * active_count, self.engine.min_shrink_rows)
            ):
                active = self._active_rows()
                if not len(active):
                    break
                if full or round_up_size(len(active)) < size.rows:
                    self._move(active, 2 * size.length if full else size.length)
                    counter = ActiveRowCount(self.engine.model.device)
            check_stop()
            self.runner.step(self.now)
            self.now += 1
            active_count = counter.read(self.runner.state.active_count)
        self._read_steps()
        return self.parts

    def _runner(self, rows: int, source: int, length: int) -> GraphRunner:
        return self.engine.runners.get(self.spec, BufferSize(round_up_size(rows), source, length))

    def _active_rows(self) -> Tensor:
        """Which rows of the buffers are searched further. Waits for the device."""
        return self.runner.state.active[: len(self.rows)].nonzero()[:, 0]

    def _read_steps(self) -> None:
        self.parts.append((self.rows, self.runner.state.read_steps(self.first, self.now)))
        self.first = self.now

    def _move(self, active: Tensor, length: int) -> None:
        """Go on in other buffers, with the active rows."""
        self._read_steps()
        old = self.runner.state
        self.rows = self.rows[active]
        self.runner = self._runner(len(active), old.size.source, length)
        jobs = [self.jobs[row] for row in self.rows.tolist()]
        self.runner.state.continue_from(old, active, self.task.search, jobs)


def round_up_size(count: int, minimum: int = 1) -> int:
    """To 1, 2, 3, 4, 6, 8, 12, 16, 24 …: at most a third is empty."""
    if count <= minimum:
        return minimum if count else 0
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if power > 3 and count <= power * 3 // 4 else power


@functools.cache
def _search_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all models: memory that was used on a stream can be used again on that stream only."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _weights_fingerprint(model: Transformer) -> list[Any]:
    """Changes when a weight moves, or when one changes that position tables were made of. Copies of other weights are
    refreshed for each search, because fused optimisers change weights unnoticed."""
    positions: list[Any] = [stack.positions for stack in model.stacks.values()]
    sums = [p.detach().double().sum().item() for part in positions for p in part.parameters()]
    return [*(p.data_ptr() for p in model.parameters()), *sums]
