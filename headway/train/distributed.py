"""The processes that train together, as torchrun starts them. A run that nobody started so is a team of one."""

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # its functions keep the group that is there when they are first imported: none
from torch import Tensor, nn

from headway.device import choose_device
from headway.errors import HeadwayError

T = TypeVar("T")
PATIENCE = timedelta(hours=3)  # one process validates while the others wait


class Beat(NamedTuple):
    """What all processes must know before they take the same step."""

    labelled: int  # labels of the whole step, which its loss is divided by
    seconds: float  # that the run has taken, by the first one's clock
    signal: int  # the number of a signal that one of them received; 0: none


@dataclass(frozen=True)
class Team:
    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that speaks, writes and validates."""
        return self.rank == 0

    def beat(self, labelled: int, seconds: float, signal: int) -> Beat:
        if self.size == 1:
            return Beat(labelled, seconds, signal)
        told = torch.tensor([labelled, seconds if self.first else 0.0], dtype=torch.float64)
        heard = torch.tensor([signal])
        dist.all_reduce(told)
        dist.all_reduce(heard, dist.ReduceOp.MAX)
        return Beat(int(told[0]), float(told[1]), int(heard))

    def sum(self, values: Tensor) -> Tensor:
        """Of a few numbers, on the host."""
        if self.size > 1:
            values = values.detach().double().cpu()
            dist.all_reduce(values)
        return values

    def tell(self, value: T | None) -> T:
        """The first one's value, to all."""
        held = [value]
        if self.size > 1:
            dist.broadcast_object_list(held)
        assert held[0] is not None
        return held[0]

    def gather(self, tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """Everyone's, in the order of their ranks; nobody's need have the shapes of another's."""
        if self.size == 1:
            return [tensors]
        found: list[dict[str, Tensor]] = [{} for _ in range(self.size)]
        dist.all_gather_object(found, {name: tensor.cpu() for name, tensor in tensors.items()})
        return found

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """The first one does this before the others, who find it done: they share a cache."""
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()

    def joined(self, module: nn.Module, device: torch.device) -> nn.Module:
        """The module, whose gradients are the mean over all processes."""
        if self.size == 1:
            return module
        with warnings.catch_warnings():  # the name that it proposes instead is unknown to PyTorch 2.11
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
            return nn.parallel.DistributedDataParallel(
                module, device_ids=[device] if device.type == "cuda" else None, broadcast_buffers=False
            )


ALONE = Team()


def join_team(device_name: str) -> tuple[Team, torch.device]:
    """This process's place among those that torchrun started, and its device."""
    size = _number("WORLD_SIZE", 1)
    if size == 1:
        return ALONE, choose_device(device_name)
    local = _number("LOCAL_RANK", 0)
    several = device_name in ("auto", "cuda") and torch.cuda.is_available()
    if several and local >= torch.cuda.device_count():
        raise HeadwayError(
            f"{local + 1} processes on one machine, which has {torch.cuda.device_count()} GPUs. Start at most one for "
            "each: torchrun --nproc-per-node"
        )
    device = torch.device("cuda", local) if several else choose_device(device_name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # Numbers that steer a run travel over gloo, gradients on GPUs over nccl.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    return Team(dist.get_rank(), size), device


def leave_team() -> None:
    """Nothing of the team is left behind: a thread of gloo's that still holds a tensor when Python ends takes the
    program down with it. A joined module, which others refer to in a circle, keeps such threads; and only this
    reference to the group, as its last, gives up Python's lock while it waits for threads that may want it."""
    if dist.is_available() and dist.is_initialized():
        group = dist.group.WORLD
        dist.destroy_process_group()
        gc.collect()
        del group


def _number(name: str, default: int) -> int:
    value = os.environ.get(name, str(default))
    if not value.isdigit():
        raise HeadwayError(f"the environment variable {name} is {value!r}: torchrun sets it to a number. Unset it.")
    return int(value)
