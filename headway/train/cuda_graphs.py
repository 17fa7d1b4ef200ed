"""A whole step as a CUDA graph: the device is told once what to do and then only that it should do it again.

A step of a small model is many short kernels, and starting them one by one takes longer than they run. Every tensor of a
captured step stays where it is: a batch is copied into the one that the graph reads, the rate into a number on the device.
"""

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headway.train.loss import Told
from headway.train.objectives import Batch

Update = Callable[[list[Batch], Tensor], Told]  # pieces of a step, and how many labels they have
FIRST = 3  # steps of a shape that are taken without a graph: kernels are compiled and chosen in them
MOST = 32  # shapes that are captured


def can_capture(model: nn.Module, optimisers: list[torch.optim.Optimizer]) -> bool:
    """Whether nothing in a step waits for the device: no layer, and no optimiser to decide whether the step is taken."""
    waits = any(getattr(module, "waits", False) for module in model.modules())
    return not waits and all(optimiser.defaults.get("fused") for optimiser in optimisers)


class Captured:
    """One shape of batch."""

    def __init__(self, update: Update, batch: Batch, pool: Any) -> None:
        self.batch = batch.each(torch.clone)
        self.labelled = torch.zeros((), device=batch.labels.device)
        self.graph = torch.cuda.CUDAGraph()
        # Other threads go on with what they do on the device: batches are made ready in one.
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            self.told = update([self.batch], self.labelled)

    def replay(self, batch: Batch, labelled: int) -> Told:
        for place, x in zip(tensors(self.batch), tensors(batch)):
            place.copy_(x, non_blocking=True)
        self.labelled.fill_(labelled)
        self.graph.replay()
        return self.told._replace(loss=self.told.loss.clone())


class Graphs:
    """Of all shapes that come again and again."""

    def __init__(self, update: Update, optimisers: list[torch.optim.Optimizer], device: torch.device) -> None:
        self.update, self.optimisers, self.device = update, optimisers, device
        self.captured: dict[tuple[torch.Size, ...], Captured] = {}
        self.seen: dict[tuple[torch.Size, ...], int] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def step(self, batch: Batch, labelled: int) -> Told | None:
        """None: not yet, or never; take it otherwise."""
        shape = tuple(x.shape for x in tensors(batch))
        if shape not in self.captured:
            self.seen[shape] = self.seen.get(shape, 0) + 1
            if self.seen[shape] <= FIRST or len(self.captured) >= MOST:
                return None
            self._prepare()
            try:
                self.captured[shape] = Captured(self.update, batch.to(self.device), self.pool)
            except torch.OutOfMemoryError:  # a graph keeps its memory for itself
                self.seen[shape] = -(1 << 60)
                self._prepare()  # gradients that were captured were never computed
                torch.cuda.empty_cache()
                return None
        return self.captured[shape].replay(batch, labelled)

    def _prepare(self) -> None:
        """Rates become numbers on the device, which a graph can read anew each time."""
        gc.collect()  # what is left of earlier steps ties gradients to the stream that these ran on, and spoils a capture
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
            for group in optimiser.param_groups:
                group["capturable"] = True
                if not isinstance(group["lr"], Tensor):
                    group["lr"] = torch.tensor(float(group["lr"]), device=self.device)


def tensors(batch: Batch) -> list[Tensor]:
    found: list[Tensor] = []

    def note(x: Tensor) -> Tensor:
        found.append(x)
        return x

    batch.each(note)
    return found
