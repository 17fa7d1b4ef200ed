"""ISTA, the feed-forward of CRATE: one step of iterative shrinkage-thresholding towards a sparse code (Yu 2023)."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.build import Cost, Scope
from headway.nn.context import Context
from headway.nn.layers.linear import Dense


def ista_step(x: Tensor, dictionary: Tensor, step: float, sparsity: float) -> Tensor:
    """max(0, x + η(x - xDᵀ)D - ηλ): a gradient step that makes the code reconstruct x better through the dictionary D
    (d, d), and then thresholding, which makes it sparse and non-negative."""
    error = x - F.linear(x, dictionary)
    return F.relu(x + step * F.linear(error, dictionary.t()) - step * sparsity)


class ISTA(nn.Module):
    """ista_step(x) - x: what the step changes, so that a residual connection adds it to what it started from"""

    residual_outputs = ()  # thresholding changes x also with a small dictionary
    keep_float = ("dictionary",)  # both products need the same matrix, or the step is no gradient

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "ista"
        step: float = number(0.1, low=0)  # η
        sparsity: float = number(0.1, low=0)  # λ, the weight of the L1 norm

        def resolved(self, scope: Scope) -> "ISTA.Config":
            return self

        def cost(self, scope: Scope) -> Cost:
            parameters = Dense.Config().parameters(scope.d_model, scope.d_model, False)
            return Cost(parameters=parameters, flops_per_query=4 * scope.d_model**2)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = config
        # Dense, whatever kind the model's other linear layers are.
        self.dictionary = Dense(Dense.Config(), scope.d_model, scope.d_model, bias=False)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        code = ista_step(x, self.dictionary.weight, self.config.step, self.config.sparsity)
        ctx.record("code", code)
        return code - x
