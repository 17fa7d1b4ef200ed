"""What a part knows of its surroundings when it is built, and what it costs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import nn

from headway.config import catalogue
from headway.config.schema import Part, target_of
from headway.nn.masks.masks import Mask


@dataclass(frozen=True, kw_only=True)
class Scope:
    """One side of a model, as its parts see it."""

    d_model: int
    dropout: float
    norm: Any  # the Part that make_norm builds; every kind in the slot has .parameters(width)
    linear: Any  # the Part that make_linear builds
    side: Literal["encoder", "decoder"] = "encoder"
    layers: int = 1
    other_layers: int = 0  # of the other side; 0: there is none
    masks: tuple[Mask, ...] = ()  # of these layers, for what a position costs in each

    def linear_parameters(self, inputs: int, outputs: int, bias: bool = True) -> int:
        return int(self.linear.parameters(inputs, outputs, bias))

    def norm_parameters(self) -> int:
        return int(self.norm.parameters(self.d_model))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Adds up over parts. Floating-point operations of a forward pass count a multiply-add as two; only those of matrix
    products and convolutions count."""

    parameters: int = 0
    flops_per_text: int = 0  # however long it is
    flops_per_query: int = 0
    flops_per_key: int = 0
    flops_per_pair: int = 0
    flops_by_length: tuple[Callable[[int, int], int], ...] = ()  # what grows otherwise, from queries and keys
    kept_per_token: int = 0  # numbers that decoding remembers for each token
    kept_per_text: int = 0  # and those however long it is

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})

    def under(self, mask: Mask) -> "Cost":
        """The same where a query looks at no more keys than a mask lets any one query see."""
        if mask.reach is None:
            return self
        pair = self.flops_per_pair
        seen = (lambda queries, keys: pair * queries * mask.widest(keys),)
        return replace(self, flops_per_pair=0, flops_by_length=self.flops_by_length + seen)

    def remembering(self, places: int) -> "Cost":
        """The same where decoding remembers so many places, however long the text is."""
        kept = self.kept_per_text + self.kept_per_token * places
        return replace(self, kept_per_token=0, kept_per_text=kept)

    def flops(self, queries: int, keys: int) -> int:
        per_token = self.flops_per_query * queries + self.flops_per_key * keys
        others = sum(count(queries, keys) for count in self.flops_by_length)
        return self.flops_per_text + per_token + self.flops_per_pair * queries * keys + others


def make(slot: str, part: Part, scope: Scope) -> Any:
    """Build the module of a part."""
    return target_of(catalogue.find(slot, part.kind).target)(part, scope)


def make_linear(inputs: int, outputs: int, scope: Scope, *, bias: bool = True) -> nn.Module:
    """Every linear layer of a model is made here, so that one config value changes them all."""
    module: nn.Module = target_of(catalogue.find("linear", scope.linear.kind).target)(
        scope.linear, inputs, outputs, bias=bias
    )
    return module


def make_norm(scope: Scope) -> nn.Module:
    """The norm of the model's choice, as wide as the model."""
    return build_norm(scope.norm, scope.d_model)


def build_norm(part: Part, width: int) -> nn.Module:
    """Every norm of a model is made here."""
    module: nn.Module = target_of(catalogue.find("norm", part.kind).target)(part, width)
    return module
