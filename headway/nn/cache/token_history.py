"""The cache of a decoder that computes all earlier tokens anew at every step: their ids."""

import torch
from torch import Tensor

from headway.nn.sequence import TokenPositions


class TokenHistory:
    """The ids of all tokens so far. One cache for all layers."""

    def __init__(self, batch: int, device: torch.device) -> None:
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.ids = torch.zeros(batch, 0, dtype=torch.long, device=device)  # (B, S) each row's first `lengths`

    def append(self, ids: Tensor, tokens: TokenPositions) -> None:
        """Ids (B, T) at these positions; padding takes none."""
        longer = self.ids.new_zeros(len(ids), tokens.end)
        longer[:, : self.ids.shape[1]] = self.ids[:, : tokens.end]
        real = torch.ones_like(ids, dtype=torch.bool) if tokens.valid is None else tokens.valid
        rows, columns = real.nonzero(as_tuple=True)
        longer[rows, tokens.positions.expand_as(ids)[rows, columns]] = ids[rows, columns]
        self.ids, self.lengths = longer, self.lengths + real.sum(1)

    def select(self, rows: Tensor) -> None:
        self.lengths, self.ids = self.lengths[rows], self.ids.index_select(0, rows)

    @property
    def min_length(self) -> Tensor:
        return torch.zeros_like(self.lengths)

    def truncate(self, lengths: Tensor) -> None:
        self.lengths = torch.minimum(self.lengths, lengths)

    def snapshot(self) -> "TokenHistory":
        saved = TokenHistory(0, self.lengths.device)
        saved.restore(self)
        return saved

    def restore(self, saved: "TokenHistory") -> None:
        self.load(saved.tensors())

    def detach(self) -> None:
        """Ids have no gradients."""

    def tensors(self) -> dict[str, Tensor]:
        return {"lengths": self.lengths, "ids": self.ids}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.lengths, self.ids = tensors["lengths"], tensors["ids"]

    @property
    def bytes(self) -> int:
        return self.ids.nbytes
