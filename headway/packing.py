"""A trained BitNet model with its linear weights packed, four to a byte: for use, no more for training."""

from dataclasses import replace

from torch import Tensor

from headway.config import Config
from headway.errors import HeadwayError
from headway.model_dir import Loaded
from headway.nn.bitlinear import packed_state


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
