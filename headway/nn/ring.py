"""Keys and values of a window: what attention remembers where its mask looks back only so far, however long the text."""

import torch
from torch import Tensor

from headway.nn.places import Places
from headway.nn.state import check_remembered

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
        batch, _, length, _ = k.shape
        old = self.buffers or tuple(x.new_zeros(*x.shape[:2], self.size, x.shape[3]) for x in (k, v))
        new = places.positions.expand(batch, length)
        valid = torch.ones_like(new, dtype=torch.bool) if places.valid is None else places.valid
        if length == 1 and places.valid is None and not torch.is_grad_enabled():
            return self._append_one(old, k, v, new, places.end)
        heard = Places(torch.cat([self.positions, new], 1), torch.cat([self.positions >= 0, valid], 1), places.end)
        keys, values = (torch.cat([x.to(y.dtype), y], 2) for x, y in zip(old, (k, v)))
        self.lengths = self.lengths + valid.sum(1)
        rows, columns = (valid & (new >= self.lengths[:, None] - self.size)).nonzero(as_tuple=True)
        slots = new[rows, columns] % self.size
        self.positions = self.positions.index_put((rows, slots), new[rows, columns])
        kept = []
        for x, y in zip(old, (k, v)):
            fresh = x.clone()  # the old one may be needed to go backwards
            fresh[rows, :, slots] = y[rows, :, columns].to(x.dtype)
            kept.append(fresh)
        self.buffers = tuple(kept)
        return keys, values, heard

    def _append_one(
        self, old: tuple[Tensor, ...], k: Tensor, v: Tensor, new: Tensor, end: int
    ) -> tuple[Tensor, Tensor, Places]:
        """One token a row, written into its slot: what falls out of the window was there."""
        rows, slots = torch.arange(len(k), device=k.device), new[:, 0] % self.size
        for x, y in zip(old, (k, v)):
            x[rows, :, slots] = y[:, :, 0].to(x.dtype)
        self.positions[rows, slots] = new[:, 0]
        self.lengths, self.buffers = self.lengths + 1, old
        return old[0], old[1], Places(self.positions, self.positions >= 0, end)

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

    def snapshot(self) -> "Ring":
        saved = Ring(0, self.lengths.device, self.window, self.size - self.window)
        saved.restore(self)
        return saved

    def restore(self, saved: "Ring") -> None:
        self.lengths, self.positions = saved.lengths.clone(), saved.positions.clone()
        self.buffers = tuple(x.clone() for x in saved.buffers)

    def detach(self) -> None:
        self.buffers = tuple(x.detach() for x in self.buffers)

    @property
    def bytes(self) -> int:
        return sum(x.nbytes for x in self.buffers)
