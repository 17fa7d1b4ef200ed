"""Output heads: logits over the vocabulary, BERT's masked language modelling, and a pooled classifier."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.build import Cost, Scope, make_linear, make_norm


class LogitsHead(nn.Module):
    """xEᵀ: a score for each token of the vocabulary. E is the embedding (tied), or a matrix of its own."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "logits"
        bias: bool = False

        def build(self, scope: Scope, vocabulary: int, tied: bool) -> "LogitsHead":
            return LogitsHead(scope, vocabulary, tied, self.bias)

        def cost(self, scope: Scope, vocabulary: int, tied: bool) -> Cost:
            weights = (0 if tied else vocabulary * scope.d_model) + self.bias * vocabulary
            return Cost(parameters=weights, flops_per_query=2 * scope.d_model * vocabulary)

    def __init__(self, scope: Scope, vocabulary: int, tied: bool, bias: bool) -> None:
        super().__init__()
        self.weight = None if tied else nn.Parameter(torch.zeros(vocabulary, scope.d_model))
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    def factors(self, x: Tensor, embedding: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        return x, embedding if self.weight is None else self.weight, self.bias

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        return F.linear(*self.factors(x, embedding))


class MaskedLMHead(nn.Module):
    """norm(gelu(xW + b))Eᵀ + c, BERT's masked language modelling"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "masked"

        def build(self, scope: Scope, vocabulary: int, tied: bool) -> "MaskedLMHead":
            return MaskedLMHead(scope, vocabulary, tied)

        def cost(self, scope: Scope, vocabulary: int, tied: bool) -> Cost:
            transform = scope.linear_parameters(scope.d_model, scope.d_model) + scope.norm_parameters()
            flops = 2 * scope.d_model * (scope.d_model + vocabulary)
            weights = vocabulary + (0 if tied else vocabulary * scope.d_model)
            return Cost(parameters=transform + weights, flops_per_query=flops)

    def __init__(self, scope: Scope, vocabulary: int, tied: bool) -> None:
        super().__init__()
        self.transform = make_linear(scope.d_model, scope.d_model, scope)
        self.norm = make_norm(scope)
        self.logits = LogitsHead(scope, vocabulary, tied, bias=True)

    def factors(self, x: Tensor, embedding: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.logits.factors(self.norm(F.gelu(self.transform(x))), embedding)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        return F.linear(*self.factors(x, embedding))


class PooledHead(nn.Module):
    """tanh(x₀W + b), and from it a score for each class"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "pooled"
        classes: int = number(2, low=1)

        def build(self, scope: Scope, vocabulary: int, tied: bool) -> "PooledHead":
            return PooledHead(scope, self.classes)

        def cost(self, scope: Scope, vocabulary: int, tied: bool) -> Cost:
            weights = scope.linear_parameters(scope.d_model, scope.d_model)
            weights += scope.linear_parameters(scope.d_model, self.classes)
            return Cost(parameters=weights, flops_per_text=2 * scope.d_model * (scope.d_model + self.classes))

    def __init__(self, scope: Scope, classes: int) -> None:
        super().__init__()
        self.pool = make_linear(scope.d_model, scope.d_model, scope)
        self.classify = make_linear(scope.d_model, classes, scope)

    def vector(self, x: Tensor) -> Tensor:
        return torch.tanh(self.pool(x[:, 0]))

    def forward(self, x: Tensor, embedding: Any) -> Tensor:
        result: Tensor = self.classify(self.vector(x))
        return result
