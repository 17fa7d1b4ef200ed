"""Output heads: logits over the vocabulary, BERT's masked language modelling, a pooled classifier, tags of tokens,
and embeddings of whole texts."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.errors import HeadwayError
from headway.nn.build import Cost, Scope, make_linear, make_norm
from headway.nn.layers.feedforward import ACTIVATIONS
from headway.nn.ops.dropout import Dropout


class LogitsHead(nn.Module):
    """s · xEᵀ + b: a score for each token of the vocabulary. E is the embedding (tied), or a matrix of its own."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "logits"
        bias: bool = False
        scale: float | None = None  # = 1. 1/√d_model is T5's

        def build(self, scope: Scope, vocabulary: int, tied: bool) -> "LogitsHead":
            return LogitsHead(scope, vocabulary, tied, self.bias, 1.0 if self.scale is None else self.scale)

        def cost(self, scope: Scope, vocabulary: int, tied: bool) -> Cost:
            weights = (0 if tied else vocabulary * scope.d_model) + self.bias * vocabulary
            return Cost(parameters=weights, flops_per_query=2 * scope.d_model * vocabulary)

    def __init__(self, scope: Scope, vocabulary: int, tied: bool, bias: bool, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.weight = None if tied else nn.Parameter(torch.zeros(vocabulary, scope.d_model))
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    def factors(self, x: Tensor, embedding: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x = x if self.scale == 1 else x * self.scale
        return x, embedding if self.weight is None else self.weight, self.bias

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        return F.linear(*self.factors(x, embedding))


class MaskedLMHead(nn.Module):
    """norm(gelu(xW + b))Eᵀ + c, BERT's masked language modelling; and tanh(x₀V + d)U + e, its next sentence"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "masked"
        activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
        next_sentence: bool = False  # then two scores for a pair of texts: the second follows the first, or does not

        def build(self, scope: Scope, vocabulary: int, tied: bool) -> "MaskedLMHead":
            return MaskedLMHead(self, scope, vocabulary, tied)

        def cost(self, scope: Scope, vocabulary: int, tied: bool) -> Cost:
            transform = scope.linear_parameters(scope.d_model, scope.d_model) + scope.norm_parameters()
            flops = 2 * scope.d_model * (scope.d_model + vocabulary)
            weights = vocabulary + (0 if tied else vocabulary * scope.d_model)
            pairs = Cost()
            if self.next_sentence:
                linear = scope.linear_parameters(scope.d_model, scope.d_model)
                linear += scope.linear_parameters(scope.d_model, 2)
                pairs = Cost(parameters=linear, flops_per_text=2 * scope.d_model * (scope.d_model + 2))
            return Cost(parameters=transform + weights, flops_per_query=flops) + pairs

    def __init__(self, config: Config, scope: Scope, vocabulary: int, tied: bool) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.transform = make_linear(scope.d_model, scope.d_model, scope)
        self.norm = make_norm(scope)
        self.logits = LogitsHead(scope, vocabulary, tied, bias=True)
        self.pool, self.follows = (
            make_linear(scope.d_model, size, scope) if config.next_sentence else None for size in (scope.d_model, 2)
        )

    def next_sentence(self, x: Tensor) -> Tensor:
        """(B, T, d) of pairs -> (B, 2): scores that the second text follows the first, and that it does not."""
        if self.pool is None or self.follows is None:
            raise HeadwayError(
                "this model does not tell whether a text follows another. Train one with the head "
                '"masked(next_sentence=true)", such as that of the preset bert.'
            )
        result: Tensor = self.follows(torch.tanh(self.pool(x[:, 0])))
        return result

    def factors(self, x: Tensor, embedding: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.logits.factors(self.norm(self.activation(self.transform(x))), embedding)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        return F.linear(*self.factors(x, embedding))


class PooledHead(nn.Module):
    """f(pW + b), and from it a score for each class; p is the first token, or the mean or maximum of all"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "pooled"
        classes: int = number(2, low=1)  # 1: a number, such as how alike two texts are
        pooling: Literal["first", "mean", "max"] = "first"
        dense: bool = True  # the layer W, b before the scores
        activation: Literal["tanh", "gelu", "relu"] = "tanh"  # f

        def build(self, scope: Scope, vocabulary: int, tied: bool) -> "PooledHead":
            return PooledHead(self, scope)

        def cost(self, scope: Scope, vocabulary: int, tied: bool) -> Cost:
            weights = scope.linear_parameters(scope.d_model, self.classes)
            flops = 2 * scope.d_model * self.classes
            if self.dense:
                weights += scope.linear_parameters(scope.d_model, scope.d_model)
                flops += 2 * scope.d_model**2
            return Cost(parameters=weights, flops_per_text=flops)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = config
        self.pool = make_linear(scope.d_model, scope.d_model, scope) if config.dense else None
        self.activation = torch.tanh if config.activation == "tanh" else ACTIVATIONS[config.activation]
        self.dropout = Dropout(scope.dropout)
        self.classify = make_linear(scope.d_model, config.classes, scope)

    def vector(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """(B, T, d) -> (B, d). valid (B, T): false on padding."""
        pooled = pool_tokens(x, valid, self.config.pooling)
        return pooled if self.pool is None else self.activation(self.pool(pooled))

    def forward(self, x: Tensor, embedding: Any, valid: Tensor | None = None) -> Tensor:
        """(B, T, d) -> (B, classes)"""
        result: Tensor = self.classify(self.dropout(self.vector(x, valid)))
        return result


class TagHead(nn.Module):
    """xW + b: a score of each class for every token"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "tags"
        classes: int = number(2, low=1)

        def build(self, scope: Scope, vocabulary: int, tied: bool) -> "TagHead":
            return TagHead(self, scope)

        def cost(self, scope: Scope, vocabulary: int, tied: bool) -> Cost:
            weights = scope.linear_parameters(scope.d_model, self.classes)
            return Cost(parameters=weights, flops_per_query=2 * scope.d_model * self.classes)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.dropout = Dropout(scope.dropout)
        self.classify = make_linear(scope.d_model, config.classes, scope)

    def forward(self, x: Tensor, embedding: Any, valid: Tensor | None = None) -> Tensor:
        """(B, T, d) -> (B, T, classes)"""
        result: Tensor = self.classify(self.dropout(x))
        return result


def pool_tokens(x: Tensor, valid: Tensor | None, pooling: str) -> Tensor:
    """One vector for each text: (B, T, d) -> (B, d). valid (B, T): false on padding, None: there is none."""
    if pooling == "first":
        return x[:, 0]
    if valid is None:
        return x.mean(1) if pooling == "mean" else x.amax(1)
    if pooling == "max":
        return x.masked_fill(~valid[..., None], -torch.inf).amax(1)
    return (x * valid[..., None]).sum(1) / valid.sum(1, keepdim=True).clamp(min=1)


class EmbeddingHead(nn.Module):
    """One vector for the text: the mean of its tokens, the first of them, or the largest value of each channel"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "embedding"
        pooling: Literal["mean", "first", "max"] = "mean"
        dense: bool = False  # then tanh(xW + b), as BERT's pooler
        normalise: bool = True  # then scaled to the length 1

        def build(self, scope: Scope, vocabulary: int, tied: bool) -> "EmbeddingHead":
            return EmbeddingHead(self, scope)

        def cost(self, scope: Scope, vocabulary: int, tied: bool) -> Cost:
            if not self.dense:
                return Cost()
            weights = scope.linear_parameters(scope.d_model, scope.d_model)
            return Cost(parameters=weights, flops_per_text=2 * scope.d_model * scope.d_model)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = config
        self.pool = make_linear(scope.d_model, scope.d_model, scope) if config.dense else None

    def vector(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """(B, T, d) -> (B, d). valid (B, T): false on padding."""
        vector = pool_tokens(x, valid, self.config.pooling)
        if self.pool is not None:
            vector = torch.tanh(self.pool(vector))
        return F.normalize(vector, dim=-1) if self.config.normalise else vector

    def forward(self, x: Tensor, embedding: Any) -> Tensor:
        """Of texts without padding."""
        return self.vector(x)
