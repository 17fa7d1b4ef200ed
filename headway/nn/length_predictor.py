"""The length of a target, predicted from its source: what a decoder needs to know that writes all tokens at once."""

import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.build import Cost, Scope, make_linear
from headway.nn.sequence import Memory

LOSS_WEIGHT = 0.1  # of the loss of lengths beside that of tokens, a mean each


class LengthPredictor(nn.Module):
    """mean(encoder output) W + b, a score for each length from 0 to `longest`"""

    def __init__(self, longest: int, scope: Scope) -> None:
        super().__init__()
        self.longest = longest
        self.output = make_linear(scope.d_model, longest + 1, scope)

    @staticmethod
    def cost(longest: int, scope: Scope) -> Cost:
        weights = scope.linear_parameters(scope.d_model, longest + 1)
        return Cost(parameters=weights, flops_per_text=2 * scope.d_model * (longest + 1))

    def forward(self, memory: Memory) -> Tensor:
        """(B, longest + 1)"""
        values, valid = memory.values, memory.positions.valid
        if valid is None:
            mean = values.mean(1)
        else:
            mean = values.masked_fill(~valid[..., None], 0.0).sum(1) / valid.sum(1, keepdim=True).clamp(min=1)
        scores: Tensor = self.output(mean)
        return scores

    def loss(self, memory: Memory, lengths: Tensor) -> Tensor:
        """The weighted mean cross-entropy of the true lengths (B,); longer ones count as the longest. A row of length 0
        is padding."""
        return LOSS_WEIGHT * F.cross_entropy(self(memory).float(), lengths.clamp(max=self.longest), ignore_index=0)
