"""A trained model in fewer bytes: BitNet's ternary weights four to a byte, or any other's in eight bits."""

import re
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from headway.config.config import Config
from headway.errors import HeadwayError
from headway.nn.layers.bitlinear import packed_state
from headway.nn.layers.int8 import quantized
from headway.storage.model_dir import Loaded
from headway.storage.tensor_file import SCALE

# Matrices that inputs are multiplied by. Words are among them: their table is the output layer's, too.
MATRICES = re.compile(
    r"(.*\.sublayers\..*\.(query|key|value|output|gate|inner|outer)|embeddings\..*\.words|head)\.weight"
)


def is_packed(config: Config) -> bool:
    return bool(getattr(config.model.linear, "packed", False))


def packed(loaded: Loaded) -> tuple[Config, dict[str, Tensor]]:
    """The config and the weights of a model that computes the same from less."""
    config, model, _ = loaded
    linear = config.model.linear
    if linear.kind != "bitnet":
        raise HeadwayError(
            f'its linear layers are "{linear.kind}", and only ternary weights can be packed. Train a model of them: '
            "headway train … --set model.linear=bitnet"
        )
    if is_packed(config):
        raise HeadwayError("it is packed already. Copy the directory as it is.")
    return replace(config, model=replace(config.model, linear=replace(linear, packed=True))), packed_state(model)


def in_eight_bits(loaded: Loaded) -> dict[str, Tensor]:
    """The weights of a model with every matrix as rows of whole numbers, and a scale for each row: see headway.storage.tensor_file."""
    if loaded.config.model.linear.kind != "dense":
        raise HeadwayError(
            f'its linear layers are "{loaded.config.model.linear.kind}", and eight bits are for dense ones. Leave out '
            "--int8: ternary weights take two bits."
        )
    return eight_bits(loaded.model.state_dict())


def eight_bits(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    small: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.dim() == 2 and MATRICES.fullmatch(name):
            rows, scale = quantized(tensor.float().cpu().numpy())
            small[name], small[name + SCALE] = torch.from_numpy(rows), torch.from_numpy(scale)
        else:
            small[name] = tensor
    return small
