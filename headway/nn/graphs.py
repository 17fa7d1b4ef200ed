"""Graphs as tensors: what a reasoner reads beside the text, and what it shall say of every node."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.ops.cross_entropy import IGNORE_INDEX

NO_NAME = -1  # in place of a token, where a name has fewer


class Graphs(NamedTuple):
    """One graph a row, padded to N nodes. A row without nodes has no graph."""

    numbers: Tensor  # (B, N, F) of each node
    names: Tensor  # (B, N, P) tokens of its name; NO_NAME after the last
    valid: Tensor  # (B, N) false on padding
    edges: Tensor  # (B, N, N, E) numbers of the edge from the first node to the second; 0 where there is none
    adjacent: Tensor  # (B, N, N) where there is one
    task: Tensor  # (B,) number of the task; -1: none that is known
    pointers: Tensor  # (B, N) the node that each shall point at; IGNORE_INDEX: any
    marks: Tensor  # (B, N) whether each shall be marked, 0 or 1; IGNORE_INDEX: either

    def select(self, rows: Tensor) -> "Graphs":
        return Graphs(*(x[rows] for x in self))

    def to(self, device: torch.device) -> "Graphs":
        return Graphs(*(x.to(device) for x in self))

    def pad_to(self, rows: int) -> "Graphs":
        """With rows that have no graph."""
        missing = max(rows - len(self.valid), 0)
        fills = (0, NO_NAME, False, 0, False, -1, IGNORE_INDEX, IGNORE_INDEX)
        return Graphs(*(F.pad(x, [0, 0] * (x.dim() - 1) + [0, missing], value=fill) for x, fill in zip(self, fills)))
