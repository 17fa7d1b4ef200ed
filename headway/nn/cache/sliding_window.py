"""Keys and values of a window: what attention remembers where its mask looks back only so far, however long the text."""

from typing import Self

import torch
from torch import Tensor

from headway.nn.cache.kv import KVCache, Keys, check_remembered
from headway.nn.sequence import Memory, Places

SLACK = 16  # tokens beyond the window that are still known, so that a few can be taken back


class Ring:
    """The last `window + slack` positions: position p lies in slot p mod size, so nothing ever moves."""

    def __init__(self, batch: int, device: torch.device, window: int, slack: int = SLACK) -> None:
        self.window, self.size = window, window + slack
        self.name = f"ring({self.size})"
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.positions = torch.full((batch, self.size), -1, device=device)  # of what lies in each slot; -1: nothing
        self.buffers: tuple[Tensor, ...] = ()  # (B, G, size, D) each

    def append(self, k: Tensor, v: Tensor, places: Places) -> tuple[Tensor, Tensor, Places]:
        """Take in (B, G, T, D) more; padding is left out. Returns what was known and the new, and where they stand."""
        (keys, values), heard = self.take((k, v), places)
        return keys, values, heard

    def take(self, given: tuple[Tensor, ...], places: Places) -> tuple[tuple[Tensor, ...], Places]:
        """The same of however many tensors."""
        batch, _, length, _ = given[0].shape
        old = self.buffers or tuple(x.new_zeros(*x.shape[:2], self.size, x.shape[3]) for x in given)
        new = places.positions.expand(batch, length)
        valid = torch.ones_like(new, dtype=torch.bool) if places.valid is None else places.valid
        if length == 1 and places.valid is None and not torch.is_grad_enabled():
            return self._take_one(old, given, new, places.end)
        heard = Places(torch.cat([self.positions, new], 1), torch.cat([self.positions >= 0, valid], 1), places.end)
        known = tuple(torch.cat([x.to(y.dtype), y], 2) for x, y in zip(old, given))
        self.lengths = self.lengths + valid.sum(1)
        rows, columns = (valid & (new >= self.lengths[:, None] - self.size)).nonzero(as_tuple=True)
        slots = new[rows, columns] % self.size
        self.positions = self.positions.index_put((rows, slots), new[rows, columns])
        kept = []
        for x, y in zip(old, given):
            fresh = x.clone()  # the old one may be needed to go backwards
            fresh[rows, :, slots] = y[rows, :, columns].to(x.dtype)
            kept.append(fresh)
        self.buffers = tuple(kept)
        return known, heard

    def _take_one(
        self, old: tuple[Tensor, ...], given: tuple[Tensor, ...], new: Tensor, end: int
    ) -> tuple[tuple[Tensor, ...], Places]:
        """One token a row, written into its slot: what falls out of the window was there."""
        rows, slots = torch.arange(len(new), device=new.device), new[:, 0] % self.size
        for x, y in zip(old, given):
            x[rows, :, slots] = y[:, :, 0].to(x.dtype)
        self.positions[rows, slots] = new[:, 0]
        self.lengths, self.buffers = self.lengths + 1, old
        return old, Places(self.positions, self.positions >= 0, end)

    @property
    def shortest(self) -> Tensor:
        """What follows n tokens looks back at the last window - 1 of them: those must still be here."""
        held = self.positions.masked_fill(self.positions < 0, torch.iinfo(torch.long).max)
        first = torch.where(self.lengths > 0, held.amin(1), 0)
        return torch.where(first == 0, 0, torch.minimum(first + self.window - 1, self.lengths))

    def truncate(self, lengths: Tensor) -> None:
        check_remembered(self, lengths)
        self.lengths = torch.minimum(self.lengths, lengths)
        self.positions = self.positions.masked_fill(self.positions >= self.lengths[:, None], -1)

    def select(self, rows: Tensor) -> None:
        self.lengths, self.positions = self.lengths[rows], self.positions[rows]
        self.buffers = tuple(x[rows] for x in self.buffers)

    def snapshot(self) -> Self:
        saved = type(self)(0, self.lengths.device, self.window, self.size - self.window)
        saved.restore(self)
        return saved

    def restore(self, saved: Self) -> None:
        self.lengths, self.positions = saved.lengths.clone(), saved.positions.clone()
        self.buffers = tuple(x.clone() for x in saved.buffers)

    def detach(self) -> None:
        self.buffers = tuple(x.detach() for x in self.buffers)

    @property
    def bytes(self) -> int:
        return sum(x.nbytes for x in self.buffers)

    def tensors(self) -> dict[str, Tensor]:
        """Everything, for a checkpoint."""
        named = {f"buffer{number}": x for number, x in enumerate(self.buffers)}
        return {"lengths": self.lengths, "positions": self.positions, **named}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.lengths, self.positions = tensors["lengths"], tensors["positions"]
        self.buffers = tuple(tensors[name] for name in sorted(tensors) if name.startswith("buffer"))


class Inputs(Ring):
    """What a layer was given, instead of the keys and values that it made of it: where weights learn between one look
    and the next, those would be stale (Transformer-XL)."""

    def recall(self, x: Tensor, places: Places) -> Memory:
        """Take in (B, T, d) more. Returns what was known and the new, and where they stand."""
        (known,), heard = self.take((x[:, None],), places)
        return Memory(known[:, 0], heard)


def new_keys(batch: int, device: torch.device, reach: int | None, learns: bool) -> Keys:
    """What attention remembers of itself, whose mask looks back so far; `learns`: the weights will change before."""
    if reach is None:
        return KVCache(batch, device)
    return Inputs(batch, device, reach) if learns else Ring(batch, device, reach)
