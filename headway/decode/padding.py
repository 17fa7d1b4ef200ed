"""Rows of ids as a model takes them: padded to one length."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headway.decode.batching import batches as batches
from headway.nn.transformer import valid_places


def padded(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Ids (B, S), and which of them are real (B, S), or None where all are."""
    lengths = torch.tensor([len(row) for row in rows])
    longest = int(lengths.max())
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], dtype=torch.long).to(device)
    return ids, None if bool((lengths == longest).all()) else valid_places(lengths, longest).to(device)
