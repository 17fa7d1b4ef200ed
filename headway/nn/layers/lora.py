"""LoRA: a wrapper of any linear layer, which adds a small trained product to a frozen base (Hu et al. 2022).

    base(x) + α/r · B(A(x))        A (r, inputs) random, B (outputs, r) zero at first: a new adapter changes nothing

add_lora(model, config)      wraps the layers whose names match, and freezes everything else
share_weights(model)         a copy of the modules with the same tensors: several adapters over one base
merged_state(model)          the weights of the plain model, W + α/r · BA
"""

import copy
import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.errors import ConfigError, HeadwayError
from headway.nn.layers.bitlinear import BitLinear
from headway.nn.layers.linear import Linear
from headway.nn.transformer import Transformer

AnyModule = TypeVar("AnyModule", bound=nn.Module)
LORA_NAMES = ("lora_a", "lora_b")  # of the parameters, in files too


@dataclass(frozen=True)
class LoraConfig:
    """How large an adapter is, and where it is.

    rank: columns of B and rows of A
    alpha: the product is scaled by alpha / rank; by default twice the rank
    layers: names of linear layers, with * for anything, separated by commas: "*.query,*.value"; by default all
    """

    rank: int = 8
    alpha: float = 0.0
    layers: str = "*"

    def __post_init__(self) -> None:
        if isinstance(self.rank, bool) or not isinstance(self.rank, int) or self.rank < 1:
            raise ConfigError(f"must be a whole number of at least 1, not {self.rank!r}.", "lora.rank")
        if not isinstance(self.alpha, int | float) or not 0 <= self.alpha < math.inf:
            raise ConfigError(f"must be a number of at least 0, not {self.alpha!r}.", "lora.alpha")
        if not self.alpha:
            object.__setattr__(self, "alpha", 2.0 * self.rank)

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    def matches(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern.strip()) for pattern in self.layers.split(","))


class LoraLinear(Linear):
    """base(x) + scale · B(A(x))"""

    def __init__(self, base: Linear, config: LoraConfig, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base = base
        self.scale = config.scale
        like: Any = next(base.parameters())
        self.lora_a = nn.Parameter(torch.empty(config.rank, inputs, dtype=like.dtype, device=like.device))
        self.lora_b = nn.Parameter(torch.zeros(outputs, config.rank, dtype=like.dtype, device=like.device))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    @property
    def weight(self) -> Any:  # type: ignore[override]
        """The sum, for layers that read the weights of others instead of calling them."""
        return None if self.base.weight is None else self.base.weight + self.delta()

    @property
    def bias(self) -> Any:
        return getattr(self.base, "bias", None)

    def delta(self) -> Tensor:
        """What is added to the weight, (outputs, inputs)."""
        return self.scale * (self.lora_b @ self.lora_a)

    def forward(self, x: Tensor) -> Tensor:
        low = F.linear(x, self.lora_a)  # (…, rank)
        result: Tensor = self.base(x) + self.scale * F.linear(low, self.lora_b)
        return result


def linear_names(model: nn.Module) -> list[str]:
    """The names of all linear layers."""
    return [name for name, module in model.named_modules() if isinstance(module, Linear)]


def add_lora(model: Transformer, config: LoraConfig) -> Transformer:
    """Wrap the matching linear layers, in place, and freeze all other weights."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    names = linear_names(model)
    chosen = [name for name in names if config.matches(name)]
    if not chosen:
        examples = ", ".join(names[:3])
        raise ConfigError(f'no linear layer is named "{config.layers}". They are called {examples} …', "lora.layers")
    for name in chosen:
        parent = model.get_submodule(name.rpartition(".")[0])
        base = model.get_submodule(name)
        assert isinstance(base, Linear)
        if base.weight is None:
            raise HeadwayError(
                f"{name} is packed, and an adapter needs the float weights. Use the model before packing."
            )
        outputs, inputs = base.weight.shape
        setattr(parent, name.rpartition(".")[2], LoraLinear(base, config, inputs, outputs))
    return model


def lora_layers(model: nn.Module) -> dict[str, LoraLinear]:
    """The wrapped layers, by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLinear)}


def trained_state(model: nn.Module) -> dict[str, Tensor]:
    """What a training changes: of a model with adapters these alone, else everything."""
    state = model.state_dict()
    if not lora_layers(model):
        return state
    return {name: tensor for name, tensor in state.items() if name.rpartition(".")[2] in LORA_NAMES}


@torch.no_grad()
def merged_state(model: Transformer) -> dict[str, Tensor]:
    """The state dict of the same model without wrappers, summed in float64."""
    state = model.state_dict()
    for name, layer in lora_layers(model).items():
        if isinstance(layer.base, BitLinear) or layer.base.weight is None:
            raise HeadwayError(
                f"{name} rounds its weights to -1, 0 and 1, so nothing can be added to them: use the adapter as it is."
            )
        delta = layer.scale * (layer.lora_b.double() @ layer.lora_a.double())
        weight = layer.base.weight
        del state[f"{name}.lora_a"], state[f"{name}.lora_b"]
        state[f"{name}.base.weight"] = (weight.double() + delta).to(weight.dtype)
    return {key.replace(".base.", "."): tensor for key, tensor in state.items()}


def share_weights(model: AnyModule) -> AnyModule:
    """A copy of the modules whose parameters and buffers are those of the model itself."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
