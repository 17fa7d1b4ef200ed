"""What marks order. A position adds to x, turns queries and keys, or bends scores; each kind does one of the three."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.errors import HeadwayError
from headway.nn.build import Cost, Scope
from headway.nn.positions.score_mod import Looking, Score
from headway.nn.sequence import Places

Layout = Literal["interleaved", "halves"]
Spacing = Literal["open", "closed"]
PREPARED = 1024  # positions whose sinusoids lie ready


class Position(nn.Module):
    """The contract, and what does nothing. Belongs to the stack, so that learned tables can be shared by its layers:
    scope.layers says how many of them there are, and what each has for itself lies here by their number."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        acts: ClassVar[Literal["nowhere", "adds", "turns", "bends"]] = "nowhere"  # a mixer may refuse what it ignores
        hears: ClassVar[bool] = False  # it needs the weights, which only the explicit kernel shows

        def resolved(self, scope: Scope, mixers: Sequence[Any]) -> "Position.Config":
            """Derived values filled in. `mixers`: of the layers that share this position."""
            return self

        def cost(self, scope: Scope) -> Cost:
            return Cost()

    def add(self, x: Tensor, places: Places) -> Tensor:  # x (B, T, d), before the first layer
        return x

    def turn(self, x: Tensor, places: Places) -> Tensor:  # queries or keys (B, H, T, D)
        return x

    def ask(self, q: Tensor, places: Places, layer: int) -> Tensor:
        """Queries, where they are changed in another way than keys."""
        return self.turn(q, places)

    def score(self, looking: Looking) -> Score | None:
        return None


class NoPosition(Position):
    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        kind: str = "none"

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()


def sinusoids(positions: Tensor, width: int, base: float = 10000.0, layout: Layout = "interleaved") -> Tensor:
    """PE(pos, 2i) = sin(pos / base^(2i/width)), PE(pos, 2i+1) = cos(same); "halves" puts all sines first. float64."""
    rates = base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width)
    angles = positions[..., None].double() * rates  # (..., width / 2)
    if layout == "halves":
        return torch.cat([angles.sin(), angles.cos()[..., : width // 2]], dim=-1)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :width]


class Sinusoidal(Position):
    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        acts = "adds"
        kind: str = "sinusoidal"
        base: float = number(10000.0, low=1)
        layout: Literal["interleaved", "halves"] = "interleaved"  # the paper's; Marian's

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config, self.width = config, scope.d_model
        # Read by compiled code, which would compute them anew for every token; a longer text does that anyway.
        self.register_buffer("table", self._values(torch.arange(PREPARED)), persistent=False)

    def _values(self, positions: Tensor) -> Tensor:
        return sinusoids(positions, self.width, self.config.base, self.config.layout)

    def add(self, x: Tensor, places: Places) -> Tensor:
        if x.is_cuda and places.end <= PREPARED:
            table: Tensor = self.table  # type: ignore[assignment]
            return x + table[places.positions].to(x.dtype)
        return x + self._values(places.positions).to(x.dtype)


class Learned(Position):
    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        acts = "adds"
        kind: str = "learned"
        longest: int = number(1024, low=1)

        def cost(self, scope: Scope) -> Cost:
            return Cost(parameters=self.longest * scope.d_model)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.table = nn.Embedding(config.longest, scope.d_model)

    def add(self, x: Tensor, places: Places) -> Tensor:
        positions, size = places.positions, self.table.num_embeddings
        if places.end > size:  # a bound: padding may have raised it, so look before refusing
            real = positions if places.valid is None else positions.expand_as(places.valid)[places.valid]
            longest = int(real.max()) + 1 if real.numel() else 0
            if longest > size:
                raise HeadwayError(
                    f"this model learned {size} positions and was given {longest} tokens. Shorten the text, or train "
                    'with another position: "sinusoidal", "rope" and "alibi" have no last one.'
                )
            positions = positions.clamp(max=size - 1)
        return x + self.table(positions)  # type: ignore[no-any-return]


def rotate(x: Tensor, positions: Tensor, base: float, layout: Layout, spacing: Spacing = "open") -> Tensor:
    """Turn each pair of channels by position · base^(-2i/D). Pairs are neighbours, or i and i + D/2 ("halves").
    `spacing`: "closed" turns by base^(-i/(D/2-1)) instead, so that the slowest pair turns by 1/base."""
    return turned(x, *turns(positions, x.shape[-1], base, spacing, x.dtype), layout)


def turns(positions: Tensor, width: int, base: float, spacing: Spacing, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine by which each position (B or 1, T) turns each pair of channels: (B or 1, 1, T, D / 2)."""
    steps = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width
    if spacing == "closed":
        steps = torch.linspace(0, 1, width // 2, dtype=torch.float64, device=positions.device)
    rates = base**-steps
    angles = positions[:, None, :, None].double() * rates
    return angles.cos().to(dtype), angles.sin().to(dtype)


def turned(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    if layout == "halves":
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(-2)


class Rope(Position):
    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        acts = "turns"
        kind: str = "rope"
        base: float = number(10000.0, low=1)
        layout: Literal["interleaved", "halves"] = "interleaved"  # RoFormer's; Llama's
        spacing: Literal["open", "closed"] = "open"  # of the rates: without 1/base, or with it, as RetNet's

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = config

    def turn(self, x: Tensor, places: Places) -> Tensor:
        if x.shape[-1] % 2:
            raise HeadwayError(f"rope turns pairs of channels, and a head has {x.shape[-1]}: make d_k even.")
        return rotate(x, places.positions, self.config.base, self.config.layout, self.config.spacing)


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n) … for n heads; between powers of two, every other slope of the next power fills up."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    extra = [2 ** (-4 * (i + 1) / power) for i in range(0, 2 * (heads - power), 2)]
    return slopes + extra


class Alibi(Position):
    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        acts = "bends"
        kind: str = "alibi"

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()

    def score(self, looking: Looking) -> Score | None:
        slopes = torch.tensor(alibi_slopes(looking.q.shape[1]), dtype=torch.float64, device=looking.q.device)
        return Score("alibi", lambda s, b, h, q, k: s - slopes[h].to(s.dtype) * (q - k).abs().to(s.dtype))
