"""Build modules from their configs: the scope they are built in, and their cost in parameters, FLOPs and cache."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import nn

from headway.config.own_kinds import import_owner
from headway.config.schema import Part, make_part
from headway.nn.masks.masks import Mask


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The side of the model that a part is built for."""

    d_model: int
    dropout: float
    norm: Any  # the NormConfig of all norms
    linear: Any  # the Part that make_linear builds
    side: Literal["encoder", "decoder"] = "encoder"
    layers: int = 1
    layer: int = 0  # index of the layer that a mixer or a feed-forward is built for
    first_of_kind: bool = True  # no layer below has the same kind of mixer
    other_layers: int = 0  # layers of the other side; 0: there is none
    autoregressive: bool = True  # else the decoder sees all of its target
    nodes: bool = False  # there is a graph reasoner, whose nodes a decoder can listen to
    masks: tuple[Mask, ...] = ()  # of these layers, for the cost of a mixer or a position; none: cross-attention

    def linear_parameters(self, inputs: int, outputs: int, bias: bool = True) -> int:
        return int(self.linear.parameters(inputs, outputs, bias))

    def norm_parameters(self) -> int:
        return int(self.norm.parameters(self.d_model))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one part; costs can be added. FLOPs are those of a forward pass, a multiply-add counted as two; only matrix
    products and convolutions count."""

    parameters: int = 0
    flops_per_text: int = 0  # independent of its length
    flops_per_query: int = 0
    flops_per_key: int = 0
    flops_per_pair: int = 0
    flops_by_length: tuple[Callable[[int, int], int], ...] = ()  # other growth, as functions of queries and keys
    cached_per_token: int = 0  # numbers that decoding caches for each token
    cached_per_text: int = 0  # and independent of its length

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})

    def under(self, mask: Mask) -> "Cost":
        """The same, with no more keys for a query than the mask lets any one query see."""
        if mask.lookback is None:
            return self
        pair = self.flops_per_pair
        seen = (lambda queries, keys: pair * queries * mask.max_keys(keys),)
        return replace(self, flops_per_pair=0, flops_by_length=self.flops_by_length + seen)

    def with_cache_of(self, tokens: int) -> "Cost":
        """The same, where decoding caches this many tokens, however long the text is."""
        cached = self.cached_per_text + self.cached_per_token * tokens
        return replace(self, cached_per_token=0, cached_per_text=cached)

    def flops(self, queries: int, keys: int) -> int:
        per_token = self.flops_per_query * queries + self.flops_per_key * keys
        others = sum(count(queries, keys) for count in self.flops_by_length)
        return self.flops_per_text + per_token + self.flops_per_pair * queries * keys + others


def make(slot: str, part: Part, scope: Scope) -> Any:
    """Build the module of a part."""
    return import_owner(slot, part.kind)(part, scope)


def make_linear(inputs: int, outputs: int, scope: Scope, *, bias: bool = True) -> nn.Module:
    """Every linear layer of a model is made here, so that one config value changes them all."""
    module: nn.Module = import_owner("linear", scope.linear.kind)(scope.linear, inputs, outputs, bias=bias)
    return module


def make_stream_norm(scope: Scope) -> nn.Module:
    """The model's kind of norm, for the residual stream: norm(x, tokens) of (B, T, d)."""
    return _import_norm(scope.norm, scope.d_model)


def make_norm(scope: Scope) -> nn.Module:
    """The same inside a layer, as wide as the model: norm(x), of each vector by itself."""
    return build_norm(scope.norm, scope.d_model)


def build_norm(part: Any, width: int) -> nn.Module:
    """Every norm inside a layer is made here; one that is defined for the stream alone is replaced by layer norm."""
    return _import_norm(make_part("norm", "layernorm") if part.streams_only else part, width)


def _import_norm(part: Part, width: int) -> nn.Module:
    module: nn.Module = import_owner("norm", part.kind)(part, width)
    return module
