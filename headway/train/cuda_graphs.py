"""Training steps as CUDA graphs: a step is captured once for each batch shape, then replayed.

A step of a small model is many short kernels, and launching them one by one takes longer than running them. Every
tensor of a captured step keeps its address: a batch is copied into the one that the graph reads, the learning rate into
a scalar on the device.
"""

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headway.train.loss import LossOutput
from headway.train.objectives import Batch

Update = Callable[[list[Batch], Tensor], LossOutput]  # of micro-batches and the number of their labels
EAGER_STEPS = 3  # of each shape before it is captured: kernels are compiled and chosen in them
MAX_GRAPHS = 32


class CapturedStep:
    """The graph of one batch shape."""

    def __init__(self, update: Update, batch: Batch, pool: Any) -> None:
        self.batch = batch.map(torch.clone)
        self.label_count = torch.zeros((), device=batch.labels.device)
        self.graph = torch.cuda.CUDAGraph()
        # thread_local: the prefetching thread goes on using the device.
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            self.output = update([self.batch], self.label_count)

    def replay(self, batch: Batch, label_count: int) -> LossOutput:
        for own, x in zip(list_tensors(self.batch), list_tensors(batch)):
            own.copy_(x, non_blocking=True)
        self.label_count.fill_(label_count)
        self.graph.replay()
        return self.output._replace(loss=self.output.loss.clone())


class StepGraphs:
    """The graphs of all shapes that occur often enough."""

    def __init__(self, update: Update, optimisers: list[torch.optim.Optimizer], device: torch.device) -> None:
        self.update = update
        self.optimisers = optimisers
        self.device = device
        self.captured: dict[tuple[torch.Size, ...], CapturedStep] = {}
        self.step_counts: dict[tuple[torch.Size, ...], int] = {}
        self.pool = torch.cuda.graph_pool_handle()

    @staticmethod
    def unsupported(model: nn.Module, optimisers: list[torch.optim.Optimizer]) -> str:
        """Why steps cannot be captured; "" if they can. Nothing in a captured step may wait for the device."""
        waiting = [type(module).__name__ for module in model.modules() if getattr(module, "syncs_device", False)]
        if waiting:
            return f"{waiting[0]} waits for the device"
        if not all(optimiser.defaults.get("fused") for optimiser in optimisers):
            return "an optimiser is not fused: it waits for the device to decide whether a step is taken"
        return ""

    def step(self, batch: Batch, label_count: int) -> LossOutput | None:
        """None if this shape has no graph (yet): take the step without one."""
        shape = tuple(x.shape for x in list_tensors(batch))
        if shape not in self.captured:
            self.step_counts[shape] = self.step_counts.get(shape, 0) + 1
            if self.step_counts[shape] <= EAGER_STEPS or len(self.captured) >= MAX_GRAPHS:
                return None
            self._prepare()
            try:
                self.captured[shape] = CapturedStep(self.update, batch.to(self.device), self.pool)
            except torch.OutOfMemoryError:  # a graph does not share its memory
                self.step_counts[shape] = -(1 << 60)  # never try again
                self._prepare()  # captured gradients were never computed
                torch.cuda.empty_cache()
                return None
        return self.captured[shape].replay(batch, label_count)

    def _prepare(self) -> None:
        """Turn learning rates into tensors on the device, which a graph reads anew at each replay."""
        gc.collect()  # leftovers of earlier steps tie gradients to the stream they ran on, and spoil the capture
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
            for group in optimiser.param_groups:
                group["capturable"] = True
                if not isinstance(group["lr"], Tensor):
                    group["lr"] = torch.tensor(float(group["lr"]), device=self.device)


def list_tensors(batch: Batch) -> list[Tensor]:
    found: list[Tensor] = []

    def add(x: Tensor) -> Tensor:
        found.append(x)
        return x

    batch.map(add)
    return found
