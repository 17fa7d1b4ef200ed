"""Muon: momentum whose matrices are made orthogonal, so that every direction of a weight moves as far as the others.

Matrices of one shape are taken together: a few products of many matrices instead of thousands of single ones, which a GPU
would spend more time on starting than on computing."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

STEPS = 5
A, B, C = 3.4445, -4.7750, 2.0315  # of Jordan's quintic: steep at 0; after so many steps most are within 0.7 and 1.2
SMALLEST = 1e-7


def orthogonalised(x: Tensor) -> Tensor:
    """(N, rows, columns) Each matrix with all its singular values brought near 1: x <- A x + B (x xᵀ) x + C (x xᵀ)² x, again and
    again. The shorter side comes first, whose products are smaller."""
    if x.shape[-2] > x.shape[-1]:
        return orthogonalised(x.mT).mT
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=SMALLEST)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=B, alpha=C), x, beta=A)
    return x


class Muon(torch.optim.Optimizer):
    """For matrices. As Adam's fused kernel does, it leaves a step out where found_inf, set from outside, says so, and
    reads a rate that lies on the device: a step can be recorded."""

    found_inf: Tensor | None = None

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "fused": True}
        super().__init__(matrices, defaults)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            alike: defaultdict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike[matrix.shape].append(matrix)
            for matrices in alike.values():
                self._move(matrices, group)

    def _move(self, matrices: list[nn.Parameter], group: dict[str, Any]) -> None:
        """Matrices of one shape."""
        for matrix in matrices:
            if not self.state[matrix]:  # before steps are recorded: a replay would forget it
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        kept = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        old, before = torch.stack([m.data for m in matrices]), torch.stack(kept)
        slope = torch.stack([m.grad for m in matrices if m.grad is not None])
        mean = before.lerp(slope, 1 - group["momentum"])
        ahead = slope.lerp(mean, group["momentum"])  # Nesterov's
        rough = ahead if ahead.dtype == torch.float64 else ahead.bfloat16()  # it need not be exact; tests are
        move = orthogonalised(rough).to(old.dtype)
        rows, columns = old.shape[1:]
        new = old * (1 - group["lr"] * group["weight_decay"]) - move * (group["lr"] * math.sqrt(max(1, rows / columns)))
        if self.found_inf is not None:
            bad = self.found_inf > 0
            new, mean = torch.where(bad, old, new), torch.where(bad, before, mean)
        torch._foreach_copy_([m.data for m in matrices], list(new.unbind()))
        torch._foreach_copy_(kept, list(mean.unbind()))
