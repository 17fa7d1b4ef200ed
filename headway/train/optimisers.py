"""Optimisers by name. The rate that they are given is multiplied by the schedule at every step."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.layers.heads import Pooled
from headway.nn.layers.linear import Linear
from headway.nn.layers.moe import MixtureOfExperts
from headway.train.muon import Muon as Orthogonal

Parameters = list[nn.Parameter]
BELOW_ONE = 0.999999  # an average that never forgets would never learn, and a momentum that never fades run away


class Adam:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "adam"
        beta1: float = number(0.9, low=0, high=BELOW_ONE)
        beta2: float = number(0.98, low=0, high=BELOW_ONE)
        eps: float = number(1e-9, low=0)

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            betas = (self.beta1, self.beta2)
            return [torch.optim.Adam(_trained(model), lr=1.0, betas=betas, eps=self.eps, fused=True)]


class AdamW:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "adamw"
        weight_decay: float = number(0.01, low=0)
        beta1: float = number(0.9, low=0, high=BELOW_ONE)
        beta2: float = number(0.98, low=0, high=BELOW_ONE)
        eps: float = number(1e-9, low=0)

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            groups = _decayed(_trained(model), self.weight_decay)
            return [torch.optim.AdamW(groups, lr=1.0, betas=(self.beta1, self.beta2), eps=self.eps, fused=True)]


class SGD:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "sgd"

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            return [torch.optim.SGD(_trained(model), lr=1.0)]


class Momentum:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "momentum"
        momentum: float = number(0.9, low=1e-6, high=BELOW_ONE)
        nesterov: bool = False

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            return [torch.optim.SGD(_trained(model), lr=1.0, momentum=self.momentum, nesterov=self.nesterov)]


class AdaGrad:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "adagrad"
        eps: float = number(1e-10, low=0)

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            return [torch.optim.Adagrad(_trained(model), lr=1.0, eps=self.eps)]


class RMSProp:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "rmsprop"
        decay: float = number(0.99, low=0, high=BELOW_ONE)
        eps: float = number(1e-8, low=0)

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            return [torch.optim.RMSprop(_trained(model), lr=1.0, alpha=self.decay, eps=self.eps)]


class Muon:
    """For the matrices inside layers. Words, the scores of words and classes, tables of positions, norms and biases are
    left to AdamW, at a share of the rate."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "muon"
        momentum: float = number(0.95, low=0, high=BELOW_ONE)
        weight_decay: float = number(0.0, low=0)
        others: float = number(0.15, low=0)  # AdamW's rate, as a share of Muon's

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            inside = _inside(model)
            matrices = [p for p in _trained(model) if id(p) in inside]
            rest = [p for p in _trained(model) if id(p) not in inside]
            muon = Orthogonal(matrices, lr=1.0, momentum=self.momentum, weight_decay=self.weight_decay)
            adam = torch.optim.AdamW(_decayed(rest, self.weight_decay), lr=1.0, betas=(0.9, 0.98), fused=True)
            for group in adam.param_groups:
                group["share"] = self.others
            return [muon, adam]


def set_rate(optimisers: list[torch.optim.Optimizer], rate: float) -> None:
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            wanted = rate * group.get("share", 1.0)
            if isinstance(group["lr"], Tensor):  # read by a CUDA graph
                group["lr"].fill_(wanted)
            else:
                group["lr"] = wanted


def _trained(model: nn.Module) -> Parameters:
    return [p for p in model.parameters() if p.requires_grad]


def _inside(model: nn.Module) -> set[int]:
    """The matrices that turn vectors into vectors. A row that scores a word, a class or an expert stands for that one
    alone: made orthogonal, the rarest would move as far as the most frequent."""
    lists = {id(module.classify) for module in model.modules() if isinstance(module, Pooled)}
    lists |= {id(module.router) for module in model.modules() if isinstance(module, MixtureOfExperts)}
    layers = [
        module for module in model.modules() if isinstance(module, Linear | nn.Linear) and id(module) not in lists
    ]
    return {id(layer.weight) for layer in layers if layer.weight is not None}


def _decayed(parameters: Parameters, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay; biases and gains do not."""
    matrices = [p for p in parameters if p.ndim >= 2]
    vectors = [p for p in parameters if p.ndim < 2]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
