"""CUDA graphs of a search: what a BeamState does is recorded once, and replayed, which launches hundreds of kernels at
once. Without a GPU it just runs."""

import math
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headway.decode.cuda.beam_state import BeamState, BufferSize, StepSpec
from headway.decode.cuda.decoder import CudaDecoder
from headway.errors import HeadwayError

WARMUP_RUNS = 2  # before something is recorded: libraries initialise themselves
MEMORY_VARIABLE = "HEADWAY_SEARCH_MEMORY"  # the share of the device's memory that is kept between searches
DEFAULT_MEMORY_SHARE = 0.25
COUNT_LAG_STEPS = 1  # the count of active rows is read so many steps late, so that the device never waits for the host


class GraphRunner:
    """A BeamState and its graphs: of its beginning, and of a step for each span of positions."""

    def __init__(self, state: BeamState, pool: Any) -> None:
        self.state = state
        self.pool = pool
        self.runs: Counter[int] = Counter()
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.stride = max(16, state.size.length // 4)  # by which the span grows

    def begin(self) -> None:
        """Before the first step; what it needs has been loaded."""
        self._run(0, self.state.begin)

    def step(self, now: int) -> None:
        """The step at position `now`, which attends to little more than the positions so far."""
        span = min((now // self.stride + 1) * self.stride, self.state.size.length)
        self._run(span, lambda: self.state.step(span))

    def _run(self, key: int, function: Callable[[], None]) -> None:
        self.runs[key] += 1
        if not self.state.ids.is_cuda or self.runs[key] <= WARMUP_RUNS:
            return function()
        if key not in self.graphs:
            graph = torch.cuda.CUDAGraph()
            stream = torch.cuda.current_stream()
            with torch.cuda.graph(graph, pool=self.pool, stream=stream, capture_error_mode="thread_local"):
                function()
            self.graphs[key] = graph
        self.graphs[key].replay()


class GraphRunners:
    """The GraphRunners that were used last, as many as fit in memory."""

    def __init__(self, decoder: CudaDecoder) -> None:
        device = decoder.model.device
        cuda = device.type == "cuda"
        self.decoder = decoder
        # One pool for all: no two steps run at a time, and what lasts beyond a step lies outside of it.
        self.pool = torch.cuda.graph_pool_handle() if cuda else None
        self.max_bytes = memory_share() * torch.cuda.get_device_properties(device).total_memory if cuda else 2**28
        self.by_size: OrderedDict[tuple[StepSpec, BufferSize], GraphRunner] = OrderedDict()

    def get(self, spec: StepSpec, size: BufferSize) -> GraphRunner:
        if (spec, size) not in self.by_size:
            self.by_size[spec, size] = GraphRunner(BeamState(self.decoder, spec, size), self.pool)
        self.by_size.move_to_end((spec, size))
        return self.by_size[spec, size]

    def evict(self) -> None:
        """Between searches: drop those not used for longest until the others fit."""
        while self.by_size and sum(runner.state.bytes for runner in self.by_size.values()) > self.max_bytes:
            self.by_size.popitem(last=False)


def memory_share() -> float:
    """The share of the device's memory that a model's buffers may keep between searches. Several processes on one
    device divide it with the environment variable."""
    given = os.environ.get(MEMORY_VARIABLE, "")
    try:
        share = float(given or DEFAULT_MEMORY_SHARE)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise HeadwayError(
            f'{MEMORY_VARIABLE} is "{given}". Give a share of the GPU\'s memory, above 0 and at most 1, as in 0.05.'
        )
    return share


class ActiveRowCount:
    """How many rows are still searched, without waiting for the step that has just been launched."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.pending: deque[tuple[Tensor, torch.cuda.Event]] = deque()

    def read(self, active_count: Tensor) -> int | None:
        """The number after an earlier step; None: none is known yet."""
        if not self.cuda:
            return int(active_count)
        number = torch.empty(1, dtype=active_count.dtype, pin_memory=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        number.copy_(active_count, non_blocking=True)
        done.record()
        self.pending.append((number, done))
        if len(self.pending) <= COUNT_LAG_STEPS:
            return None
        number, done = self.pending.popleft()
        done.synchronize()
        return int(number)
