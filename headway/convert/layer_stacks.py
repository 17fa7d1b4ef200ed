"""Tensors of which theirs has one in each layer, and ours one for all layers: stacked, under a name with a star.

layer.0.r_w_bias (H, D), layer.1.r_w_bias (H, D) …  ◄─►  layer.*.r_w_bias (layers, H, D)
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headway.convert.weight_files import WeightSource

Stacks = Mapping[str, Sequence[str]]  # the name with a star -> the names of the layers


def name_stacks(layers: int, *patterns: str) -> dict[str, tuple[str, ...]]:
    """The stacks of these names, in which a star stands for the number of the layer."""
    return {pattern: tuple(pattern.replace("*", str(layer)) for layer in range(layers)) for pattern in patterns}


class StackedSource:
    """A source in which the tensors of a stack are one. If they are not all there, in one shape, they keep their
    names."""

    def __init__(self, source: WeightSource, stacks: Stacks) -> None:
        self._source = source
        shapes = source.shapes()
        self._stacks = {
            name: list(parts)
            for name, parts in stacks.items()
            if all(part in shapes for part in parts) and len({shapes[part] for part in parts}) == 1
        }
        hidden = {part for parts in self._stacks.values() for part in parts}
        self._shapes = {name: shape for name, shape in shapes.items() if name not in hidden}
        self._shapes |= {name: (len(parts), *shapes[parts[0]]) for name, parts in self._stacks.items()}

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return self._source.dtype(self._stacks.get(name, [name])[0])

    def read(self, name: str) -> Tensor:
        if name not in self._stacks:
            return self._source.read(name)
        return torch.stack([self._source.read(part) for part in self._stacks[name]])
