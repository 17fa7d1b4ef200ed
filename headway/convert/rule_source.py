"""Tensors of one toolkit under the names and in the shapes of another: a WeightSource that follows TensorRules."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headway.convert.tensor_rules import TensorRule, read_tensor
from headway.convert.weight_files import WeightSource


class RuleSource:
    """`ours` of each rule, from `theirs` in the source. Tensors that no rule reads, and that are not in `unused`, keep
    their names: the importer says that it has no place for them."""

    def __init__(self, source: WeightSource, rules: Sequence[TensorRule], unused: Sequence[str] = ()) -> None:
        self._source = source
        names = source.shapes()
        self._rules = {rule.ours: rule for rule in rules if rule.theirs in names}
        read = {rule.theirs for rule in rules}
        self._rules |= {name: TensorRule(name, name) for name in names if name not in read and name not in unused}

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        shapes = self._source.shapes()
        return {name: rule.shape(shapes[rule.theirs]) for name, rule in self._rules.items()}

    def dtype(self, name: str) -> torch.dtype:
        return self._source.dtype(self._rules[name].theirs)

    def read(self, name: str) -> Tensor:
        rule = self._rules[name]
        return read_tensor(rule, self._source.read(rule.theirs))
