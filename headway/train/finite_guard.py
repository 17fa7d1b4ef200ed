"""Steps whose loss or gradients are not numbers: left out one by one, and a diagnosis when there are many in a row."""

import math

import torch
from torch import Tensor, nn

from headway.errors import HeadwayError

PATIENCE = 10  # steps in a row


class Health:
    """Decides over each update. On a GPU nothing waits for the decision where the optimiser can take it by itself."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.model = model
        self.streak = torch.zeros((), dtype=torch.int64, device=device)  # steps left out in a row
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)  # and in all
        self.finite = torch.ones((), dtype=torch.bool, device=device)  # whether the last one was taken
        self.norm = torch.zeros((), device=device)  # of the gradient of the last one

    def update(self, loss: Tensor, norm: Tensor, optimisers: list[torch.optim.Optimizer], step: int) -> None:
        """Move the weights, unless that would spoil them."""
        self.norm.copy_(norm)  # in place, all of it: a CUDA graph writes where it wrote before
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
        """Give up, with what can be said about the cause, when nothing has been learned for a while."""
        if int(self.streak) < PATIENCE:
            return
        spoiled = [name for name, weights in self.model.named_parameters() if not bool(torch.isfinite(weights).all())]
        sizes = {name: float(weights.detach().abs().max()) for name, weights in self.model.named_parameters()}
        largest = max(sizes, key=lambda name: sizes[name])
        state = f"{spoiled[0]} holds values that are not numbers" if spoiled else (
            f"the weights are sound, the largest is {sizes[largest]:.3g} in {largest}"
        )  # fmt: skip
        raise HeadwayError(
            f"{int(self.streak)} steps in a row were left out, up to step {step}: the loss was {loss:.4g} and its gradient "
            f"{float(self.norm):.4g}; {state}. Lower the rate (train.schedule), set train.clip=1, or "
            'train.precision="float32" on a GPU; the same command goes on from the last checkpoint.'
        )
