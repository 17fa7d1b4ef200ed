"""T5's relative position bias: a learned score for each bucket of distances."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope
from headway.nn.positions.positions import Position
from headway.nn.positions.score_mod import ScoreMod, ScoreModInputs


def shared_setting(name: str, part: Part, mixers: Sequence[Any]) -> int:
    """The mixers' value of a setting that one table for all layers needs: it must be the same in all of them."""
    kind, given = part.kind, getattr(part, name)
    found = sorted({value for mixer in mixers if (value := getattr(mixer, name, None)) is not None})
    if not found:
        raise ConfigError(f"{kind} changes attention scores, and no mixer here has any. Choose another position.")
    if len(found) > 1:
        several = " and ".join(map(str, found))
        raise ConfigError(
            f"{kind} is shared by all layers, but they have {name} = {several}. Give them the same.", name
        )
    if given not in (None, found[0]):
        raise ConfigError(f"{name} = {given} differs from the mixers' {found[0]}. Leave it out.", name)
    return int(found[0])


def distance_bucket(offset: Tensor, buckets: int, distance: int, both_ways: bool) -> Tensor:
    """The bucket of key position - query position. Half of the buckets hold one small distance each; the others grow
    logarithmically up to `distance`, and the last holds all larger ones. `both_ways`: half of the buckets per side."""
    bucket = torch.zeros_like(offset)
    if both_ways:
        buckets //= 2
        bucket = (offset > 0).long() * buckets
        back = offset.abs()
    else:
        back = (-offset).clamp(min=0)
    exact = buckets // 2
    share = (back.clamp(min=1).float() / exact).log() / math.log(distance / exact)
    far = (exact + (share * (buckets - exact)).long()).clamp(max=buckets - 1)
    return bucket + torch.where(back < exact, back, far)


class T5Bias(Position):
    """score + b[bucket(k - q), head]: one table for all layers"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        applies_to = "scores"
        kind: str = "t5"
        buckets: int = number(32, low=4)
        max_distance: int = number(128, low=2)  # larger ones share the last bucket
        heads: int | None = number(None, low=1)  # = the mixer's

        def resolved(self, scope: Scope, mixers: Sequence[Any]) -> "T5Bias.Config":
            if self.buckets % 4:
                raise ConfigError(f"buckets must be a multiple of 4, not {self.buckets}.", "buckets")
            if self.max_distance <= self.buckets // 2:
                raise ConfigError(
                    f"max_distance must be above buckets / 2 = {self.buckets // 2}, not {self.max_distance}.",
                    "max_distance",
                )
            return replace(self, heads=shared_setting("heads", self, mixers))

        def cost(self, scope: Scope) -> Cost:
            return Cost(parameters=self.buckets * (self.heads or 0))

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config, self.both_ways = config, scope.side == "encoder"
        self.table = nn.Parameter(torch.zeros(config.buckets, config.heads or 1))

    def score_mod(self, inputs: ScoreModInputs) -> ScoreMod | None:
        c, table, both_ways = self.config, self.table, self.both_ways

        def bucket(q: Tensor, k: Tensor) -> Tensor:
            return distance_bucket(k - q, c.buckets, c.max_distance, both_ways)

        return ScoreMod("t5", lambda s, b, h, q, k: s + table[bucket(q, k), h].to(s.dtype), bucket=bucket)
