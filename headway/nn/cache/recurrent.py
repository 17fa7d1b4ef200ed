"""What a recurrence carries on from token to token: the same amount, however long the text is."""

import torch
from torch import Tensor

from headway.nn.cache.kv import check_remembered
from headway.nn.sequence import Places


class Recurrent:
    """Named tensors (B, …) that stand for all of the past. They are replaced and never written into, so a snapshot
    costs nothing. What they were some tokens ago cannot be told from them: there is no way back but a snapshot."""

    def __init__(self, batch: int, device: torch.device) -> None:
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.values: dict[str, Tensor] = {}

    def get(self, name: str) -> Tensor | None:
        """None before the first token."""
        return self.values.get(name)

    def advance(self, places: Places, **values: Tensor) -> None:
        """These tokens were taken in, and this is what they left; padding among them left nothing."""
        self.lengths = self.lengths + (places.length if places.valid is None else places.valid.sum(1))
        # A view would keep all that it is a part of.
        own = {name: value.clone() if value._is_view() else value for name, value in values.items()}
        self.values = {**self.values, **own}

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        self.values = {name: value.index_select(0, rows) for name, value in self.values.items()}

    @property
    def shortest(self) -> Tensor:
        return self.lengths

    def truncate(self, lengths: Tensor) -> None:
        check_remembered(self, lengths)

    def snapshot(self) -> "Recurrent":
        saved = Recurrent(0, self.lengths.device)
        saved.restore(self)
        return saved

    def restore(self, saved: "Recurrent") -> None:
        self.load(saved.tensors())

    def detach(self) -> None:
        self.values = {name: value.detach() for name, value in self.values.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Everything, for a checkpoint."""
        return {"lengths": self.lengths, **self.values}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """What `tensors` gave."""
        self.lengths = tensors["lengths"]
        self.values = {name: value for name, value in tensors.items() if name != "lengths"}

    @property
    def bytes(self) -> int:
        return sum(value.nbytes for value in self.values.values())
