"""Two strangers that the contracts must carry, though Headway ships neither: a ring that forgets almost at once, and a
recurrence. They reach the model as any kind does, by lines in the catalogue. Beside them, kinds that break one promise
each, which the tests of that promise must notice."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.config import catalogue
from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache import sliding_window
from headway.nn.cache.kv import LayerCache
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.masks.masks import CAUSAL, Mask
from headway.nn.mixers.attention import Attention
from headway.nn.mixers.mixer import MixerConfig, check_unpacked
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory

TOYS = (
    catalogue.Entry("mixer", "ring", f"{__name__}:Ring", "attention that remembers a window"),
    catalogue.Entry("mixer", "decay", f"{__name__}:Decay", "a decaying running sum"),
)
BROKEN = tuple(
    catalogue.Entry("mixer", kind, f"{__name__}:{name}", line)
    for kind, name, line in (
        ("deaf_to_masks", "DeafToMasks", "attention that takes every mask, and sees all of the past"),
        ("never_ahead", "NeverAhead", "attention that takes every mask, and sees none of the future"),
        ("deaf_to_positions", "DeafToPositions", "attention that takes every position, and applies none"),
        ("torch_linear", "TorchLinear", "linear layers that the config does not reach"),
        ("own_matrix", "OwnMatrix", "a matrix that the config does not reach"),
        ("no_outputs", "NoOutputs", "names no residual outputs"),
        ("wrong_outputs", "WrongOutputs", "names a layer whose scale is lost before the output"),
        ("hoarder", "Hoarder", "says that its cache is bounded, and keeps everything"),
        ("miser", "Miser", "says that its cache grows, and keeps one vector"),
    )
)


@contextlib.contextmanager
def in_catalogue(entries: tuple[catalogue.Entry, ...] = TOYS) -> Iterator[None]:
    before = catalogue.CATALOGUE
    catalogue.CATALOGUE = (*before, *entries)
    try:
        yield
    finally:
        catalogue.CATALOGUE = before


class Ring(Attention):
    """Local attention whose ring has little or no slack, so that short tests see it forget."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        kind: str = "ring"
        window: int = number(4, low=1)
        slack: int = number(2, low=0)

        def check(self, mask: Mask, position: Position.Config) -> None:
            super().check(mask, position)
            if mask.lookback is None or mask.lookback > self.window:
                raise ConfigError(f'a ring of {self.window} cannot serve "{mask.name}".', "mask")

        def cost(self, scope: Scope) -> Cost:
            return super().cost(scope).with_cache_of(self.window + self.slack)

    def new_cache(
        self,
        batch: int,
        device: torch.device,
        *,
        cross: bool = False,
        lookback: int | None = None,
        trainable: bool = False,
    ) -> LayerCache:
        c: Any = self.config
        if cross:
            return super().new_cache(batch, device, cross=True)
        return sliding_window.SlidingWindowKVCache(batch, device, c.window, c.slack)


class Decay(nn.Module):
    """sₜ = rate · sₜ₋₁ + xₜW, read as sₜV"""

    residual_outputs: tuple[str, ...] = ("write", "read")

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "decay"
        rate: float = number(0.8, low=0, high=1)

        def check(self, mask: Mask, position: Position.Config) -> None:
            if mask.name != "causal":
                raise ConfigError(f'a running sum supports only the mask "causal", not "{mask.name}".', "mask")
            if position.applies_to in ("qk", "scores"):
                raise ConfigError(f"a running sum has no scores for {position.kind} to change.", "position")

        def bounded(self, mask: Mask) -> bool:
            return True

        def cost(self, scope: Scope) -> Cost:
            weights = scope.linear_parameters(scope.d_model, scope.d_model)
            return Cost(parameters=2 * weights, flops_per_query=4 * scope.d_model**2, cached_per_text=scope.d_model)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.rate = config.rate
        self.write, self.read = (make_linear(scope.d_model, scope.d_model, scope) for _ in range(2))

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        check_unpacked("decay", ctx.queries)
        valid, written = ctx.queries.valid, self.write(x)
        before = None if cache is None else cache.get("total")
        total = torch.zeros_like(x[:, 0]) if before is None else before
        totals = []
        for t in range(x.shape[1]):
            after = self.rate * total + written[:, t]
            total = after if valid is None else torch.where(valid[:, t, None], after, total)
            totals.append(total)
        if cache is not None:
            cache.advance(ctx.queries, total=total)
        result: Tensor = self.read(torch.stack(totals, 1))
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)


class DeafToMasks(Attention):
    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        kind: str = "deaf_to_masks"

    def forward(self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: Any = None) -> Tensor:
        return super().forward(x, replace(ctx, mask=CAUSAL), source=source, cache=cache)


class NeverAhead(Attention):
    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        kind: str = "never_ahead"

    def forward(self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: Any = None) -> Tensor:
        return super().forward(x, replace(ctx, mask=CAUSAL & ctx.mask), source=source, cache=cache)


class DeafToPositions(Attention):
    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        kind: str = "deaf_to_positions"

    def forward(self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: Any = None) -> Tensor:
        return super().forward(x, replace(ctx, position=None), source=source, cache=cache)


class TorchLinear(Decay):
    @dataclass(frozen=True, kw_only=True)
    class Config(Decay.Config):
        kind: str = "torch_linear"

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__(config, scope)
        self.read = nn.Linear(scope.d_model, scope.d_model)


class OwnMatrix(Decay):
    @dataclass(frozen=True, kw_only=True)
    class Config(Decay.Config):
        kind: str = "own_matrix"

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__(config, scope)
        self.turn = nn.Parameter(torch.eye(scope.d_model))

    def forward(self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: Any = None) -> Tensor:
        return super().forward(x @ self.turn, ctx, source=source, cache=cache)


class NoOutputs(Decay):
    residual_outputs = ()

    @dataclass(frozen=True, kw_only=True)
    class Config(Decay.Config):
        kind: str = "no_outputs"


class WrongOutputs(Decay):
    residual_outputs = ("write",)

    @dataclass(frozen=True, kw_only=True)
    class Config(Decay.Config):
        kind: str = "wrong_outputs"

    def forward(self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: Any = None) -> Tensor:
        return nn.functional.normalize(super().forward(x, ctx, source=source, cache=cache), dim=-1)


class Hoarder(Attention):
    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        kind: str = "hoarder"

        def bounded(self, mask: Mask) -> bool:
            return True


class Miser(Decay):
    @dataclass(frozen=True, kw_only=True)
    class Config(Decay.Config):
        kind: str = "miser"

        def bounded(self, mask: Mask) -> bool:
            return False
