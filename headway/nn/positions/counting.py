"""Positions as plain numbers, added to every channel: what one tries first. docs/positions.md says why they fail."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.positions.positions import Position
from headway.nn.sequence import TokenPositions


class Counting(Position):
    """x + n for the n-th token of a text, n = 1, 2, 3 …"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        applies_to = "input"
        kind: str = "counting"

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()

    def add(self, x: Tensor, tokens: TokenPositions) -> Tensor:
        return x + (tokens.positions + 1)[..., None].to(x.dtype)


class Normalised(Position):
    """x + n / (N - 1) for token n = 0 … N - 1 of a text of N tokens: from 0 to 1, however long the text is"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        applies_to = "input"
        kind: str = "normalised"

        def resolved(self, scope: Scope, mixers: Sequence[Any]) -> "Normalised.Config":
            if scope.side == "decoder":
                raise ConfigError(
                    "normalised divides by the length of the text, which a decoder does not know before it has written "
                    "it: each further token would move all earlier ones. Use it in an encoder, or choose "
                    '"sinusoidal".'
                )
            return self

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()

    def add(self, x: Tensor, tokens: TokenPositions) -> Tensor:
        steps = (text_lengths(tokens) - 1).clamp(min=1)
        return x + (tokens.positions / steps)[..., None].to(x.dtype)


def text_lengths(tokens: TokenPositions) -> Tensor:
    """The length of each token's text, in real tokens: (B or 1, T or 1)."""
    if tokens.texts is not None:
        return (tokens.texts.ends - tokens.texts.starts)[tokens.texts.text_index]
    if tokens.valid is not None:
        return tokens.valid.sum(1, keepdim=True)
    return torch.tensor([[tokens.length]], device=tokens.positions.device)
