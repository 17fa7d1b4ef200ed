"""Three strangers that the contracts must carry, though Headway ships none of them: a ring buffer, a recurrence and a
residual of two streams. They reach the model as any kind does, by lines in the catalogue."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway import catalogue
from headway.errors import ConfigError
from headway.nn.attention import Attention
from headway.nn.context import Context
from headway.nn.masks import Mask
from headway.nn.places import Memory, Places
from headway.nn.positions import Position
from headway.nn.scope import Cost, Scope, make_linear, make_norm
from headway.nn.state import State, check_remembered
from headway.parts import Part, number

TOYS = (
    catalogue.Entry("mixer", "ring", f"{__name__}:Ring", "attention that remembers a window"),
    catalogue.Entry("mixer", "decay", f"{__name__}:Decay", "a decaying running sum"),
    catalogue.Entry("residual", "twin", f"{__name__}:Twin", "two streams, as ResiDual"),
)


@contextlib.contextmanager
def in_catalogue() -> Iterator[None]:
    before = catalogue.CATALOGUE
    catalogue.CATALOGUE = (*before, *TOYS)
    try:
        yield
    finally:
        catalogue.CATALOGUE = before


class RingState:
    """The keys and values of the last `size` positions: position p lies in slot p mod size."""

    def __init__(self, batch: int, device: torch.device, window: int, size: int) -> None:
        self.window, self.size, self.name = window, size, f"ring({size})"
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.positions = torch.full((batch, size), -1, device=device)  # of what lies in each slot; -1: nothing
        self.buffers: tuple[Tensor, ...] = ()  # (B, G, size, D) each

    def append(self, k: Tensor, v: Tensor, places: Places) -> tuple[Tensor, Tensor, Places]:
        batch, _, length, _ = k.shape
        old = self.buffers or tuple(x.new_zeros(*x.shape[:2], self.size, x.shape[3]) for x in (k, v))
        new = places.positions.expand(batch, length)
        valid = torch.ones_like(new, dtype=torch.bool) if places.valid is None else places.valid
        heard = Places(torch.cat([self.positions, new], 1), torch.cat([self.positions >= 0, valid], 1), places.end)
        keys, values = (torch.cat([x, y], 2) for x, y in zip(old, (k, v)))
        self.lengths = self.lengths + valid.sum(1)
        rows, columns = (valid & (new >= self.lengths[:, None] - self.size)).nonzero(as_tuple=True)
        slots = new[rows, columns] % self.size
        self.positions = self.positions.index_put((rows, slots), new[rows, columns])
        kept = []
        for x, y in zip(old, (k, v)):
            fresh = x.clone()  # never in place
            fresh[rows, :, slots] = y[rows, :, columns]
            kept.append(fresh)
        self.buffers = tuple(kept)
        return keys, values, heard

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

    def snapshot(self) -> "RingState":
        saved = RingState(0, self.lengths.device, self.window, self.size)
        saved.restore(self)
        return saved

    def restore(self, saved: "RingState") -> None:
        """Nothing is ever written in place, so nothing needs copying."""
        self.lengths, self.positions, self.buffers = saved.lengths, saved.positions, saved.buffers

    def detach(self) -> None:
        self.buffers = tuple(x.detach() for x in self.buffers)

    @property
    def bytes(self) -> int:
        return sum(x.nbytes for x in self.buffers)


class Ring(Attention):
    """Local attention with a state of fixed size."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        kind: str = "ring"
        window: int = number(4, low=1)
        slack: int = number(2, low=0)

        def refuse(self, mask: Mask, position: Position.Config) -> None:
            super().refuse(mask, position)
            if mask.reach is None or mask.reach > self.window:
                raise ConfigError(f'a ring of {self.window} cannot serve "{mask.name}".', "mask")

    def new_state(self, batch: int, device: torch.device, *, listens: bool = False, reach: int | None = None) -> State:
        c: Any = self.config
        return (
            super().new_state(batch, device, listens=True)
            if listens
            else RingState(batch, device, c.window, c.window + c.slack)
        )


class DecayState:
    """One vector for all the past: it cannot go back, except to a snapshot."""

    def __init__(self, batch: int, device: torch.device) -> None:
        self.lengths = torch.zeros(batch, dtype=torch.long, device=device)
        self.total: Tensor | None = None  # (B, d)

    @property
    def shortest(self) -> Tensor:
        return self.lengths

    def truncate(self, lengths: Tensor) -> None:
        check_remembered(self, lengths)

    def select(self, rows: Tensor) -> None:
        self.lengths = self.lengths[rows]
        self.total = None if self.total is None else self.total[rows]

    def snapshot(self) -> "DecayState":
        saved = DecayState(0, self.lengths.device)
        saved.restore(self)
        return saved

    def restore(self, saved: "DecayState") -> None:
        self.lengths, self.total = saved.lengths, saved.total

    def detach(self) -> None:
        self.total = None if self.total is None else self.total.detach()

    @property
    def bytes(self) -> int:
        return 0 if self.total is None else self.total.nbytes


class Decay(nn.Module):
    """sₜ = rate · sₜ₋₁ + xₜW, read as sₜV"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "decay"
        rate: float = number(0.8, low=0, high=1)

        def resolved(self, scope: Scope) -> "Decay.Config":
            return self

        def refuse(self, mask: Mask, position: Position.Config) -> None:
            if mask.name != "causal":
                raise ConfigError(f'a running sum hears all the past, and "{mask.name}" does not.', "mask")
            if position.acts in ("turns", "bends"):
                raise ConfigError(f"a running sum has no scores for {position.kind} to change.", "position")

        def cost(self, scope: Scope) -> Cost:
            weights = scope.linear_parameters(scope.d_model, scope.d_model)
            return Cost(parameters=2 * weights, flops_per_query=4 * scope.d_model**2)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.rate = config.rate
        self.write, self.read = (make_linear(scope.d_model, scope.d_model, scope) for _ in range(2))

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, state: DecayState | None = None
    ) -> Tensor:
        valid, written = ctx.queries.valid, self.write(x)
        total = torch.zeros_like(x[:, 0]) if state is None or state.total is None else state.total
        totals = []
        for t in range(x.shape[1]):
            after = self.rate * total + written[:, t]
            total = after if valid is None else torch.where(valid[:, t, None], after, total)
            totals.append(total)
        if state is not None:
            state.total = total
            state.lengths = state.lengths + (x.shape[1] if valid is None else valid.sum(1))
        result: Tensor = self.read(torch.stack(totals, 1))
        return result

    def new_state(self, batch: int, device: torch.device, *, reach: int | None = None) -> State:
        return DecayState(batch, device)


class Twin(nn.Module):
    """A post-normed stream and a plain one beside it, joined at the end: Xie 2023."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "twin"

        def build(self, scope: Scope, role: str) -> "Twin":
            return Twin(scope)

        def parameters(self, scope: Scope, role: str) -> int:
            return scope.norm_parameters()

        def gain(self, scope: Scope) -> float:
            return 1.0

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.norm = make_norm(scope)

    def start(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x

    def wrap(self, s: tuple[Tensor, Tensor], sublayer: Any) -> tuple[Tensor, Tensor]:
        post, dual = s
        added = sublayer(post)
        return self.norm(post + added), dual + added

    def finish(self, s: tuple[Tensor, Tensor]) -> Tensor:
        result: Tensor = s[0] + self.norm(s[1])
        return result
