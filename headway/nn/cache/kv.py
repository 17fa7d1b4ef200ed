"""The KV cache of incremental decoding, and the protocol that every layer's cache follows.

All caches know a length per row and have the same operations, so that beam search (select), speculative decoding
(truncate, snapshot, restore) and segment-level recurrence (detach) work with whatever a mixer keeps.

A cache need not hold all earlier tokens: one that keeps a window or a running sum says with `min_length` how far back
it can be truncated, and raises TruncationError beyond that; restoring an earlier snapshot goes back any distance.
"""

from collections.abc import Callable
from typing import Any, Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.errors import HeadwayError
from headway.nn.sequence import Memory, TokenPositions, positions_from_start

MIN_CAPACITY = 32  # tokens that a KV cache reserves at first


class LayerCache(Protocol):
    @property
    def lengths(self) -> Tensor: ...  # (B,) tokens processed so far
    def select(self, rows: Tensor) -> None: ...  # reorder, repeat or drop rows
    @property
    def min_length(self) -> Tensor: ...  # (B,) the shortest length that each row can be truncated to
    def truncate(self, lengths: Tensor) -> None: ...  # keep the first tokens of each row, or raise TruncationError
    def snapshot(self) -> Self: ...
    def restore(self, saved: Self) -> None: ...
    def detach(self) -> None: ...  # stop gradients at this point
    def tensors(self) -> dict[str, Tensor]: ...  # everything, for a file
    def load(self, tensors: dict[str, Tensor]) -> None: ...
    @property
    def bytes(self) -> int: ...


class AttentionCache(LayerCache, Protocol):
    """A cache that attention can read, in whatever slots it keeps its keys."""

    name: str  # of the key positions: layers whose caches share a name and a length share one bound mask

    def append(self, k: Tensor, v: Tensor, tokens: TokenPositions) -> tuple[Tensor, Tensor, TokenPositions]: ...


class TruncationError(HeadwayError):
    """A cache was asked to go back to tokens that it no longer holds."""


def check_truncation(cache: LayerCache, lengths: Tensor) -> None:
    if (lengths < cache.min_length).any():
        raise TruncationError(
            f"cannot truncate the cache to {lengths.tolist()} tokens: the shortest possible lengths are "
            f"{cache.min_length.tolist()}. Take a snapshot earlier, and restore it."
        )


class KVCache:
    """All keys and values so far, one slot per position."""

    name = "kv"

    def __init__(self, batch: int, device: torch.device) -> None:
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.end = 0  # no row is longer than this
        self.uniform = True  # every row is exactly this long
        self.buffers: tuple[Tensor, ...] = ()  # (B, G, capacity, D) each

    def append(self, k: Tensor, v: Tensor, tokens: TokenPositions) -> tuple[Tensor, Tensor, TokenPositions]:
        """Add (B, G, T, D) more, without padding. Returns all keys and values so far, and their positions."""
        (keys, values), key_positions = self.append_all((k, v), tokens)
        return keys, values, key_positions

    def append_all(self, new: tuple[Tensor, ...], tokens: TokenPositions) -> tuple[tuple[Tensor, ...], TokenPositions]:
        """The same for any number of tensors."""
        batch, _, length, _ = new[0].shape
        end = self.end + length
        if torch.is_grad_enabled() or any(x.requires_grad for x in self.buffers):
            # A fresh copy: the backward pass may need the old one, if only for the gradient of a query.
            self.buffers = tuple(F.pad(x[:, :, : self.end], (0, 0, 0, length)) for x in self._or_empty(new))
        else:
            self._reserve(new, end)
        if tokens.valid is not None:
            rows, columns = tokens.valid.nonzero(as_tuple=True)
            slots = tokens.positions.expand(batch, -1)[rows, columns]
            for buffer, x in zip(self.buffers, new):
                buffer[rows, :, slots] = x[rows, :, columns].to(buffer.dtype)
            self.lengths = self.lengths + tokens.valid.sum(1)
            self.end, self.uniform = _max_length(self.lengths), False  # padding takes no slot
        else:
            for buffer, x in zip(self.buffers, new):
                if self.uniform:
                    buffer[:, :, self.end : end] = x
                else:  # each row at its own position, without a device sync
                    rows = torch.arange(batch, device=x.device)[:, None]
                    buffer[rows, :, tokens.positions] = x.transpose(1, 2).to(buffer.dtype)
            self.lengths, self.end = self.lengths + length, end
        return tuple(x[:, :, : self.end] for x in self.buffers), self.key_positions()

    def key_positions(self) -> TokenPositions:
        keys = positions_from_start(self.end, None, self.lengths.device)
        return keys if self.uniform else keys._replace(valid=keys.positions < self.lengths[:, None])

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        self.buffers = tuple(x.index_select(0, rows) for x in self.buffers)

    @property
    def min_length(self) -> Tensor:
        return torch.zeros_like(self.lengths)

    def truncate(self, lengths: Tensor) -> None:
        self.lengths = torch.minimum(self.lengths, lengths)
        self.end, self.uniform = _common_length(self.lengths)

    def snapshot(self) -> "KVCache":
        saved = KVCache(0, self.lengths.device)
        saved.restore(self)
        return saved

    def restore(self, saved: "KVCache") -> None:
        self.lengths, self.end, self.uniform = saved.lengths.clone(), saved.end, saved.uniform
        self.buffers = tuple(x.clone() for x in saved.buffers)

    def detach(self) -> None:
        self.buffers = tuple(x.detach() for x in self.buffers)

    def tensors(self) -> dict[str, Tensor]:
        named = {f"buffer{number}": x[:, :, : self.end] for number, x in enumerate(self.buffers)}
        return {"lengths": self.lengths, **named}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.lengths = tensors["lengths"]
        self.buffers = tuple(tensors[name] for name in sorted(tensors) if name.startswith("buffer"))
        self.end, self.uniform = _common_length(self.lengths)

    @property
    def bytes(self) -> int:
        return sum(x.nbytes for x in self.buffers)

    def _or_empty(self, new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return self.buffers or tuple(x[:, :, :0] for x in new)

    def _reserve(self, new: tuple[Tensor, ...], end: int) -> None:
        """Capacity for `end` tokens; doubled, so that appending one at a time copies each token only a few times."""
        if not self.buffers or self.buffers[0].shape[2] < end:
            old = self._or_empty(new)
            grow = max(end, 2 * old[0].shape[2], MIN_CAPACITY) - old[0].shape[2]
            self.buffers = tuple(F.pad(x, (0, 0, 0, grow)) for x in old)


class CrossKVCache:
    """Keys and values of the encoder output, computed once: the cache of cross-attention."""

    name = "source"

    def __init__(self, batch: int, device: torch.device) -> None:
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.kv: tuple[Tensor, Tensor, TokenPositions] | None = None

    def append(self, k: Tensor, v: Tensor, tokens: TokenPositions) -> tuple[Tensor, Tensor, TokenPositions]:
        """All of the source at once."""
        self.kv = (k, v, tokens)
        return self.kv

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        if self.kv is not None:
            k, v, tokens = self.kv
            self.kv = (k.index_select(0, rows), v.index_select(0, rows), _select_rows(tokens, rows))

    @property
    def min_length(self) -> Tensor:
        return torch.zeros_like(self.lengths)

    def truncate(self, lengths: Tensor) -> None:
        """Nothing to do: the source does not change."""

    def snapshot(self) -> "CrossKVCache":
        saved = CrossKVCache(0, self.lengths.device)
        saved.restore(self)
        return saved

    def restore(self, saved: "CrossKVCache") -> None:
        self.lengths, self.kv = saved.lengths.clone(), saved.kv

    def detach(self) -> None:
        if self.kv is not None:
            self.kv = (self.kv[0].detach(), self.kv[1].detach(), self.kv[2])

    def tensors(self) -> dict[str, Tensor]:
        if self.kv is None:
            return {"lengths": self.lengths}
        k, v, tokens = self.kv
        named = {"k": k, "v": v, "positions": tokens.positions, "end": torch.tensor(tokens.end)}
        return {"lengths": self.lengths, **named} | ({} if tokens.valid is None else {"valid": tokens.valid})

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.lengths = tensors["lengths"]
        self.kv = None
        if "k" in tensors:
            positions = TokenPositions(tensors["positions"], tensors.get("valid"), int(tensors["end"]))
            self.kv = (tensors["k"], tensors["v"], positions)

    @property
    def bytes(self) -> int:
        return 0 if self.kv is None else self.kv[0].nbytes + self.kv[1].nbytes


class DecoderState:
    """The caches of all layers; the encoder output and the nodes of a graph until cross-attention has projected them
    into its own caches."""

    def __init__(
        self,
        layers: list[dict[str, LayerCache]],
        memory: Memory | None,
        batch: int,
        device: torch.device,
        nodes: Memory | None = None,
    ):
        self.layers, self.memory, self.nodes = layers, memory, nodes
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.end, self.uniform = 0, True

    def advance(self, length: int, valid: Tensor | None) -> None:
        self.lengths = self.lengths + (length if valid is None else valid.sum(1))
        self.end = self.end + length if valid is None else _max_length(self.lengths)
        self.uniform = self.uniform and valid is None
        self.memory = self.nodes = None

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        self._each(lambda cache: cache.select(rows))
        self.memory, self.nodes = (_select_memory(one, rows) for one in (self.memory, self.nodes))

    @property
    def min_length(self) -> Tensor:
        lengths = [cache.min_length for layer in self.layers for cache in layer.values()]
        return torch.stack([torch.zeros_like(self.lengths), *lengths]).amax(0)

    def truncate(self, lengths: Tensor) -> None:
        check_truncation(self, lengths)  # first, so that either all layers go back or none
        self.lengths = torch.minimum(self.lengths, lengths)
        self.end, self.uniform = _common_length(self.lengths)
        self._each(lambda cache: cache.truncate(lengths))

    def snapshot(self) -> "DecoderState":
        layers = [{name: cache.snapshot() for name, cache in layer.items()} for layer in self.layers]
        saved = DecoderState(layers, self.memory, 0, self.lengths.device, self.nodes)
        saved.lengths, saved.end, saved.uniform = self.lengths.clone(), self.end, self.uniform
        return saved

    def restore(self, saved: "DecoderState") -> None:
        self.memory, self.nodes, self.lengths = saved.memory, saved.nodes, saved.lengths.clone()
        self.end, self.uniform = saved.end, saved.uniform
        for mine, theirs in zip(self.layers, saved.layers):
            for name, cache in mine.items():
                cache.restore(theirs[name])

    def detach(self) -> None:
        self._each(lambda cache: cache.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Of all layers; the encoder output is in them once cross-attention has projected it."""
        named = {
            f"{number}.{name}.{key}": tensor
            for number, layer in enumerate(self.layers)
            for name, cache in layer.items()
            for key, tensor in cache.tensors().items()
        }
        return {"lengths": self.lengths, **named}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.lengths = tensors["lengths"]
        self.end, self.uniform = _common_length(self.lengths)
        for number, layer in enumerate(self.layers):
            for name, cache in layer.items():
                prefix = f"{number}.{name}."
                cache.load({key.removeprefix(prefix): x for key, x in tensors.items() if key.startswith(prefix)})

    @property
    def bytes(self) -> int:
        return sum(cache.bytes for layer in self.layers for cache in layer.values())

    def _each(self, act: Callable[[LayerCache], Any]) -> None:
        for layer in self.layers:
            for cache in layer.values():
                act(cache)


def _max_length(lengths: Tensor) -> int:
    """Synchronises with the device, and so is called only where padded rows are added."""
    return max(lengths.tolist(), default=0)


def _common_length(lengths: Tensor) -> tuple[int, bool]:
    """The largest length, and whether all are equal."""
    distinct = set(lengths.tolist())
    return max(distinct, default=0), len(distinct) <= 1


def _select_memory(memory: Memory | None, rows: Tensor) -> Memory | None:
    if memory is None:
        return None
    return Memory(memory.values.index_select(0, rows), _select_rows(memory.positions, rows))


def _select_rows(tokens: TokenPositions, rows: Tensor) -> TokenPositions:
    positions, valid = tokens.positions, tokens.valid
    return tokens._replace(
        positions=positions if positions.shape[0] == 1 else positions[rows],
        valid=None if valid is None else valid[rows],
    )
