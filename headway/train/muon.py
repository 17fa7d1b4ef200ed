"""The Muon optimiser: orthogonalised momentum, so that a weight matrix moves equally far in all directions.

Matrices of one shape are batched: a few products of many matrices instead of thousands of single ones, which would take
a GPU longer to launch than to compute."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

NEWTON_SCHULZ_STEPS = 5
A, B, C = 3.4445, -4.7750, 2.0315  # Jordan's quintic, steep at 0; after 5 steps most singular values are in 0.7 … 1.2
MIN_NORM = 1e-7


def orthogonalise(x: Tensor) -> Tensor:
    """(N, rows, columns) with all singular values brought near 1 by Newton-Schulz iterations x <- A x + B (x xᵀ) x +
    C (x xᵀ)² x. Transposed if rows > columns, which makes x xᵀ smaller."""
    if x.shape[-2] > x.shape[-1]:
        return orthogonalise(x.mT).mT
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=MIN_NORM)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=B, alpha=C), x, beta=A)
    return x


class Muon(torch.optim.Optimizer):
    """For matrices. Like torch's fused Adam, it skips a step if `found_inf` is set, and takes a learning rate on the
    device, so that steps can be captured in a CUDA graph."""

    found_inf: Tensor | None = None  # () set from outside; > 0: skip the step

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "fused": True}
        super().__init__(matrices, defaults)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: defaultdict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape[matrix.shape].append(matrix)
            for matrices in by_shape.values():
                self._step_batch(matrices, group)

    def _step_batch(self, matrices: list[nn.Parameter], group: dict[str, Any]) -> None:
        """Update matrices of one shape."""
        for matrix in matrices:
            if not self.state[matrix]:  # in the first step, before any is captured in a graph
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        buffers = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        weights = torch.stack([m.data for m in matrices])
        old_momentum = torch.stack(buffers)
        gradient = torch.stack([m.grad for m in matrices if m.grad is not None])
        momentum = old_momentum.lerp(gradient, 1 - group["momentum"])
        nesterov = gradient.lerp(momentum, group["momentum"])
        # bfloat16 is exact enough; float64 is for tests.
        update = orthogonalise(nesterov if nesterov.dtype == torch.float64 else nesterov.bfloat16()).to(weights.dtype)
        rows, columns = weights.shape[1:]
        decay = 1 - group["lr"] * group["weight_decay"]
        new_weights = weights * decay - update * (group["lr"] * math.sqrt(max(1, rows / columns)))
        if self.found_inf is not None:
            skip = self.found_inf > 0
            new_weights = torch.where(skip, weights, new_weights)
            momentum = torch.where(skip, old_momentum, momentum)
        torch._foreach_copy_([m.data for m in matrices], list(new_weights.unbind()))
        torch._foreach_copy_(buffers, list(momentum.unbind()))
