"""Models as a search sees them: the Stepper protocol, one Transformer (ModelStepper), and an Ensemble of several.

Anything that predicts the next token can be searched: a Transformer, an ensemble, a table of numbers in a test.
"""

import math
import os
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from headway.decode.forking import ForkSafeLock, call_after_fork, use_one_torch_thread
from headway.decode.types import Precision
from headway.errors import HeadwayError
from headway.nn.cache.kv import DecoderState
from headway.nn.layers.int8 import quantise_model
from headway.nn.transformer import Transformer
from headway.text.shortlist import Shortlist

BUILD_LOCK = ForkSafeLock()  # copies of a model are large: threads that need one wait until it is built


class StepperState(Protocol):
    """What a model keeps of N hypotheses between steps: its KV cache, for one."""

    def select(self, rows: Tensor) -> None:
        """Replace hypothesis i by hypothesis rows[i]; rows (N',) may repeat, omit and reorder.
        May be called before the first step."""


@runtime_checkable
class ReorderableState(StepperState, Protocol):
    """A state that knows of rows and beams, and follows them without moving what it keeps."""

    def reorder(self, rows: Tensor, parents: Tensor) -> None:
        """Keep rows (B',) of the B rows; slot j of each goes on from slot parents[i, j] (B', W')."""


S = TypeVar("S", bound=StepperState)


class Stepper(Protocol[S]):
    """A model that predicts the next token. Rows must not influence each other."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> S:
        """Encode the source: ids (rows, S) and which of them are real, or nothing for a language model."""

    def step(self, state: S, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        """Append ids (N, T) and return log-probabilities (N, V) of what follows, in a tensor that the search may
        overwrite. T is above 1 only at the first step, which feeds the forced prefix; where prefixes differ in
        length they are padded on the right, `valid` (N, T) says which ids are real, and each row's result is the
        one after its last real id."""


class ModelStepper:
    """Log-probabilities of one Transformer, in float32."""

    def __init__(self, model: Transformer, compute: Precision = "float32") -> None:
        """compute: int8 quantises the weights as they are now; bfloat16 says what the model already is."""
        self.model = model
        self.compute = compute
        self.vocabulary = model.config.vocabulary or 0
        self.device = model.device
        self.process = os.getpid()
        self.shortlist: Shortlist | None = None  # for searches with Search.shortlist
        self._reference_model: Transformer | None = None
        # What the faster searches keep of the model between requests.
        self.cpu_decoder: Any = None  # see headway.decode.cpu.decoder.cpu_decoder_of
        self.cuda_search: Any = None  # see headway.decode.cuda.search.run_search
        call_after_fork(self)

    def after_fork(self) -> None:
        use_one_torch_thread()

    def check_process(self) -> None:
        """A GPU cannot be used in a process that was forked from the one that has begun to."""
        if self.device.type == "cuda" and self.process != os.getpid():
            raise HeadwayError(
                "this model is on a GPU, and was loaded before this process was forked: CUDA does not allow that. Load "
                'it in each process, or start them with the method "spawn".'
            )

    @property
    def reference_model(self) -> Transformer:
        """The model that the reference search runs: in int8, a copy with quantised layers."""
        with BUILD_LOCK:
            if self._reference_model is None:
                self._reference_model = quantise_model(self.model) if self.compute == "int8" else self.model
        return self._reference_model

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> DecoderState:
        memory = None if source is None else self.reference_model.encode(source, valid)
        return self.reference_model.new_state(rows, memory)

    def step(self, state: DecoderState, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        hidden = self.reference_model.decode(ids, valid, state=state, last=True)[:, 0]  # (N, d)
        return self.reference_model.logits(hidden).float().log_softmax(-1)  # (N, V)


class EnsembleState:
    """The states of the models of an ensemble."""

    def __init__(self, states: Sequence[DecoderState]) -> None:
        self.states = states

    def select(self, rows: Tensor) -> None:
        for state in self.states:
            state.select(rows)


class Ensemble:
    """The mean of several models' probabilities. They share a vocabulary."""

    def __init__(self, steppers: Sequence[ModelStepper]) -> None:
        sizes = sorted({stepper.vocabulary for stepper in steppers})
        if len(sizes) != 1:
            given = f"vocabularies of {' and '.join(map(str, sizes))} tokens" if sizes else "no model"
            raise HeadwayError(f"an ensemble needs models with one vocabulary, and was given {given}.")
        self.steppers = steppers
        self.vocabulary = steppers[0].vocabulary
        self.device = steppers[0].device
        self.shortlist: Shortlist | None = None

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> EnsembleState:
        return EnsembleState([stepper.start(source, valid, rows) for stepper in self.steppers])

    def step(self, state: EnsembleState, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        votes = [stepper.step(own, ids, valid) for stepper, own in zip(self.steppers, state.states)]
        return torch.stack(votes).logsumexp(0) - math.log(len(votes))
