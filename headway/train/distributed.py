"""Data-parallel training: the processes that torchrun starts (DDP). A run started without it is a group of one."""

import gc
import os
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before a group exists: its functions keep the group they are imported in
from torch import Tensor, nn

from headway.device import choose_device
from headway.errors import HeadwayError
from headway.train.callbacks import StopRequest

T = TypeVar("T")
COLLECTIVE_TIMEOUT = timedelta(hours=3)  # the others wait while the main process validates


class StepSync(NamedTuple):
    """What all processes must agree on before a step."""

    label_count: int  # labels of all processes, which the loss is divided by
    seconds: float  # elapsed time, by the clock of the main process
    signal: int  # number of a signal that one of them received; 0: none
    stop: StopRequest = StopRequest.NONE  # by a callback, in the main process


@dataclass(frozen=True)
class ProcessGroup:
    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is the process that logs, writes and validates."""
        return self.rank == 0

    def sync_step(
        self, label_count: int, seconds: float, signal: int, stop: StopRequest = StopRequest.NONE
    ) -> StepSync:
        if self.size == 1:
            return StepSync(label_count, seconds, signal, stop)
        sums = torch.tensor([label_count, seconds if self.is_main else 0.0], dtype=torch.float64)
        signals = torch.tensor([signal, stop])  # callbacks are called in the main process only: it has the largest
        dist.all_reduce(sums)
        dist.all_reduce(signals, dist.ReduceOp.MAX)
        return StepSync(int(sums[0]), float(sums[1]), int(signals[0]), StopRequest(int(signals[1])))

    def sum(self, values: Tensor) -> Tensor:
        """All-reduce of a few numbers, on the CPU."""
        if self.size > 1:
            values = values.detach().double().cpu()
            dist.all_reduce(values)
        return values

    def broadcast(self, value: T | None) -> T:
        """The main process's value, in all processes."""
        values = [value]
        if self.size > 1:
            dist.broadcast_object_list(values)
        assert values[0] is not None
        return values[0]

    def gather(self, tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """The tensors of all processes, by rank. Names and shapes may differ."""
        if self.size == 1:
            return [tensors]
        found: list[dict[str, Tensor]] = [{} for _ in range(self.size)]
        dist.all_gather_object(found, {name: tensor.cpu() for name, tensor in tensors.items()})
        return found

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """The main process runs the block before the others, who then find its results in the cache."""
        if not self.is_main:
            self.barrier()
        yield
        if self.is_main:
            self.barrier()

    def wrap_module(self, module: nn.Module, device: torch.device) -> nn.Module:
        """The module in DistributedDataParallel, which averages gradients over all processes."""
        if self.size == 1:
            return module
        with warnings.catch_warnings():  # PyTorch 2.11 does not know the name that the warning proposes
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
            wrapped = nn.parallel.DistributedDataParallel(
                module, device_ids=[device] if device.type == "cuda" else None, broadcast_buffers=False
            )
        _WRAPPED.add(wrapped)
        return wrapped


_WRAPPED: "weakref.WeakSet[nn.parallel.DistributedDataParallel]" = weakref.WeakSet()
SINGLE_PROCESS = ProcessGroup()


def is_distributed() -> bool:
    """Whether torchrun has started this process as one of several."""
    return _read_number("WORLD_SIZE", 1) > 1


def join_process_group(device_name: str) -> tuple[ProcessGroup, torch.device]:
    """This process's group, from the environment variables that torchrun sets, and its device."""
    size = _read_number("WORLD_SIZE", 1)
    if size == 1:
        return SINGLE_PROCESS, choose_device(device_name)
    local_rank = _read_number("LOCAL_RANK", 0)
    one_gpu_each = device_name in ("auto", "cuda") and torch.cuda.is_available()
    if one_gpu_each and local_rank >= torch.cuda.device_count():
        raise HeadwayError(
            f"{local_rank + 1} processes were started on a machine with {torch.cuda.device_count()} GPUs. Start at "
            "most one process per GPU: torchrun --nproc-per-node"
        )
    device = torch.device("cuda", local_rank) if one_gpu_each else choose_device(device_name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # Control messages (on the CPU) go over gloo, gradients on GPUs over nccl.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=COLLECTIVE_TIMEOUT)
    return ProcessGroup(dist.get_rank(), size), device


def leave_process_group() -> None:
    """Destroy the group with all its threads: a gloo thread that still holds a tensor when Python exits aborts the
    process. A DDP module keeps the group alive through its reducer, and may itself be kept, by a reference cycle or by
    the traceback of an error; so it gives its reducer up here. The last reference to the group must be `group`: only
    then is the GIL released while its threads, which may want it, are joined."""
    if dist.is_available() and dist.is_initialized():
        group = dist.group.WORLD
        dist.destroy_process_group()
        for wrapped in list(_WRAPPED):
            for name in ("logger", "reducer", "process_group"):
                wrapped.__dict__.pop(name, None)
        gc.collect()
        del group


def _read_number(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    if not value.isdigit():
        raise HeadwayError(f"the environment variable {name} is {value!r}, but must be a number. Unset it.")
    return int(value)
