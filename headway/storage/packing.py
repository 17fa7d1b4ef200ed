"""Smaller model files: ternary (BitNet) weights packed four to a byte, or dense matrices quantised to int8."""

import re
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from headway.config.config import Config
from headway.errors import HeadwayError
from headway.nn.layers.bitlinear import packed_state_dict
from headway.nn.ops.int8_rows import quantise_rows
from headway.storage.model_dir import LoadedModel
from headway.storage.tensor_file import SCALE_SUFFIX

# The weights of linear layers, and the embeddings, which are often also the output layer.
INT8_MATRICES = re.compile(
    r"(.*\.sublayers\..*\.(query|key|value|output|gate|candidate|inner|outer)|embeddings\..*\.words|head)\.weight"
)


def is_packed(config: Config) -> bool:
    """Whether the ternary weights of a model are packed."""
    return bool(getattr(config.model.linear, "packed", False))


def pack_bitnet_model(loaded: LoadedModel) -> tuple[Config, dict[str, Tensor]]:
    """The config and the weights of a packed copy, which computes exactly the same."""
    config, model, _ = loaded
    linear = config.model.linear
    if linear.kind != "bitnet":
        raise HeadwayError(
            f'its linear layers are "{linear.kind}", and only ternary weights can be packed. Train a ternary model: '
            "headway train … --set model.linear=bitnet"
        )
    if is_packed(config):
        raise HeadwayError("it is packed already. Copy its directory.")
    return replace(config, model=replace(config.model, linear=replace(linear, packed=True))), packed_state_dict(model)


def int8_state_dict(loaded: LoadedModel) -> dict[str, Tensor]:
    """The weights of a model with its matrices in int8, as headway.storage.tensor_file describes."""
    if loaded.config.model.linear.kind != "dense":
        raise HeadwayError(
            f'its linear layers are "{loaded.config.model.linear.kind}", and only dense ones can be quantised to int8. '
            "Remove --int8: ternary weights take two bits."
        )
    return quantise_state_dict(loaded.model.state_dict())


def quantise_state_dict(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    quantised: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.dim() == 2 and INT8_MATRICES.fullmatch(name):
            rows, scale = quantise_rows(tensor.float().cpu().numpy())
            quantised[name] = torch.from_numpy(rows)
            quantised[name + SCALE_SUFFIX] = torch.from_numpy(scale)
        else:
            quantised[name] = tensor
    return quantised
