"""The KV cache of sliding-window attention: a ring buffer of constant size, however long the text is."""

from typing import Self

import torch
from torch import Tensor

from headway.nn.cache.kv import AttentionCache, KVCache, check_truncation
from headway.nn.sequence import Memory, TokenPositions

WINDOW_SLACK = 16  # tokens kept beyond the window, so that a few can be taken back


class SlidingWindowKVCache:
    """The last `window + slack` positions: position p lies in slot p mod size, so nothing ever moves."""

    def __init__(self, batch: int, device: torch.device, window: int, slack: int = WINDOW_SLACK) -> None:
        self.window, self.size = window, window + slack
        self.name = f"ring({self.size})"
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.positions = torch.full((batch, self.size), -1, device=device)  # of the token in each slot; -1: empty
        self.buffers: tuple[Tensor, ...] = ()  # (B, G, size, D) each

    def append(self, k: Tensor, v: Tensor, tokens: TokenPositions) -> tuple[Tensor, Tensor, TokenPositions]:
        """Add (B, G, T, D) more, without padding. Returns the cached and the new ones, and their positions."""
        (keys, values), key_positions = self.append_all((k, v), tokens)
        return keys, values, key_positions

    def append_all(self, new: tuple[Tensor, ...], tokens: TokenPositions) -> tuple[tuple[Tensor, ...], TokenPositions]:
        """The same for any number of tensors."""
        batch, _, length, _ = new[0].shape
        old = self.buffers or tuple(x.new_zeros(*x.shape[:2], self.size, x.shape[3]) for x in new)
        positions = tokens.positions.expand(batch, length)
        valid = torch.ones_like(positions, dtype=torch.bool) if tokens.valid is None else tokens.valid
        if length == 1 and tokens.valid is None and not torch.is_grad_enabled():
            return self._append_one(old, new, positions, tokens.end)
        key_positions = TokenPositions(
            torch.cat([self.positions, positions], 1), torch.cat([self.positions >= 0, valid], 1), tokens.end
        )
        if tokens.ranks is not None:  # only the new tokens may be in another order than that of the text
            key_positions = key_positions._replace(ranks=torch.cat([self.positions, tokens.ranks], 1))
        known = tuple(torch.cat([x.to(y.dtype), y], 2) for x, y in zip(old, new))
        self.lengths = self.lengths + valid.sum(1)
        rows, columns = (valid & (positions >= self.lengths[:, None] - self.size)).nonzero(as_tuple=True)
        slots = positions[rows, columns] % self.size
        self.positions = self.positions.index_put((rows, slots), positions[rows, columns])
        buffers = []
        for x, y in zip(old, new):
            buffer = x.clone()  # the backward pass may need the old one
            buffer[rows, :, slots] = y[rows, :, columns].to(x.dtype)
            buffers.append(buffer)
        self.buffers = tuple(buffers)
        return known, key_positions

    def _append_one(
        self, old: tuple[Tensor, ...], new: tuple[Tensor, ...], positions: Tensor, end: int
    ) -> tuple[tuple[Tensor, ...], TokenPositions]:
        """One token per row, written into its slot, over a token that has left the window."""
        rows, slots = torch.arange(len(positions), device=positions.device), positions[:, 0] % self.size
        for x, y in zip(old, new):
            x[rows, :, slots] = y[:, :, 0].to(x.dtype)
        self.positions[rows, slots] = positions[:, 0]
        self.lengths, self.buffers = self.lengths + 1, old
        return old, TokenPositions(self.positions, self.positions >= 0, end)

    @property
    def min_length(self) -> Tensor:
        """The token after n others attends to the last window - 1 of them: those must still be here."""
        held = self.positions.masked_fill(self.positions < 0, torch.iinfo(torch.long).max)
        first = torch.where(self.lengths > 0, held.amin(1), 0)
        return torch.where(first == 0, 0, torch.minimum(first + self.window - 1, self.lengths))

    def truncate(self, lengths: Tensor) -> None:
        check_truncation(self, lengths)
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


class InputWindowCache(SlidingWindowKVCache):
    """A layer's last inputs, instead of the keys and values computed from them: where the weights change from one
    segment to the next, cached keys would be stale (Transformer-XL)."""

    def extend(self, x: Tensor, tokens: TokenPositions) -> Memory:
        """Add (B, T, d) more. Returns the cached and the new inputs, and their positions."""
        (known,), positions = self.append_all((x[:, None],), tokens)
        return Memory(known[:, 0], positions)


def new_self_cache(batch: int, device: torch.device, lookback: int | None, trainable: bool) -> AttentionCache:
    """The cache of self-attention whose mask looks back `lookback` tokens; `trainable`: weights change between
    calls."""
    if lookback is None:
        return KVCache(batch, device)
    kind = InputWindowCache if trainable else SlidingWindowKVCache
    return kind(batch, device, lookback)
