"""Skips optimiser steps (optimizer.step) whose loss or gradient is not finite; stops training after many in a row."""

import math

import torch
from torch import Tensor, nn

from headway.errors import HeadwayError

MAX_SKIPPED_IN_A_ROW = 10


class FiniteGuard:
    """Takes or skips each update of the weights. With fused optimisers on a GPU, the CPU does not wait for the
    decision: the optimiser's kernel makes it (`found_inf`)."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.model = model
        self.streak = torch.zeros((), dtype=torch.int64, device=device)  # steps skipped in a row
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)  # steps skipped in all
        self.finite = torch.ones((), dtype=torch.bool, device=device)  # whether the last step was taken
        self.norm = torch.zeros((), device=device)  # of its gradient

    def step_if_finite(self, loss: Tensor, norm: Tensor, optimisers: list[torch.optim.Optimizer], step: int) -> None:
        """Step the optimisers, unless loss or gradient is not finite."""
        self.norm.copy_(norm)  # everything in place: a CUDA graph writes to fixed addresses
        self.finite.copy_(torch.isfinite(norm) & torch.isfinite(loss))
        self.skipped += ~self.finite
        self.streak.copy_(torch.where(self.finite, 0, self.streak + 1))
        if norm.is_cuda and all(optimiser.defaults.get("fused") for optimiser in optimisers):
            for optimiser in optimisers:
                optimiser.found_inf = (~self.finite).float()  # type: ignore[attr-defined]
                optimiser.step()
        elif bool(self.finite):
            for optimiser in optimisers:
                optimiser.step()
        else:
            self.check(step, float(loss))

    def check(self, step: int, loss: float = math.nan) -> None:
        """Raise, with a diagnosis, after too many skipped steps in a row."""
        if int(self.streak) < MAX_SKIPPED_IN_A_ROW:
            return
        broken = [name for name, weights in self.model.named_parameters() if not bool(torch.isfinite(weights).all())]
        sizes = {name: float(weights.detach().abs().max()) for name, weights in self.model.named_parameters()}
        largest = max(sizes, key=lambda name: sizes[name])
        if broken:
            diagnosis = f"{broken[0]} contains NaN or infinity"
        else:
            diagnosis = f"all weights are finite, the largest is {sizes[largest]:.3g} in {largest}"
        raise HeadwayError(
            f"{int(self.streak)} steps in a row were skipped, up to step {step}: the loss was {loss:.4g} and the norm "
            f"of its gradient {float(self.norm):.4g}; {diagnosis}. Lower the learning rate (train.schedule), set "
            'train.clip=1, or on a GPU train.precision="float32". The same command then resumes from the last '
            "checkpoint."
        )
