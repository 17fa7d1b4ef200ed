"""Callbacks of a training: functions or objects that are told what happens, and may stop the run.

    def watch(event): ...                               is called with every event
    class Watch: def on_validation(self, event): ...    with those that it has a method for

    on_step        StepEvent         after every optimiser step
    on_validation  ValidationEvent   after every validation
    on_checkpoint  CheckpointEvent   when a checkpoint has been written
    on_end         EndEvent          when the model has been written

`event.stop("why")` ends the run as a budget does: it is validated, and the model is written. An error in a callback
ends the run too, after a checkpoint has been saved. Of several processes, only the main one calls callbacks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headway.errors import ConfigError, HeadwayError

if TYPE_CHECKING:
    from torch import Tensor

    from headway.nn.transformer import Transformer
    from headway.train.validation import ValidationResult


class StopRequest(IntEnum):
    """What processes that train together tell each other before a step."""

    NONE = 0
    STOP = 1
    FAILURE = 2


class RunControl:
    """What callbacks have asked for."""

    def __init__(self) -> None:
        self.stop_reason = ""
        self.failure: CallbackFailure | None = None

    @property
    def request(self) -> StopRequest:
        if self.failure is not None:
            return StopRequest.FAILURE
        return StopRequest.STOP if self.stop_reason else StopRequest.NONE


class CallbackFailure(NamedTuple):
    callback: str  # its name
    step: int
    error: Exception


@dataclass(frozen=True, kw_only=True)
class TrainingEvent:
    """Something that happened in a run."""

    step: int  # optimiser steps taken
    seconds: float  # spent on training, earlier runs included
    model: "Transformer" = field(repr=False, compare=False)  # the weights as they are now: the nn.Module itself
    control: RunControl = field(repr=False, compare=False)

    def stop(self, reason: str = "a callback stopped the run") -> None:
        """End the run after this step; it is then validated, and the model is written."""
        self.control.stop_reason = reason


@dataclass(frozen=True, kw_only=True)
class StepEvent(TrainingEvent):
    """After an optimiser step."""

    epoch: int
    learning_rate: float
    tokens: int  # real tokens of the step, source and target
    done: float  # share of the budget that is spent, 0 to 1
    loss_tensor: "Tensor" = field(repr=False, compare=False)

    @property
    def loss(self) -> float:
        """Mean training loss of the step, in nats per token. On a GPU, reading it waits for the step to end."""
        return float(self.loss_tensor)


@dataclass(frozen=True, kw_only=True)
class ValidationEvent(TrainingEvent):
    """After a validation."""

    result: "ValidationResult"  # loss, bleu, chrf
    best: bool  # better than all before: the model directory now holds these weights


@dataclass(frozen=True, kw_only=True)
class CheckpointEvent(TrainingEvent):
    """A checkpoint has been written: all that is needed to resume."""

    folder: Path


@dataclass(frozen=True, kw_only=True)
class EndEvent(TrainingEvent):
    """The run has ended, and the model is written."""

    folder: Path  # the model directory
    result: "ValidationResult"  # of the weights that became the model
    reason: str  # why it ended


class StepCallback(Protocol):
    def on_step(self, event: StepEvent) -> object: ...


class ValidationCallback(Protocol):
    def on_validation(self, event: ValidationEvent) -> object: ...


class CheckpointCallback(Protocol):
    def on_checkpoint(self, event: CheckpointEvent) -> object: ...


class EndCallback(Protocol):
    def on_end(self, event: EndEvent) -> object: ...


Callback = (
    StepCallback | ValidationCallback | CheckpointCallback | EndCallback | Callable[[Any], object]
)  # any of the methods, or a function of every event

METHODS: dict[type[TrainingEvent], str] = {
    StepEvent: "on_step",
    ValidationEvent: "on_validation",
    CheckpointEvent: "on_checkpoint",
    EndEvent: "on_end",
}


class CallbackList:
    """All callbacks of a run, called in their order."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self.control = RunControl()
        self.handlers: dict[type[TrainingEvent], list[tuple[str, Callable[[Any], object]]]] = {}
        for callback in callbacks:
            self._add(callback)

    def _add(self, callback: Any) -> None:
        name = _name_callback(callback)
        known = list(METHODS.values())
        unknown = [member for member in dir(callback) if member.startswith("on_") and member not in known]
        if (
            isinstance(callback, type)
            or unknown
            or not (callable(callback) or any(hasattr(callback, m) for m in known))
        ):
            fault = "is a class: give an object of it" if isinstance(callback, type) else "has none of them"
            fault = f"has {unknown[0]}, which is never called" if unknown else fault
            raise ConfigError(
                f"a callback is a function of one event, or an object with {', '.join(known[:-1])} or {known[-1]}, and "
                f"{name} {fault}.",
                "callbacks",
            )
        for event, method in METHODS.items():
            by_method = getattr(callback, method, None)
            if by_method is not None:
                self.handlers.setdefault(event, []).append((f"{name}.{method}", by_method))
            elif callable(callback):
                self.handlers.setdefault(event, []).append((name, callback))

    def wants(self, event: type[TrainingEvent]) -> bool:
        return event in self.handlers

    def send(self, event: TrainingEvent) -> None:
        """Call those that want this event. The first failure is kept for the run to raise when nothing can be lost."""
        for name, handler in self.handlers.get(type(event), ()):
            if self.control.failure is not None:
                return
            try:
                handler(event)
            except Exception as error:
                self.control.failure = CallbackFailure(name, event.step, error)

    def raise_failure(self, out: Path) -> None:
        """Say which callback failed, if one did: when a checkpoint is in `out`."""
        failure = self.control.failure
        if failure is not None:
            kind = type(failure.error).__name__
            raise HeadwayError(
                f"the callback {failure.callback} failed at step {failure.step}: {kind}: {failure.error}. Nothing is "
                f"lost: a checkpoint is saved in {out}, and the same call resumes from there."
            ) from failure.error


def _name_callback(callback: Any) -> str:
    name = getattr(callback, "__qualname__", None) or type(callback).__qualname__
    return str(name).replace("<locals>.", "")
