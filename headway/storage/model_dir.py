"""A model directory: load it, save it, average the weights of several.

    config.json  model.safetensors  tokenizer.json  README.md  [calibration.json  history.jsonl  checkpoints/]

It needs nothing beside it, and no file in it is a pickle."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor

from headway.config.config import Config
from headway.errors import HeadwayError
from headway.files.atomic import save_tensors_atomically, write_text_atomically
from headway.files.tensors import open_tensors
from headway.nn.layers.bitlinear import WEIGHTS_PER_BYTE
from headway.nn.transformer import Transformer
from headway.storage.calibration import delete_calibrations
from headway.storage.model_files import list_versions
from headway.storage.tensor_file import SCALE_SUFFIX
from headway.text.tokenizer.pair import Tokenizers

WEIGHTS_FILE = "model.safetensors"
MAX_LOAD_ATTEMPTS = 3
MAX_UNCHECKED_PARAMETERS = 10**9  # a model so large is built only if the weights file holds as many


class LoadedModel(NamedTuple):
    config: Config
    model: Transformer
    tokenizers: Tokenizers


def load_model(folder: str | Path, device: torch.device | str = "cpu", weights_file: Path | None = None) -> LoadedModel:
    """A model directory as a model in evaluation mode, with its config and tokenizers. weights_file: those of a
    checkpoint, in place of its own.

    If the directory is replaced meanwhile, it is read again: the files of two models do not fit together."""
    for _ in range(MAX_LOAD_ATTEMPTS - 1):
        versions = list_versions(folder)
        try:
            loaded = _load_model(Path(folder), device, weights_file)
        except HeadwayError:
            if list_versions(folder) == versions:
                raise
            continue
        if list_versions(folder) == versions:
            return loaded
    return _load_model(Path(folder), device, weights_file)


def _load_model(folder: Path, device: torch.device | str, weights_file: Path | None) -> LoadedModel:
    if not folder.is_dir():
        raise HeadwayError(f"there is no model directory {folder}. Train one: headway train … --out {folder}")
    if not (folder / "config.json").exists():
        raise HeadwayError(f"{folder} is not a model directory: it has no config.json.")
    config = Config.load(folder / "config.json")
    if (folder / "adapter.json").exists():
        raise HeadwayError(
            f"{folder} is an adapter, not a model: use it with --adapter, or make a model of it with headway merge."
        )
    if not (folder / WEIGHTS_FILE).exists():
        raise HeadwayError(f"{folder} has no {WEIGHTS_FILE}: its training has not saved a model yet.")
    tokenizers = Tokenizers.load(folder / "tokenizer.json")
    for side, size, known in (
        ("target", config.model.vocabulary, tokenizers.target.size),
        ("source", config.model.source_vocabulary, tokenizers.source.size),
    ):
        if size != known:
            raise HeadwayError(
                f"{folder} is inconsistent: its tokenizer.json has {known} {side} tokens, and its config.json says "
                f"{size}. Copy the whole directory again."
            )
    weights_file = weights_file or folder / WEIGHTS_FILE
    weights = read_tensors(weights_file)
    stored = sum(map(_count_weights, weights.values()))
    needed = config.model.parameter_count()
    if stored < needed > MAX_UNCHECKED_PARAMETERS:
        raise HeadwayError(
            f"{folder} is inconsistent: its config.json describes a model of {needed:,} parameters, and its "
            f"{WEIGHTS_FILE} holds {stored:,}. Copy the whole directory again."
        )
    model = Transformer(config.model)
    load_weights(model, weights, weights_file)
    return LoadedModel(config, model.to(device).eval(), tokenizers)


def save_model(folder: Path, config: Config, weights: Mapping[str, Tensor], tokenizers: Tokenizers, card: str) -> None:
    """Write a model directory. `card` is the text of its README.md."""
    folder.mkdir(parents=True, exist_ok=True)
    delete_calibrations(folder)
    write_tensors(folder / WEIGHTS_FILE, weights)
    tokenizers.save(folder / "tokenizer.json")
    named = card.encode("utf-8", "backslashreplace").decode()  # it may name a folder whose name is not UTF-8
    write_text_atomically(folder / "README.md", named)
    config.save(folder / "config.json")


def load_weights(model: Transformer, weights: Mapping[str, Tensor], path: Path) -> None:
    """Put weights into a model. `path` is the file they come from, for the error if they do not fit."""
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


def _count_weights(tensor: Tensor) -> int:
    return tensor.numel() * (WEIGHTS_PER_BYTE if tensor.dtype == torch.uint8 else 1)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; int8 matrices are dequantised."""
    try:
        with open_tensors(path, "pt") as file:
            return _dequantise({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except FileNotFoundError:
        raise HeadwayError(f"there is no file {path}.") from None
    except (SafetensorError, OSError):
        raise HeadwayError(f"{path} is damaged or not a safetensors file. Copy it again.") from None


def _dequantise(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """int8 matrices multiplied by the scales of their rows, which are dropped."""
    for name in [name for name in tensors if name.endswith(SCALE_SUFFIX)]:
        matrix = name.removesuffix(SCALE_SUFFIX)
        scale = tensors.pop(name)
        if matrix in tensors and tensors[matrix].shape[:1] == scale.shape:
            tensors[matrix] = tensors[matrix] * scale[:, None]
    return tensors


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_tensors_atomically(path, tensors)


def average_weights(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight, summed in float64."""
    first = weights[0]
    if any(tensor.dtype == torch.uint8 for tensor in first.values()):
        raise HeadwayError(
            "packed models cannot be averaged: there is nothing between two ternary weights. Average the models that "
            "they were packed from, then pack the result."
        )
    for other in weights[1:]:
        if other.keys() != first.keys() or any(other[name].shape != first[name].shape for name in first):
            raise HeadwayError("only models of the same architecture can be averaged: the shapes of these differ.")
    return {
        name: (sum(model[name].double() for model in weights) / len(weights)).to(first[name].dtype)  # type: ignore[union-attr]
        for name in first
    }
