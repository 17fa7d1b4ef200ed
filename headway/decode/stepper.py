"""What the search asks of a model. A Transformer, an ensemble or a table of numbers can answer."""

from typing import Protocol, TypeVar

import torch
from torch import Tensor


class Remembered(Protocol):
    """What a model remembers of N hypotheses between steps."""

    def select(self, rows: Tensor) -> None:
        """Put hypothesis rows[i] in place i, in place; rows (N',) may repeat, leave out and reorder.
        May be called before the first step."""


S = TypeVar("S", bound=Remembered)


class Stepper(Protocol[S]):
    """A model that predicts the next token. Rows must not influence each other."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> S:
        """Read the source: ids (rows, S) and which of them are real, or nothing for a language model."""

    def step(self, state: S, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        """Append ids (N, T) and return log-probabilities (N, V) of what follows, in a tensor that the search may
        overwrite. T is above 1 only at the first step, which feeds the forced prefix; where prefixes differ in
        length they are padded on the right, `valid` (N, T) says which ids are real, and each row's answer is the
        one after its last real id."""
