"""What the search asks of a model. A Transformer, an ensemble or a table of numbers can answer.

Our Transformers as the search sees them: one, or several that vote."""

import math
import threading
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from headway.decode.cpu.decoder import Lean, hindrance
from headway.decode.types import Precision
from headway.errors import HeadwayError
from headway.nn.cache.kv import ModelState
from headway.nn.layers.int8 import with_int8_layers
from headway.nn.transformer import Transformer
from headway.text.shortlist import Shortlist


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


_MAKING = threading.Lock()  # copies of a model are large: threads that need one wait until it is there


class ModelStepper:
    """Log-probabilities of one model, in float32."""

    def __init__(self, model: Transformer, compute: Precision = "float32") -> None:
        """compute: int8 takes the weights as they are now; bfloat16 says what the model is."""
        self.model, self.compute = model, compute
        self.vocabulary = model.config.vocabulary or 0
        self.device = model.device
        self._lean: Lean | str | None = None
        self._plain: Transformer | None = None
        self.engine: Any = None  # what the static search keeps of the model
        self.shortlist: Shortlist | None = None  # for searches that ask for it

    @property
    def lean(self) -> Lean | str:
        """The same, made for the CPU; or why it cannot be."""
        with _MAKING:
            if self._lean is None:
                self._lean = hindrance(self.model) or Lean(self.model, self.compute)
        return self._lean

    @property
    def plain(self) -> Transformer:
        """The model that the plain search runs."""
        with _MAKING:
            if self._plain is None:
                self._plain = with_int8_layers(self.model) if self.compute == "int8" else self.model
        return self._plain

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> ModelState:
        memory = None if source is None else self.plain.encode(source, valid)
        return self.plain.new_state(rows, memory)

    def step(self, state: ModelState, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        hidden = self.plain.decode(ids, valid, state=state, last=True)[:, 0]  # (N, d)
        return self.plain.logits(hidden).float().log_softmax(-1)  # (N, V)


class Several:
    """The states of an ensemble."""

    def __init__(self, states: Sequence[ModelState]) -> None:
        self.states = states

    def select(self, rows: Tensor) -> None:
        for state in self.states:
            state.select(rows)


class Ensemble:
    """The mean of several models' probabilities. They share a vocabulary."""

    def __init__(self, steppers: Sequence[ModelStepper]) -> None:
        sizes = sorted({stepper.vocabulary for stepper in steppers})
        if len(sizes) != 1:
            given = f"vocabularies of {' and '.join(map(str, sizes))} words" if sizes else "no model"
            raise HeadwayError(
                f"an ensemble votes on the same words, and was given {given}. Give models that share one."
            )
        self.steppers = steppers
        self.vocabulary = steppers[0].vocabulary
        self.device = steppers[0].device
        self.shortlist: Shortlist | None = None

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> Several:
        return Several([stepper.start(source, valid, rows) for stepper in self.steppers])

    def step(self, state: Several, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        votes = [stepper.step(one, ids, valid) for stepper, one in zip(self.steppers, state.states)]
        return torch.stack(votes).logsumexp(0) - math.log(len(votes))
