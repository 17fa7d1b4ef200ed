"""The state of a recurrent mixer (retention, RWKV …): a fixed amount per row, however long the text is."""

import torch
from torch import Tensor

from headway.nn.cache.kv import check_truncation
from headway.nn.sequence import TokenPositions


class RecurrentState:
    """Named tensors (B, …) that summarise all earlier tokens. They are replaced and never written into, so a snapshot
    costs nothing. Earlier states cannot be recovered from them: the only way back is a snapshot."""

    def __init__(self, batch: int, device: torch.device) -> None:
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.values: dict[str, Tensor] = {}

    def get(self, name: str) -> Tensor | None:
        """None before the first token."""
        return self.values.get(name)

    def advance(self, tokens: TokenPositions, **values: Tensor) -> None:
        """These tokens were processed, and these are the new values; padding among them does not count."""
        self.lengths = self.lengths + (tokens.length if tokens.valid is None else tokens.valid.sum(1))
        self.store(**values)

    def store(self, **values: Tensor) -> None:
        """New values, of no further tokens."""
        # A view would keep all of its base tensor in memory.
        own = {name: value.clone() if value._is_view() else value for name, value in values.items()}
        self.values = {**self.values, **own}

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        self.values = {name: value.index_select(0, rows) for name, value in self.values.items()}

    @property
    def min_length(self) -> Tensor:
        return self.lengths

    def truncate(self, lengths: Tensor) -> None:
        check_truncation(self, lengths)

    def snapshot(self) -> "RecurrentState":
        saved = RecurrentState(0, self.lengths.device)
        saved.restore(self)
        return saved

    def restore(self, saved: "RecurrentState") -> None:
        self.load(saved.tensors())

    def detach(self) -> None:
        self.values = {name: value.detach() for name, value in self.values.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Everything, for a checkpoint."""
        return {"lengths": self.lengths, **self.values}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """What `tensors` returned."""
        self.lengths = tensors["lengths"]
        self.values = {name: value for name, value in tensors.items() if name != "lengths"}

    @property
    def bytes(self) -> int:
        return sum(value.nbytes for value in self.values.values())


class CrossState(RecurrentState):
    """A summary of the encoder output, computed once: the cache of cross-attention that keeps no keys. It counts no
    tokens, so it can be truncated with the others."""
