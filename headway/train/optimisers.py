"""Optimisers (train.optimiser). Each is built with lr = 1; the schedule sets the learning rate before every step."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.nn.layers.heads import PooledHead
from headway.nn.layers.linear import Linear
from headway.nn.layers.moe import MixtureOfExperts
from headway.train.muon import Muon

Parameters = list[nn.Parameter]
MAX_DECAY = 0.999999  # with a decay of 1 an average would never change, and momentum would never fade


class AdamOptimiser:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "adam"
        beta1: float = number(0.9, low=0, high=MAX_DECAY)
        beta2: float = number(0.98, low=0, high=MAX_DECAY)
        eps: float = number(1e-9, low=0)

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            betas = (self.beta1, self.beta2)
            return [torch.optim.Adam(_trainable_parameters(model), lr=1.0, betas=betas, eps=self.eps, fused=True)]


class AdamWOptimiser:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "adamw"
        weight_decay: float = number(0.01, low=0)
        beta1: float = number(0.9, low=0, high=MAX_DECAY)
        beta2: float = number(0.98, low=0, high=MAX_DECAY)
        eps: float = number(1e-9, low=0)

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            groups = _group_by_decay(_trainable_parameters(model), self.weight_decay)
            return [torch.optim.AdamW(groups, lr=1.0, betas=(self.beta1, self.beta2), eps=self.eps, fused=True)]


class SGDOptimiser:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "sgd"

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            return [torch.optim.SGD(_trainable_parameters(model), lr=1.0)]


class MomentumOptimiser:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "momentum"
        momentum: float = number(0.9, low=1e-6, high=MAX_DECAY)
        nesterov: bool = False

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            return [
                torch.optim.SGD(_trainable_parameters(model), lr=1.0, momentum=self.momentum, nesterov=self.nesterov)
            ]


class AdaGradOptimiser:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "adagrad"
        eps: float = number(1e-10, low=0)

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            return [torch.optim.Adagrad(_trainable_parameters(model), lr=1.0, eps=self.eps)]


class RMSPropOptimiser:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "rmsprop"
        decay: float = number(0.99, low=0, high=MAX_DECAY)
        eps: float = number(1e-8, low=0)

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            return [torch.optim.RMSprop(_trainable_parameters(model), lr=1.0, alpha=self.decay, eps=self.eps)]


class MuonOptimiser:
    """Muon for the matrices inside layers. Embeddings, output and class scores, position tables, norms and biases are
    left to AdamW, at a share of the learning rate."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "muon"
        momentum: float = number(0.95, low=0, high=MAX_DECAY)
        weight_decay: float = number(0.0, low=0)
        adamw_rate: float = number(0.15, low=0)  # AdamW's learning rate, as a share of Muon's

        def build(self, model: nn.Module) -> list[torch.optim.Optimizer]:
            hidden = _hidden_matrix_ids(model)
            matrices = [p for p in _trainable_parameters(model) if id(p) in hidden]
            rest = [p for p in _trainable_parameters(model) if id(p) not in hidden]
            muon = Muon(matrices, lr=1.0, momentum=self.momentum, weight_decay=self.weight_decay)
            adam = torch.optim.AdamW(_group_by_decay(rest, self.weight_decay), lr=1.0, betas=(0.9, 0.98), fused=True)
            for group in adam.param_groups:
                group["lr_scale"] = self.adamw_rate
            return [muon, adam]


def set_learning_rate(optimisers: list[torch.optim.Optimizer], rate: float) -> None:
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            scaled = rate * group.get("lr_scale", 1.0)
            if isinstance(group["lr"], Tensor):  # read by a CUDA graph
                group["lr"].fill_(scaled)
            else:
                group["lr"] = scaled


def _trainable_parameters(model: nn.Module) -> Parameters:
    return [p for p in model.parameters() if p.requires_grad]


def _hidden_matrix_ids(model: nn.Module) -> set[int]:
    """The matrices that map vectors to vectors. Where a row scores one token, class or expert, orthogonalising would
    move the rarest as far as the most frequent."""
    scorers = {id(module.classify) for module in model.modules() if isinstance(module, PooledHead)}
    scorers |= {id(module.router) for module in model.modules() if isinstance(module, MixtureOfExperts)}
    layers = [
        module for module in model.modules() if isinstance(module, Linear | nn.Linear) and id(module) not in scorers
    ]
    return {id(layer.weight) for layer in layers if layer.weight is not None}


def _group_by_decay(parameters: Parameters, weight_decay: float) -> list[dict[str, Any]]:
    """Weight decay for matrices, none for biases and gains."""
    matrices = [p for p in parameters if p.ndim >= 2]
    vectors = [p for p in parameters if p.ndim < 2]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
