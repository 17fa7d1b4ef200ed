"""Tensor rules: each tensor of ours as a change of one of theirs. The same rules serve both directions.

TensorRule("…query.weight", "h.0.attn.c_attn.weight", (Transpose(), RowSlice(0, 768)))

read_tensor(rule, theirs)            theirs -> ours
write_tensor(rules, ours)            all rules of one of their tensors -> that tensor
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from headway.errors import HeadwayError

Shape = tuple[int, ...]


class TensorChange(Protocol):
    """A change that loses nothing that a model uses."""

    def shape(self, theirs: Shape) -> Shape: ...
    def read(self, theirs: Tensor) -> Tensor: ...
    def write(self, ours: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Transpose:
    """(inputs, outputs) <-> (outputs, inputs). Vectors stay as they are."""

    def shape(self, theirs: Shape) -> Shape:
        return theirs[::-1] if len(theirs) == 2 else theirs

    def read(self, theirs: Tensor) -> Tensor:
        return theirs.T if theirs.dim() == 2 else theirs

    write = read


@dataclass(frozen=True)
class RowSlice:
    """Some rows of a tensor that holds several of ours, one after the other: write_tensor joins them."""

    first: int
    count: int

    def shape(self, theirs: Shape) -> Shape:
        if not theirs or theirs[0] < self.first + self.count:
            raise ValueError(f"it has {theirs[0] if theirs else 0} rows, fewer than {self.first + self.count}")
        return (self.count, *theirs[1:])

    def read(self, theirs: Tensor) -> Tensor:
        return theirs[self.first : self.first + self.count]

    def write(self, ours: Tensor) -> Tensor:
        return ours


@dataclass(frozen=True)
class JoinedHeads:
    """Rows that are sorted by head (the query of a head, its key, its value) <-> by what they are (all queries …)."""

    heads: int
    parts: int

    def shape(self, theirs: Shape) -> Shape:
        if not theirs or theirs[0] % (self.heads * self.parts):
            raise ValueError(
                f"its {theirs[0] if theirs else 0} rows are not {self.parts} for each of {self.heads} heads"
            )
        return theirs

    def read(self, theirs: Tensor) -> Tensor:
        return theirs.reshape(self.heads, self.parts, -1, *theirs.shape[1:]).transpose(0, 1).reshape(theirs.shape)

    def write(self, ours: Tensor) -> Tensor:
        return ours.reshape(self.parts, self.heads, -1, *ours.shape[1:]).transpose(0, 1).reshape(ours.shape)


@dataclass(frozen=True)
class SkipRows:
    """Their first rows are never used (positions that are counted from `count`): dropped, and written as zeros."""

    count: int

    def shape(self, theirs: Shape) -> Shape:
        if not theirs or theirs[0] <= self.count:
            raise ValueError(f"it has {theirs[0] if theirs else 0} rows, and the first {self.count} are not used")
        return (theirs[0] - self.count, *theirs[1:])

    def read(self, theirs: Tensor) -> Tensor:
        return theirs[self.count :]

    def write(self, ours: Tensor) -> Tensor:
        return torch.cat([ours.new_zeros(self.count, *ours.shape[1:]), ours])


@dataclass(frozen=True)
class AppendRow:
    """One more row at the end, of this value: an entry that theirs does not have."""

    value: float

    def shape(self, theirs: Shape) -> Shape:
        if not theirs:
            raise ValueError("it is a single number, and has no rows")
        return (theirs[0] + 1, *theirs[1:])

    def read(self, theirs: Tensor) -> Tensor:
        return torch.cat([theirs, theirs.new_full((1, *theirs.shape[1:]), self.value)])

    def write(self, ours: Tensor) -> Tensor:
        return ours[:-1]


@dataclass(frozen=True)
class Reshape:
    """The same numbers in the same order in another shape."""

    theirs_shape: Shape
    ours_shape: Shape

    def shape(self, theirs: Shape) -> Shape:
        if math.prod(theirs) != math.prod(self.ours_shape):
            raise ValueError(f"it has the shape {theirs}, not {self.theirs_shape}")
        return self.ours_shape

    def read(self, theirs: Tensor) -> Tensor:
        return theirs.reshape(self.ours_shape)

    def write(self, ours: Tensor) -> Tensor:
        return ours.reshape(self.theirs_shape)


@dataclass(frozen=True)
class OneMinus:
    """1 - x. Ours survive the way there and back bit for bit, theirs lose the last bits of numbers below one half."""

    def shape(self, theirs: Shape) -> Shape:
        return theirs

    def read(self, theirs: Tensor) -> Tensor:
        return 1 - theirs

    write = read


@dataclass(frozen=True)
class TensorRule:
    """`ours` is `theirs` after these changes, in order."""

    ours: str
    theirs: str
    changes: tuple[TensorChange, ...] = ()

    def shape(self, theirs: Shape) -> Shape:
        """Of our tensor. Raises HeadwayError where theirs does not have the shape that the config promises."""
        result = theirs
        for change in self.changes:
            try:
                result = change.shape(result)
            except ValueError as error:
                raise HeadwayError(
                    f"the tensor {self.theirs} does not fit its config: {error}. Download the model again."
                ) from None
        return result


def read_tensor(rule: TensorRule, theirs: Tensor) -> Tensor:
    """Ours, from theirs."""
    for change in rule.changes:
        theirs = change.read(theirs)
    return theirs


def write_tensor(rules: Sequence[TensorRule], ours: Sequence[Tensor]) -> Tensor:
    """Theirs, from ours. Several rules are the parts of one tensor, in the order of their rows; changes before the
    cut into rows are undone after joining. Several rules without such a cut are copies, of which the first is taken."""
    parts = []
    outer: tuple[TensorChange, ...] = ()
    is_cut = any(isinstance(change, RowSlice) for rule in rules for change in rule.changes)
    for rule, tensor in zip(rules if is_cut else rules[:1], ours):
        cut = next((n for n, change in enumerate(rule.changes) if isinstance(change, RowSlice)), None)
        inner, outer = (rule.changes, ()) if cut is None else (rule.changes[cut + 1 :], rule.changes[:cut])
        for change in reversed(inner):
            tensor = change.write(tensor)
        parts.append(tensor)
    result = parts[0] if len(parts) == 1 else torch.cat(parts)
    for change in reversed(outer):
        result = change.write(result)
    return result.contiguous()
