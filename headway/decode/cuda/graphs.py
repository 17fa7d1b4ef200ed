"""What a frame does, recorded as CUDA graphs: the host launches hundreds of kernels at once. Elsewhere it just runs."""

import math
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headway.decode.cuda.beam_state import Frame, Plan, Size
from headway.decode.cuda.decoder import Folded
from headway.errors import HeadwayError

WARM = 2  # times that each thing is done before it is recorded: libraries set themselves up
SHARE = 0.25  # of the device's memory, which frames may hold between searches, if nothing else is asked for
MEMORY = "HEADWAY_SEARCH_MEMORY"  # asks for it: who runs several processes on one device divides it among them
LAG = 1  # steps that the host is ahead when it asks how many rows are left, so that the device never waits for it


class Player:
    """A frame and what was recorded of it: its beginning, and a step for each reach."""

    def __init__(self, frame: Frame, pool: Any) -> None:
        self.frame, self.pool = frame, pool
        self.seen: Counter[int] = Counter()
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        length = frame.size.length
        self.stride = max(16, length // 4)  # by which the reach grows

    def begin(self) -> None:
        """Before the first step; what it needs has been loaded."""
        self._play(0, self.frame.begin)

    def step(self, now: int) -> None:
        """The step at position `now`, which attends no further than it has to."""
        reach = min((now // self.stride + 1) * self.stride, self.frame.size.length)
        self._play(reach, lambda: self.frame.step(reach))

    def _play(self, name: int, act: Callable[[], None]) -> None:
        self.seen[name] += 1
        if not self.frame.ids.is_cuda or self.seen[name] <= WARM:
            return act()
        if name not in self.graphs:
            graph = torch.cuda.CUDAGraph()
            stream = torch.cuda.current_stream()
            with torch.cuda.graph(graph, pool=self.pool, stream=stream, capture_error_mode="thread_local"):
                act()
            self.graphs[name] = graph
        self.graphs[name].replay()


class Players:
    """Those used last, as many as fit."""

    def __init__(self, model: Folded) -> None:
        device = model.model.device
        self.model = model
        cuda = device.type == "cuda"
        # One pool for all: no two steps run at a time, and what lasts beyond a step lies outside of it.
        self.pool = torch.cuda.graph_pool_handle() if cuda else None
        self.room = share() * torch.cuda.get_device_properties(device).total_memory if cuda else 2**28
        self.kept: OrderedDict[tuple[Plan, Size], Player] = OrderedDict()

    def get(self, plan: Plan, size: Size) -> Player:
        if (plan, size) not in self.kept:
            self.kept[plan, size] = Player(Frame(self.model, plan, size), self.pool)
        self.kept.move_to_end((plan, size))
        return self.kept[plan, size]

    def tidy(self) -> None:
        """Between searches: forget the oldest until the others fit."""
        while self.kept and sum(player.frame.bytes for player in self.kept.values()) > self.room:
            self.kept.popitem(last=False)


def share() -> float:
    """Of the device's memory."""
    asked = os.environ.get(MEMORY, "")
    try:
        found = float(asked or SHARE)
    except ValueError:
        found = math.nan
    if not 0 < found <= 1:
        raise HeadwayError(
            f'{MEMORY} is "{asked}". Give a share of the GPU\'s memory, above 0 and at most 1, as in 0.05.'
        )
    return found


class Watch:
    """How many rows are left, without waiting for the step that has just been launched."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.told: deque[tuple[Tensor, torch.cuda.Event]] = deque()

    def look(self, left: Tensor) -> int | None:
        """The number after an earlier step; None: none is known yet."""
        if not self.cuda:
            return int(left)
        number, done = torch.empty(1, dtype=left.dtype, pin_memory=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
        number.copy_(left, non_blocking=True)
        done.record()
        self.told.append((number, done))
        if len(self.told) <= LAG:
            return None
        number, done = self.told.popleft()
        done.synchronize()
        return int(number)
