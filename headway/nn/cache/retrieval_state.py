"""The state of a decoder that retrieves: the chunk that it is reading, and the neighbours of the chunk before."""

import itertools

import torch
from torch import Tensor

from headway.nn.cache.kv import CrossKVCache, check_truncation

_versions = itertools.count(1)


class RetrievalState:
    """It can be truncated to the beginning of the current chunk: what was retrieved before that is gone."""

    def __init__(self, batch: int, device: torch.device, chunk: int) -> None:
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.chunk = chunk
        self.pending: Tensor | None = None  # (B, chunk, d) the stream of the tokens of the current chunk
        self.neighbours: Tensor | None = None  # (B, S, d) encoded, of the last chunk that is complete
        self.valid: Tensor | None = None  # (B, S)
        self.version = 0  # another one whenever `neighbours` changes

    def extend(self, neighbours: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """Those of the last complete chunk, and behind them the given ones (B, C, S, d): (B, 1 + C, S, d)."""
        if self.neighbours is None or self.valid is None:
            empty = torch.zeros_like(neighbours[:, :1]) if neighbours.shape[1] else None
            before = neighbours.new_zeros(len(neighbours), 1, *neighbours.shape[2:]) if empty is None else empty
            hidden = valid.new_zeros(len(valid), 1, valid.shape[2])
        else:
            before, hidden = self.neighbours[:, None].to(neighbours.dtype), self.valid[:, None]
        return torch.cat([before, neighbours], 1), torch.cat([hidden, valid], 1)

    def advance(self, added: Tensor, pending: Tensor, neighbours: Tensor | None, valid: Tensor | None) -> None:
        """`added` (B,) more tokens were read. `neighbours`: those of the last complete chunk, where that is another."""
        self.lengths = self.lengths + added
        self.pending = pending
        if neighbours is not None:
            self.neighbours, self.valid, self.version = neighbours, valid, next(_versions)

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        for name in ("pending", "neighbours", "valid"):
            value = getattr(self, name)
            setattr(self, name, None if value is None else value.index_select(0, rows))

    @property
    def min_length(self) -> Tensor:
        return self.lengths // self.chunk * self.chunk

    def truncate(self, lengths: Tensor) -> None:
        check_truncation(self, lengths)
        self.lengths = torch.minimum(self.lengths, lengths)

    def snapshot(self) -> "RetrievalState":
        saved = RetrievalState(0, self.lengths.device, self.chunk)
        saved.restore(self)
        return saved

    def restore(self, saved: "RetrievalState") -> None:
        self.lengths, self.version = saved.lengths.clone(), saved.version
        self.pending, self.neighbours, self.valid = saved.pending, saved.neighbours, saved.valid

    def detach(self) -> None:
        self.pending = None if self.pending is None else self.pending.detach()
        self.neighbours = None if self.neighbours is None else self.neighbours.detach()

    def tensors(self) -> dict[str, Tensor]:
        named = {name: getattr(self, name) for name in ("pending", "neighbours", "valid")}
        return {"lengths": self.lengths} | {name: value for name, value in named.items() if value is not None}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.lengths, self.version = tensors["lengths"], next(_versions)
        self.pending, self.neighbours = tensors.get("pending"), tensors.get("neighbours")
        self.valid = tensors.get("valid")

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for name, tensor in self.tensors().items() if name != "lengths")


class NeighbourKVCache(CrossKVCache):
    """Keys and values of the neighbours of one version of a RetrievalState."""

    version = -1

    def refresh(self, version: int) -> None:
        """Forget them, if they are of another version."""
        if version != self.version:
            self.kv, self.version = None, version

    def snapshot(self) -> "NeighbourKVCache":
        saved = NeighbourKVCache(0, self.lengths.device)
        saved.restore(self)
        return saved

    def restore(self, saved: CrossKVCache) -> None:
        super().restore(saved)
        self.version = getattr(saved, "version", -1)

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Keys and values are not read: they are made again for the neighbours that are."""
        self.lengths, self.kv, self.version = tensors["lengths"], None, -1
