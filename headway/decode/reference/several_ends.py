"""SeveralEnds: a model that may end a text by any of several tokens, as chat models do, for searches that know one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headway.decode.reference.model import ModelStepper
from headway.nn.cache.kv import DecoderState


class SeveralEnds:
    """A Stepper. The end of the search has the log-probability of the likeliest end, and the others are never produced:
    greedy search and beams find what they would if each of them ended a hypothesis."""

    def __init__(self, stepper: ModelStepper, end: int, others: Sequence[int]) -> None:
        self.stepper = stepper
        self.end = end
        self.others = torch.tensor(others, device=stepper.device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stepper, name)

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    @property
    def device(self) -> torch.device:
        return self.stepper.device

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> DecoderState:
        return self.stepper.start(source, valid, rows)

    def step(self, state: DecoderState, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        logps = self.stepper.step(state, ids, valid)  # (N, V)
        likeliest = logps[:, self.others].amax(1)
        logps[:, self.end] = torch.maximum(logps[:, self.end], likeliest)
        logps[:, self.others] = -torch.inf
        return logps
