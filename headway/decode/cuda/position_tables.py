"""What positions and masks do in a static step: worked out once for all places, looked up at each step.

B rows    K beams of each    L positions at most, of which the first `reach` are looked at
"""

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.nn.masks.masks import CAUSAL, Mask, Pattern
from headway.nn.positions.positions import Position, Rope, turned, turns
from headway.nn.positions.score_mod import Bend, Looking
from headway.nn.sequence import Places, places_from
from headway.nn.transformer import Transformer


class View(NamedTuple):
    """How a layer looks."""

    mask: Mask
    position: Position
    heads: int
    d_k: int
    scale: float

    @property
    def plain(self) -> bool:
        """At all that was before, and at all of it alike."""
        return self.mask is CAUSAL and type(self.position).score is Position.score

    @property
    def key(self) -> Any:
        """Layers with the same one share what is added."""
        return None if self.plain else (self.mask.name, self.position, self.heads)

    @property
    def turn(self) -> Any:
        """Layers with the same one are turned alike; None: not at all."""
        return (self.position.config, self.d_k) if isinstance(self.position, Rope) else None


class Tables:
    def __init__(self, model: Transformer, views: list[View], length: int, dtype: torch.dtype) -> None:
        parts: Any = model.config.decoder.position
        stack: Any = model.stacks["decoder"]
        known = min([length, *(part.longest for part in parts if part.kind == "learned")])
        nothing = torch.zeros(1, known, model.config.d_model, device=model.device, dtype=dtype)
        self.adds = any(part.acts == "adds" for part in parts)
        self.added: Tensor = stack.add_positions(nothing, places_from(known, None, model.device))[0]  # (L, d)
        places = places_from(length, None, model.device)
        bends = {view.key: view for view in views if not view.plain}
        turning = {view.turn: view for view in views if view.turn is not None}
        self.turns = {key: _turns(view, places, dtype) for key, view in turning.items()}
        self.bent = {key: _bent(view, places, dtype) for key, view in bends.items()}

    def add_positions(self, x: Tensor, places: Places) -> Tensor:
        """As the stack does it."""
        return x + self.added.index_select(0, places.positions[0]) if self.adds else x


def _turns(view: View, places: Places, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines, (1, 1, L, D / 2) each."""
    assert isinstance(view.position, Rope)
    c = view.position.config
    return turns(places.positions, view.d_k, c.base, c.spacing, dtype)


def _bent(view: View, places: Places, dtype: torch.dtype) -> Tensor:
    """What is added to each score, (H or 1, L, L)."""
    added = torch.zeros((), dtype=dtype, device=places.positions.device)
    like = added.expand(1, view.heads, places.length, view.d_k)
    score = view.position.score(Looking(like, places, places, view.mask, view.scale, 0))
    if score is not None:
        added = Bend(score, places, places, view.heads)(added, 1)
    allowed = Pattern(view.mask, places, places, view.heads).dense(1)
    return torch.where(allowed, added, -torch.inf)[0]


class Step:
    """What they say of one place. Of scores: -inf where a beam looks at what is not its past."""

    def __init__(self, tables: Tables, owners: Tensor, beams: Tensor, now: Tensor) -> None:
        """owners (B, K, reach): which beam wrote what this one takes for its past."""
        self.tables, self.now = tables, now
        self.owners, self.beams = owners, beams
        self.beam, self.reach = owners.shape[1:]
        self.made: dict[Any, Tensor] = {}
        # (1, 1, 1, D / 2) each: all beams stand at the same place
        self.turns = {key: [part.index_select(2, now) for part in pair] for key, pair in tables.turns.items()}

    def turn(self, x: Tensor, view: View) -> Tensor:
        """Queries and keys (B, H, K, D), as the position of the layer turns them."""
        cos, sin = self.turns[view.turn]
        return turned(x, cos, sin, view.turn[0].layout)

    @functools.cached_property
    def mine(self) -> Tensor:
        """(B, 1, K, reach · K)"""
        return (self.owners[:, None, :, :, None] == self.beams).flatten(3)

    def bias(self, view: View) -> Tensor:
        """(B, H or 1, K, reach · K)"""
        if view.key not in self.made:
            self.made[view.key] = torch.where(self.mine, self._added(view), -torch.inf)
        return self.made[view.key]

    def _added(self, view: View) -> Tensor:
        if view.plain:
            return self.tables.added.new_zeros(())
        row: Tensor = self.tables.bent[view.key].index_select(1, self.now)[:, :, : self.reach]  # (H or 1, 1, reach)
        return row[..., None].expand(-1, -1, -1, self.beam).flatten(2)
