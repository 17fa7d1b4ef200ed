"""Rows of ids as a model takes them: one padded tensor."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headway.nn.transformer import valid_mask


def pad_rows(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Ids (B, S), padded on the right, and which of them are real (B, S), or None where all are."""
    lengths = torch.tensor([len(row) for row in rows])
    max_length = int(lengths.max())
    ids = torch.tensor([[*row, *[pad] * (max_length - len(row))] for row in rows], dtype=torch.long).to(device)
    return ids, None if bool((lengths == max_length).all()) else valid_mask(lengths, max_length).to(device)
