"""Positions (added, rotary, score_mod) and masks of the CUDA search: computed once for all positions, looked up at each
step.

B rows    K beams of each    L positions at most, of which the first `span` are attended to
"""

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.nn.masks.masks import CAUSAL, BoundMask, Mask
from headway.nn.positions.positions import Position, Rope, apply_rotary
from headway.nn.positions.score_mod import BoundScoreMod, ScoreModInputs
from headway.nn.sequence import TokenPositions, positions_from_start
from headway.nn.transformer import Transformer


class SelfAttentionSpec(NamedTuple):
    """What decides the scores of a layer's self-attention, beside queries and keys."""

    mask: Mask
    position: Position
    heads: int
    d_k: int
    scale: float

    @property
    def is_plain(self) -> bool:
        """Whether it attends to all tokens before, and adds nothing to their scores."""
        return self.mask is CAUSAL and type(self.position).score_mod is Position.score_mod

    @property
    def bias_key(self) -> Any:
        """Layers with the same key share what is added to scores."""
        return None if self.is_plain else (self.mask.name, self.position, self.heads)

    @property
    def rotary_key(self) -> Any:
        """Layers with the same key share their rotations; None: no rotation."""
        return (self.position.config, self.d_k) if isinstance(self.position, Rope) else None


class PositionTables:
    """Of all positions up to a length."""

    def __init__(self, model: Transformer, specs: list[SelfAttentionSpec], length: int, dtype: torch.dtype) -> None:
        configs: Any = model.config.decoder.position
        stack: Any = model.stacks["decoder"]
        known = min([length, *(config.max_positions for config in configs if config.kind == "learned")])
        zeros = torch.zeros(1, known, model.config.d_model, device=model.device, dtype=dtype)
        self.adds_to_input = any(config.applies_to == "input" for config in configs)
        known_positions = positions_from_start(known, None, model.device)
        self.input_table: Tensor = stack.add_positions(zeros, known_positions)[0]  # (L, d)
        positions = positions_from_start(length, None, model.device)
        biased = {spec.bias_key: spec for spec in specs if not spec.is_plain}
        rotated = {spec.rotary_key: spec for spec in specs if spec.rotary_key is not None}
        self.rotations = {key: _make_rotations(spec, positions, dtype) for key, spec in rotated.items()}
        self.biases = {key: _make_bias(spec, positions, dtype) for key, spec in biased.items()}

    def add_positions(self, x: Tensor, positions: TokenPositions) -> Tensor:
        """As the stack does it."""
        return x + self.input_table.index_select(0, positions.positions[0]) if self.adds_to_input else x


def _make_rotations(spec: SelfAttentionSpec, positions: TokenPositions, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines, (1, 1, L, D / 2) each."""
    assert isinstance(spec.position, Rope)
    return spec.position.cos_sin(positions.positions, spec.d_k, dtype)


def _make_bias(spec: SelfAttentionSpec, positions: TokenPositions, dtype: torch.dtype) -> Tensor:
    """What is added to each score, (H or 1, L, L): by the position, and -inf by the mask."""
    bias = torch.zeros((), dtype=dtype, device=positions.positions.device)
    q = bias.expand(1, spec.heads, positions.length, spec.d_k)
    score_mod = spec.position.score_mod(ScoreModInputs(q, positions, positions, spec.mask, spec.scale, 0))
    if score_mod is not None:
        bias = BoundScoreMod(score_mod, positions, positions, spec.heads)(bias, 1)
    allowed = BoundMask(spec.mask, positions, positions, spec.heads).dense(1)
    return torch.where(allowed, bias, -torch.inf)[0]


class StepTables:
    """The tables at one position. In the biases, -inf also where a key belongs to another beam's hypothesis."""

    def __init__(self, tables: PositionTables, owners: Tensor, beams: Tensor, now: Tensor) -> None:
        """owners (B, K, span): which beam wrote the position that this one continues."""
        self.tables = tables
        self.owners = owners
        self.beams = beams
        self.now = now
        self.beam, self.span = owners.shape[1:]
        self._biases: dict[Any, Tensor] = {}
        # (1, 1, 1, D / 2) each: all beams are at the same position
        self.rotations = {key: [part.index_select(2, now) for part in pair] for key, pair in tables.rotations.items()}

    def rotate(self, x: Tensor, spec: SelfAttentionSpec) -> Tensor:
        """Queries and keys (B, H, K, D), rotated by the layer's position."""
        cos, sin = self.rotations[spec.rotary_key]
        return apply_rotary(x, cos, sin, spec.rotary_key[0].layout)

    @functools.cached_property
    def is_own(self) -> Tensor:
        """(B, 1, K, span · K) whether a key is part of a beam's hypothesis"""
        return (self.owners[:, None, :, :, None] == self.beams).flatten(3)

    def bias(self, spec: SelfAttentionSpec) -> Tensor:
        """(B, H or 1, K, span · K)"""
        if spec.bias_key not in self._biases:
            self._biases[spec.bias_key] = torch.where(self.is_own, self._position_bias(spec), -torch.inf)
        return self._biases[spec.bias_key]

    def _position_bias(self, spec: SelfAttentionSpec) -> Tensor:
        if spec.is_plain:
            return self.tables.input_table.new_zeros(())
        table: Tensor = self.tables.biases[spec.bias_key]
        row = table.index_select(1, self.now)[:, :, : self.span]  # (H or 1, 1, span)
        return row[..., None].expand(-1, -1, -1, self.beam).flatten(2)
