"""What decoding remembers. Every state has per-row lengths and one protocol, so that beam search (select),
speculation (truncate, snapshot, restore) and segment recurrence (detach) work with whatever a mixer keeps.

A state need not hold the whole past: one that keeps a window or a running sum says with `shortest` how far back it
can be truncated, and refuses to go further; a snapshot taken before goes back any distance."""

from collections.abc import Callable
from typing import Any, Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.errors import HeadwayError
from headway.nn.sequence import Memory, Places, places_from


class State(Protocol):
    lengths: Tensor  # (B,) tokens taken in so far

    def select(self, rows: Tensor) -> None: ...  # reorder, repeat or drop rows
    @property
    def shortest(self) -> Tensor: ...  # (B,) what each row can be truncated to
    def truncate(self, lengths: Tensor) -> None: ...  # forget all but the first tokens of each row, or raise Forgotten
    def snapshot(self) -> Self: ...
    def restore(self, saved: Self) -> None: ...
    def detach(self) -> None: ...  # stop gradients at this point
    def tensors(self) -> dict[str, Tensor]: ...  # everything, for a file
    def load(self, tensors: dict[str, Tensor]) -> None: ...
    @property
    def bytes(self) -> int: ...


class Keys(State, Protocol):
    """A state that attention can listen to, in whatever slots it keeps its keys."""

    name: str  # of where the keys stand: layers whose states share a name and a length share the mask laid over them

    def append(self, k: Tensor, v: Tensor, places: Places) -> tuple[Tensor, Tensor, Places]: ...


class Forgotten(HeadwayError):
    """A state was asked to go back to what it no longer holds."""


def check_remembered(state: State, lengths: Tensor) -> None:
    if (lengths < state.shortest).any():
        raise Forgotten(
            f"a state cannot go back to {lengths.tolist()} tokens: it remembers no row shorter than "
            f"{state.shortest.tolist()}. Take a snapshot before, and restore it."
        )


class KVCache:
    """All keys and values so far, a slot for each position."""

    name = "kv"

    def __init__(self, batch: int, device: torch.device) -> None:
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.end = 0  # no row is longer than this
        self.uniform = True  # every row is exactly this long
        self.buffers: tuple[Tensor, ...] = ()  # (B, G, capacity, D) each

    def append(self, k: Tensor, v: Tensor, places: Places) -> tuple[Tensor, Tensor, Places]:
        """Take in (B, G, T, D) more; padding is left out. Returns everything so far and where it stands."""
        new, end = (k, v), self.end + k.shape[2]
        if torch.is_grad_enabled() or any(x.requires_grad for x in self.buffers):
            # A fresh copy: the old one may be needed to go backwards, if only for the gradient of a query.
            self.buffers = tuple(F.pad(x[:, :, : self.end], (0, 0, 0, k.shape[2])) for x in self._or_empty(new))
        else:
            self._reserve(new, end)
        if places.valid is not None:
            rows, columns = places.valid.nonzero(as_tuple=True)
            slots = places.positions.expand(len(k), -1)[rows, columns]
            for buffer, x in zip(self.buffers, new):
                buffer[rows, :, slots] = x[rows, :, columns].to(buffer.dtype)
            self.lengths = self.lengths + places.valid.sum(1)
            self.end, self.uniform = _longest(self.lengths), False  # padding takes up no room
        else:
            for buffer, x in zip(self.buffers, new):
                if self.uniform:
                    buffer[:, :, self.end : end] = x
                else:  # each row at its own place, without asking the device where that is
                    rows = torch.arange(len(k), device=k.device)[:, None]
                    buffer[rows, :, places.positions] = x.transpose(1, 2).to(buffer.dtype)
            self.lengths, self.end = self.lengths + k.shape[2], end
        keys, values = (x[:, :, : self.end] for x in self.buffers)
        return keys, values, self.places()

    def places(self) -> Places:
        places = places_from(self.end, None, self.lengths.device)
        return places if self.uniform else places._replace(valid=places.positions < self.lengths[:, None])

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        self.buffers = tuple(x.index_select(0, rows) for x in self.buffers)

    @property
    def shortest(self) -> Tensor:
        return torch.zeros_like(self.lengths)

    def truncate(self, lengths: Tensor) -> None:
        self.lengths = torch.minimum(self.lengths, lengths)
        sizes = set(self.lengths.tolist())
        self.end, self.uniform = max(sizes, default=0), len(sizes) <= 1

    def snapshot(self) -> "KVCache":
        saved = KVCache(0, self.lengths.device)
        saved._copy(self, lambda x: x.clone())
        return saved

    def restore(self, saved: "KVCache") -> None:
        self._copy(saved, lambda x: x.clone())

    def detach(self) -> None:
        self.buffers = tuple(x.detach() for x in self.buffers)

    def tensors(self) -> dict[str, Tensor]:
        named = {f"buffer{number}": x[:, :, : self.end] for number, x in enumerate(self.buffers)}
        return {"lengths": self.lengths, **named}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.lengths = tensors["lengths"]
        self.buffers = tuple(tensors[name] for name in sorted(tensors) if name.startswith("buffer"))
        sizes = set(self.lengths.tolist())
        self.end, self.uniform = max(sizes, default=0), len(sizes) <= 1

    @property
    def bytes(self) -> int:
        return sum(x.nbytes for x in self.buffers)

    def _copy(self, other: "KVCache", copy: Callable[[Tensor], Tensor]) -> None:
        self.lengths, self.end, self.uniform = other.lengths.clone(), other.end, other.uniform
        self.buffers = tuple(copy(x) for x in other.buffers)

    def _or_empty(self, new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return self.buffers or tuple(x[:, :, :0] for x in new)

    def _reserve(self, new: tuple[Tensor, ...], end: int) -> None:
        """Room for `end` tokens; doubling, so that appending one at a time copies each token a few times only."""
        if not self.buffers or self.buffers[0].shape[2] < end:
            old = self._or_empty(new)
            grow = max(end, 2 * old[0].shape[2], 32) - old[0].shape[2]
            self.buffers = tuple(F.pad(x, (0, 0, 0, grow)) for x in old)


class CrossKVCache:
    """Keys and values of another text, taken in once: the state of cross-attention."""

    name = "source"

    def __init__(self, batch: int, device: torch.device) -> None:
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.kept: tuple[Tensor, Tensor, Places] | None = None

    def append(self, k: Tensor, v: Tensor, places: Places) -> tuple[Tensor, Tensor, Places]:
        """The other text, whole."""
        self.kept = (k, v, places)
        return self.kept

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        if self.kept is not None:
            k, v, places = self.kept
            self.kept = (k.index_select(0, rows), v.index_select(0, rows), _select_places(places, rows))

    @property
    def shortest(self) -> Tensor:
        return torch.zeros_like(self.lengths)

    def truncate(self, lengths: Tensor) -> None:
        """The other text stays whole."""

    def snapshot(self) -> "CrossKVCache":
        saved = CrossKVCache(0, self.lengths.device)
        saved.restore(self)
        return saved

    def restore(self, saved: "CrossKVCache") -> None:
        self.lengths, self.kept = saved.lengths.clone(), saved.kept

    def detach(self) -> None:
        if self.kept is not None:
            self.kept = (self.kept[0].detach(), self.kept[1].detach(), self.kept[2])

    def tensors(self) -> dict[str, Tensor]:
        if self.kept is None:
            return {"lengths": self.lengths}
        k, v, places = self.kept
        named = {"k": k, "v": v, "positions": places.positions, "end": torch.tensor(places.end)}
        return {"lengths": self.lengths, **named} | ({} if places.valid is None else {"valid": places.valid})

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.lengths = tensors["lengths"]
        self.kept = None
        if "k" in tensors:
            places = Places(tensors["positions"], tensors.get("valid"), int(tensors["end"]))
            self.kept = (tensors["k"], tensors["v"], places)

    @property
    def bytes(self) -> int:
        return 0 if self.kept is None else self.kept[0].nbytes + self.kept[1].nbytes


class ModelState:
    """The states of all layers, and the encoder's memory until they have taken it in."""

    def __init__(self, layers: list[dict[str, State]], memory: Memory | None, batch: int, device: torch.device):
        self.layers, self.memory = layers, memory
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.end, self.uniform = 0, True

    def advance(self, length: int, valid: Tensor | None) -> None:
        self.lengths = self.lengths + (length if valid is None else valid.sum(1))
        self.end = self.end + length if valid is None else _longest(self.lengths)
        self.uniform = self.uniform and valid is None
        self.memory = None

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        self._each(lambda state: state.select(rows))
        if self.memory is not None:
            places = _select_places(self.memory.places, rows)
            self.memory = Memory(self.memory.values.index_select(0, rows), places)

    @property
    def shortest(self) -> Tensor:
        states = [state.shortest for layer in self.layers for state in layer.values()]
        return torch.stack([torch.zeros_like(self.lengths), *states]).amax(0)

    def truncate(self, lengths: Tensor) -> None:
        check_remembered(self, lengths)  # first, so that all layers go back or none
        self.lengths = torch.minimum(self.lengths, lengths)
        sizes = set(self.lengths.tolist())
        self.end, self.uniform = max(sizes, default=0), len(sizes) <= 1
        self._each(lambda state: state.truncate(lengths))

    def snapshot(self) -> "ModelState":
        layers = [{name: state.snapshot() for name, state in layer.items()} for layer in self.layers]
        saved = ModelState(layers, self.memory, 0, self.lengths.device)
        saved.lengths, saved.end, saved.uniform = self.lengths.clone(), self.end, self.uniform
        return saved

    def restore(self, saved: "ModelState") -> None:
        self.memory, self.lengths = saved.memory, saved.lengths.clone()
        self.end, self.uniform = saved.end, saved.uniform
        for mine, theirs in zip(self.layers, saved.layers):
            for name, state in mine.items():
                state.restore(theirs[name])

    def detach(self) -> None:
        self._each(lambda state: state.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Of all layers; what the encoder said is in them once they have heard it."""
        named = {
            f"{number}.{name}.{key}": tensor
            for number, layer in enumerate(self.layers)
            for name, state in layer.items()
            for key, tensor in state.tensors().items()
        }
        return {"lengths": self.lengths, **named}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.lengths = tensors["lengths"]
        sizes = set(self.lengths.tolist())
        self.end, self.uniform = max(sizes, default=0), len(sizes) <= 1
        for number, layer in enumerate(self.layers):
            for name, state in layer.items():
                start = f"{number}.{name}."
                state.load({key.removeprefix(start): x for key, x in tensors.items() if key.startswith(start)})

    @property
    def bytes(self) -> int:
        return sum(state.bytes for layer in self.layers for state in layer.values())

    def _each(self, act: Callable[[State], Any]) -> None:
        for layer in self.layers:
            for state in layer.values():
                act(state)


def _longest(lengths: Tensor) -> int:
    """Asks the device, and so only where padded rows are taken in."""
    return max(lengths.tolist(), default=0)


def _select_places(places: Places, rows: Tensor) -> Places:
    positions, valid = places.positions, places.valid
    kept = positions if positions.shape[0] == 1 else positions[rows]
    return places._replace(positions=kept, valid=None if valid is None else valid[rows])
