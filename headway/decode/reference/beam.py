"""The rows still being searched and where each hypothesis stands, on the model's device.

B rows    W hypotheses each (1 before the first step, then K)    P longest prefix    t tokens produced
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.decode.request import Job, Task


@dataclass
class Batch:
    jobs: list[Job]
    sums: Tensor  # (B, W) log-probability of what was produced; -inf: this slot is empty
    logps: Tensor  # (B, W, t) of each token
    history: Tensor  # (B, W, P + t) ids, the forced prefix first, -1 before it
    room: NDArray[np.int64]  # (B,) how many tokens may be produced
    ended: NDArray[np.int64]  # (B,) how many hypotheses have ended

    @property
    def step(self) -> int:
        return self.logps.shape[2]

    def keep(self, rows: NDArray[np.int64]) -> None:
        """On the host, forget the rows that are not among these. The tensors follow with `take`."""
        self.jobs = [self.jobs[row] for row in rows]
        self.room, self.ended = self.room[rows], self.ended[rows]

    def take(self, rows: Tensor, parents: Tensor) -> None:
        """Fill the slots anew: place (i, j) gets what was in place (rows[i], parents[i, j])."""
        rows = rows[:, None]
        self.sums, self.logps, self.history = (part[rows, parents] for part in (self.sums, self.logps, self.history))

    def append(self, ids: Tensor, logps: Tensor, sums: Tensor) -> None:
        """One more token for each hypothesis, all (B, W)."""
        self.history = torch.cat([self.history, ids[:, :, None]], dim=2)
        self.logps = torch.cat([self.logps, logps[:, :, None]], dim=2)
        self.sums = sums


def first_batch(jobs: list[Job], device: torch.device) -> Batch:
    """One hypothesis for each job, which is its prefix."""
    longest = max(len(job.prefix) for job in jobs)
    history = [[[-1] * (longest - len(job.prefix)) + job.prefix] for job in jobs]
    return Batch(
        jobs,
        torch.zeros(len(jobs), 1, device=device),
        torch.zeros(len(jobs), 1, 0, device=device),
        torch.tensor(history, dtype=torch.long, device=device),
        np.array([job.room for job in jobs], dtype=np.int64),
        np.zeros(len(jobs), dtype=np.int64),
    )


def prefill(jobs: list[Job], task: Task) -> tuple[Tensor, Tensor | None]:
    """The start token and the prefix: ids (B, 1 + P), and which of them are real unless all are."""
    start, lengths = task.marks.start, [1 + len(job.prefix) for job in jobs]
    ids = [[start, *job.prefix] + [start] * (max(lengths) - 1 - len(job.prefix)) for job in jobs]
    real = None
    if min(lengths) < max(lengths):
        places = torch.arange(max(lengths), device=task.device)
        real = places < torch.tensor(lengths, device=task.device)[:, None]
    return torch.tensor(ids, device=task.device), real
