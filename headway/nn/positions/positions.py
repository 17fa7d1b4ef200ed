"""Positional encodings: the contract, and sinusoidal, learned, rope (rotary) and alibi.

A position is added to the input, rotates queries and keys, or changes attention scores; each kind does one of the
three."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from headway.config.schema import Part, number, slot
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Cost, Scope
from headway.nn.masks.masks import Mask
from headway.nn.positions.score_mod import ScoreMod, ScoreModInputs
from headway.nn.sequence import TokenPositions

ChannelLayout = Literal["interleaved", "halves"]
RateSpacing = Literal["open", "closed"]
CACHED_POSITIONS = 1024  # whose sinusoids are computed once


class Position(nn.Module):
    """The contract, with defaults that do nothing. A position belongs to the stack, so that its layers can share
    learned tables: scope.layers is their number; what each layer has of its own is indexed by its number."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        # A mixer refuses what it cannot apply.
        applies_to: ClassVar[Literal["nothing", "input", "qk", "scores"]] = "nothing"
        needs_weights: ClassVar[bool] = False  # of attention, which only the kernel "math" returns
        counts_from_start: ClassVar[bool] = False  # its numbers grow with the position: a text must have an end

        def resolved(self, scope: Scope, mixers: Sequence[Any]) -> "Position.Config":
            """Derived values filled in. `mixers`: of the layers that share this position."""
            return self

        def check(self, mask: Mask) -> None:
            """Raise a ConfigError for the mask of a layer under which it makes no sense."""

        def cost(self, scope: Scope) -> Cost:
            return Cost()

    def add(self, x: Tensor, tokens: TokenPositions) -> Tensor:  # x (B, T, d), before the first layer
        return x

    def rotate(self, x: Tensor, tokens: TokenPositions) -> Tensor:  # queries or keys (B, H, T, D)
        return x

    def transform_query(self, q: Tensor, tokens: TokenPositions, layer: int) -> Tensor:
        """As `rotate`, for kinds that treat queries differently from keys."""
        return self.rotate(q, tokens)

    def rotation(self, q: Tensor) -> tuple[Tensor, float] | None:
        """Where queries and keys are rotated, and nothing else: the angle for each pair of channels by which a
        position differs from the one before it, (D / 2), and the factor of the result. For traces."""
        return None

    def score_mod(self, inputs: ScoreModInputs) -> ScoreMod | None:
        return None


class NoPosition(Position):
    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        kind: str = "none"

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()


def sinusoids(
    positions: Tensor,
    width: int,
    base: float = 10000.0,
    layout: ChannelLayout = "interleaved",
    spacing: RateSpacing = "open",
) -> Tensor:
    """PE(pos, 2i) = sin(pos / base^(2i/width)), PE(pos, 2i+1) = cos(same); "halves" puts all sines first. float64.

    "closed" spacing: pos / base^(i/(width/2-1)) instead, so that the slowest rate is 1/base."""
    rates = rotary_rates(width, base, spacing, positions.device)
    angles = positions[..., None].double() * rates  # (..., width / 2)
    if layout == "halves":
        return torch.cat([angles.sin(), angles.cos()[..., : width // 2]], dim=-1)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :width]


class Sinusoidal(Position):
    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        applies_to = "input"
        kind: str = "sinusoidal"
        base: float = number(10000.0, low=1)
        layout: Literal["interleaved", "halves"] = "interleaved"  # the paper's; Marian's
        spacing: Literal["open", "closed"] | None = None  # of the rates: = open, without 1/base; closed is M2M100's
        first: int | None = number(None, low=0, high=2**31)  # the number of the first token: = 0; M2M100's is 2

        def resolved(self, scope: Scope, mixers: Sequence[Any]) -> "Sinusoidal.Config":
            if self.spacing == "closed" and scope.d_model % 2:
                raise ConfigError(f"closed spacing needs pairs of channels, and d_model is {scope.d_model}.", "spacing")
            return self

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config, self.width = config, scope.d_model
        # For GPUs: compiled code would compute them again for every token, as longer texts still do.
        self.register_buffer("table", self._values(torch.arange(CACHED_POSITIONS)), persistent=False)

    def _values(self, positions: Tensor) -> Tensor:
        c = self.config
        return sinusoids(positions + (c.first or 0), self.width, c.base, c.layout, c.spacing or "open")

    def add(self, x: Tensor, tokens: TokenPositions) -> Tensor:
        if x.is_cuda and tokens.end <= CACHED_POSITIONS:
            table: Tensor = self.table  # type: ignore[assignment]
            return x + table[tokens.positions].to(x.dtype)
        return x + self._values(tokens.positions).to(x.dtype)


def last_position(tokens: TokenPositions) -> int:
    """The largest position of a real token, -1 if there is none; a device sync."""
    positions, valid = tokens.positions, tokens.valid
    real = positions if valid is None else positions.expand_as(valid)[valid]
    return int(real.max()) if real.numel() else -1


class Learned(Position):
    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        applies_to = "input"
        kind: str = "learned"
        max_positions: int = number(1024, low=1)

        def cost(self, scope: Scope) -> Cost:
            return Cost(parameters=self.max_positions * scope.d_model)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.table = nn.Embedding(config.max_positions, scope.d_model)

    def add(self, x: Tensor, tokens: TokenPositions) -> Tensor:
        positions, size = tokens.positions, self.table.num_embeddings
        if tokens.end > size:  # an upper bound, which padding may have raised: look at the real tokens
            length = last_position(tokens) + 1
            if length > size:
                raise HeadwayError(
                    f"this model learned {size} positions and was given {length} tokens. Shorten the text, or train "
                    'with a position that has no maximum: "sinusoidal", "rope" or "alibi".'
                )
            positions = positions.clamp(max=size - 1)
        return x + self.table(positions)  # type: ignore[no-any-return]


def rotate(x: Tensor, positions: Tensor, base: float, layout: ChannelLayout, spacing: RateSpacing = "open") -> Tensor:
    """Rotary embedding: rotate each pair of channels by position · rate. Pairs are neighbours, or i and i + D/2
    ("halves")."""
    rates = rotary_rates(x.shape[-1], base, spacing, x.device)
    return apply_rotary(x, *rotary_cos_sin(positions, rates, x.dtype), layout)


def rotary_rates(width: int, base: float, spacing: RateSpacing, device: torch.device) -> Tensor:
    """base^(-2i/D) for each pair of channels i: (D / 2,), float64. "closed": base^(-i/(D/2-1)) instead, so that the
    slowest pair rotates by 1/base."""
    if spacing == "closed":
        steps = torch.linspace(0, 1, width // 2, dtype=torch.float64, device=device)
    else:
        steps = torch.arange(0, width, 2, dtype=torch.float64, device=device) / width
    return base**-steps


def rotary_cos_sin(
    positions: Tensor, rates: Tensor, dtype: torch.dtype, amplitude: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angle of each position (B or 1, T) and pair of channels: (B or 1, 1, T, D / 2)."""
    angles = positions[:, None, :, None].double() * rates
    return (amplitude * angles.cos()).to(dtype), (amplitude * angles.sin()).to(dtype)


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor, layout: ChannelLayout) -> Tensor:
    if layout == "halves":
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(-2)


class Rope(Position):
    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        applies_to = "qk"
        kind: str = "rope"
        base: float = number(10000.0, low=1)
        layout: Literal["interleaved", "halves"] = "interleaved"  # RoFormer's; Llama's
        spacing: Literal["open", "closed"] = "open"  # of the rates: without 1/base, or with it, as RetNet's
        scaling: Any = slot("rope_scaling", None)  # none; for texts longer than those of training: "yarn(4)" …

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.scaling is not None and self.base == 1:
                raise ConfigError("with base = 1 all channels rotate alike: nothing can be scaled. Raise it.", "base")

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = config

    def cos_sin(self, positions: Tensor, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Of the angles of these positions (B or 1, T), for heads of this width: (B or 1, 1, T, D / 2)."""
        rates, amplitude = self._rates(width, positions.device)
        return rotary_cos_sin(positions, rates, dtype, amplitude)

    def _rates(self, width: int, device: torch.device) -> tuple[Tensor, float]:
        c = self.config
        rates = rotary_rates(width, c.base, c.spacing, device)
        return (rates, 1.0) if c.scaling is None else (c.scaling.scale_rates(rates, c.base), c.scaling.amplitude)

    def rotation(self, q: Tensor) -> tuple[Tensor, float] | None:
        return self._rates(q.shape[-1], q.device)

    def rotate(self, x: Tensor, tokens: TokenPositions) -> Tensor:
        if x.shape[-1] % 2:
            raise HeadwayError(f"rope rotates pairs of channels, so d_k must be even, not {x.shape[-1]}.")
        return apply_rotary(x, *self.cos_sin(tokens.positions, x.shape[-1], x.dtype), self.config.layout)


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n) … for n heads; if n is no power of two, the rest are every other slope of the next power."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    extra = [2 ** (-4 * (i + 1) / power) for i in range(0, 2 * (heads - power), 2)]
    return slopes + extra


class Alibi(Position):
    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        applies_to = "scores"
        kind: str = "alibi"

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()

    def score_mod(self, inputs: ScoreModInputs) -> ScoreMod | None:
        slopes = torch.tensor(alibi_slopes(inputs.q.shape[1]), dtype=torch.float64, device=inputs.q.device)
        return ScoreMod("alibi", lambda s, b, h, q, k: s - slopes[h].to(s.dtype) * (q - k).abs().to(s.dtype))
