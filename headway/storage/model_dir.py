"""A model directory: config.json, model.safetensors, tokenizer.json, README.md, history.jsonl. Complete, and no pickle."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from headway.config.config import Config, write_atomically
from headway.errors import HeadwayError
from headway.files.atomic import whole
from headway.nn.layers.bitlinear import PER_BYTE
from headway.nn.transformer import Transformer
from headway.storage.tensor_file import SCALE
from headway.text import Tokenizers
from headway.translate.confidence import forget_calibration

WEIGHTS = "model.safetensors"
HARMLESS = 10**9  # so many parameters fit any memory: a config can be followed that far before its weights are checked


class Loaded(NamedTuple):
    config: Config
    model: Transformer
    tokenizers: Tokenizers


def load_model(folder: str | Path, device: torch.device | str = "cpu") -> Loaded:
    """A model as it was saved, ready to use."""
    folder = Path(folder)
    if not folder.is_dir():
        raise HeadwayError(f"there is no model directory {folder}. Train one: headway train … --out {folder}")
    if not (folder / "config.json").exists():
        raise HeadwayError(f"{folder} is not a model directory: it has no config.json.")
    config = Config.load(folder / "config.json")
    if not (folder / WEIGHTS).exists():
        raise HeadwayError(f"{folder} has no {WEIGHTS} yet: its training has not saved a model so far.")
    tokenizers = Tokenizers.load(folder / "tokenizer.json")
    for side, size, known in (
        ("target", config.model.vocabulary, tokenizers.target.size),
        ("source", config.model.source_vocabulary, tokenizers.source.size),
    ):
        if size != known:
            raise HeadwayError(
                f"{folder} does not fit together: its tokenizer.json knows {known} {side} tokens and its config.json "
                f"says {size}. Copy the whole directory anew."
            )
    weights = read_tensors(folder / WEIGHTS)
    held, wanted = sum(map(_weights_in, weights.values())), config.model.parameter_count()
    if held < wanted > HARMLESS:
        raise HeadwayError(
            f"{folder} does not fit together: its config.json describes a model of {wanted:,} parameters, and its "
            f"{WEIGHTS} holds {held:,}. Copy the whole directory anew."
        )
    model = Transformer(config.model)
    fill(model, weights, folder / WEIGHTS)
    return Loaded(config, model.to(device).eval(), tokenizers)


def save_model(folder: Path, config: Config, weights: Mapping[str, Tensor], tokenizers: Tokenizers, card: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    forget_calibration(folder)
    write_tensors(folder / WEIGHTS, weights)
    tokenizers.save(folder / "tokenizer.json")
    write_atomically(folder / "README.md", card)
    config.save(folder / "config.json")


def fill(model: Transformer, weights: Mapping[str, Tensor], path: Path) -> None:
    """Put weights into a model, and say in plain words when they are not its own."""
    own = model.state_dict()
    faults = [f"{name} is missing" for name in own if name not in weights]
    faults += [f"{name} belongs to another model" for name in weights if name not in own]
    faults += [
        f"{name} has the shape {tuple(weights[name].shape)} and not {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    if faults:
        raise HeadwayError(f"{path} does not fit its config.json: {faults[0]}. Copy both from the same model.")
    model.load_state_dict(dict(weights))


def _weights_in(tensor: Tensor) -> int:
    return tensor.numel() * (PER_BYTE if tensor.dtype == torch.uint8 else 1)


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return _whole({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except FileNotFoundError:
        raise HeadwayError(f"there is no file {path}.") from None
    except (SafetensorError, OSError):
        raise HeadwayError(f"{path} is damaged or is not a safetensors file. Copy it anew.") from None


def _whole(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Matrices that are stored in eight bits as what they stand for."""
    for name in [name for name in tensors if name.endswith(SCALE)]:
        matrix, scale = name.removesuffix(SCALE), tensors.pop(name)
        if matrix in tensors and tensors[matrix].shape[:1] == scale.shape:
            tensors[matrix] = tensors[matrix] * scale[:, None]
    return tensors


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    with whole(path) as partial:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, partial)


def average(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight, summed in float64."""
    first = weights[0]
    if any(tensor.dtype == torch.uint8 for tensor in first.values()):
        raise HeadwayError(
            "packed models cannot be averaged: the weights between two of theirs do not exist. Average those that they "
            "were packed from, and pack the result."
        )
    for other in weights[1:]:
        if other.keys() != first.keys() or any(other[name].shape != first[name].shape for name in first):
            raise HeadwayError("these models have different shapes, so they cannot be averaged.")
    return {
        name: (sum(model[name].double() for model in weights) / len(weights)).to(first[name].dtype)  # type: ignore[union-attr]
        for name in first
    }
