"""The beam: the rows still being searched and their running hypotheses, on the model's device.

B rows    W hypotheses each (1 before the first step, then K)    P longest prefix    t tokens produced
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.decode.request import SearchJob, SearchTask


@dataclass
class Beam:
    """Up to W running hypotheses for each of B rows."""

    jobs: list[SearchJob]
    sums: Tensor  # (B, W) log-probability of what was produced; -inf: this slot is empty
    logps: Tensor  # (B, W, t) of each token
    history: Tensor  # (B, W, P + t) ids, the forced prefix first, -1 before it
    max_new_tokens: NDArray[np.int64]  # (B,)
    ended: NDArray[np.int64]  # (B,) how many hypotheses have ended
    best_scores: NDArray[np.float64]  # (B, K) of those, best first, where scores decide when to stop; else (B, 0)

    @property
    def step(self) -> int:
        return self.logps.shape[2]

    def keep_rows(self, rows: NDArray[np.int64]) -> None:
        """On the host, drop the rows that are not among these. The tensors follow with `reorder`."""
        self.jobs = [self.jobs[row] for row in rows]
        self.max_new_tokens = self.max_new_tokens[rows]
        self.ended = self.ended[rows]
        self.best_scores = self.best_scores[rows]

    def reorder(self, rows: Tensor, parents: Tensor) -> None:
        """Fill the slots again: slot (i, j) gets what was in slot (rows[i], parents[i, j])."""
        rows = rows[:, None]
        self.sums, self.logps, self.history = (part[rows, parents] for part in (self.sums, self.logps, self.history))

    def append(self, ids: Tensor, logps: Tensor, sums: Tensor) -> None:
        """One more token for each hypothesis, all (B, W)."""
        self.history = torch.cat([self.history, ids[:, :, None]], dim=2)
        self.logps = torch.cat([self.logps, logps[:, :, None]], dim=2)
        self.sums = sums


def initial_beam(jobs: list[SearchJob], task: SearchTask) -> Beam:
    """One hypothesis for each job: its prefix."""
    device = task.device
    kept = task.search.beam_size if task.search.stopping == "score" else 0
    max_prefix = max(len(job.prefix) for job in jobs)
    history = [[[-1] * (max_prefix - len(job.prefix)) + job.prefix] for job in jobs]
    return Beam(
        jobs,
        torch.zeros(len(jobs), 1, device=device),
        torch.zeros(len(jobs), 1, 0, device=device),
        torch.tensor(history, dtype=torch.long, device=device),
        np.array([job.max_new_tokens for job in jobs], dtype=np.int64),
        np.zeros(len(jobs), dtype=np.int64),
        np.full((len(jobs), kept), -np.inf),
    )


def prefill_ids(jobs: list[SearchJob], task: SearchTask) -> tuple[Tensor, Tensor | None]:
    """The start token and the prefix: ids (B, 1 + P), and which of them are real, or None where all are."""
    start = task.special_tokens.start
    lengths = [1 + len(job.prefix) for job in jobs]
    ids = [[start, *job.prefix] + [start] * (max(lengths) - 1 - len(job.prefix)) for job in jobs]
    real = None
    if min(lengths) < max(lengths):
        positions = torch.arange(max(lengths), device=task.device)
        real = positions < torch.tensor(lengths, device=task.device)[:, None]
    return torch.tensor(ids, device=task.device), real
