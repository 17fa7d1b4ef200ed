"""Import a model: read its architecture, convert its weights tensor by tensor, write a model directory."""

import fnmatch
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from headway.config.config import Config, read_config
from headway.config.own_kinds import reading_stored
from headway.convert.architecture import Architecture, ConversionError, Json
from headway.convert.readings import choose_reading
from headway.convert.streaming import TensorHeader, write_tensor_stream
from headway.convert.tensor_rules import TensorRule, read_tensor
from headway.convert.trial import try_model
from headway.convert.weight_files import WeightSource
from headway.errors import ConfigError, HeadwayError
from headway.files.atomic import atomic_directory, write_text_atomically
from headway.nn.transformer import Transformer
from headway.storage.calibration import delete_calibrations
from headway.storage.model_dir import WEIGHTS_FILE
from headway.text.tokenizer.pair import Tokenizers


@dataclass(frozen=True, kw_only=True)
class ImportReport:
    """What an import found, checked and lost."""

    family: str
    objective: str  # the use of its architecture, or "embedding" where it makes vectors of texts
    parameters: int
    dtype: str  # of the weights
    vocabulary: int  # of the target
    source_languages: tuple[str, ...]
    target_languages: tuple[str, ...]
    checked: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ImportPlan:
    """A model that is ready to be written: everything is checked, nothing is read yet but headers."""

    architecture: Architecture
    weights: WeightSource
    tokenizers: Tokenizers
    source_languages: tuple[str, ...] = ()
    target_languages: tuple[str, ...] = ()
    card: str = ""
    checked: tuple[str, ...] = ()

    def write(self, out: Path, overwrite: bool = False) -> ImportReport:
        """Write the model directory `out`. overwrite: it may exist; its model is replaced, other files stay."""
        architecture, weights = choose_reading(self.architecture, self.weights)
        config = make_config(replace(self, architecture=architecture))
        headers = plan_tensors(architecture, weights, config)
        rules = {rule.ours: rule for rule in architecture.rules}
        final = out.with_name(f".{out.name}.imported") if overwrite and out.exists() else out
        with atomic_directory(final) as partial:
            write_tensor_stream(
                partial / WEIGHTS_FILE, headers, convert_tensors(weights, [rules[h.name] for h in headers])
            )
            self.tokenizers.save(partial / "tokenizer.json")
            named = self.card.encode("utf-8", "backslashreplace").decode()  # it may name a folder that is not UTF-8
            write_text_atomically(partial / "README.md", named)
            config.save(partial / "config.json")
            tried = try_model(partial)
        if final != out:
            move_model(final, out)
        return ImportReport(
            family=self.architecture.family,
            objective=self._describe_use(config),
            parameters=config.model.parameter_count(),
            dtype=str(headers[0].dtype).removeprefix("torch."),
            vocabulary=self.tokenizers.target.size,
            source_languages=self.source_languages,
            target_languages=self.target_languages,
            checked=(*self.checked, f"{len(headers)} tensors: names and shapes are those of the config", tried),
            lost=architecture.lost,
        )

    def _describe_use(self, config: Config) -> str:
        makes_vectors = config.model.head.kind == "embedding" and config.model.encoder.frontend is None
        return "embedding" if makes_vectors else self.architecture.use


def move_model(folder: Path, out: Path) -> None:
    """Put the files of one model in place of another's."""
    delete_calibrations(out)
    for file in sorted(folder.iterdir()):
        os.replace(file, out / file.name)
    folder.rmdir()


def make_config(plan: ImportPlan) -> Config:
    """The config of the imported model, with the sizes of its vocabularies."""
    tokenizers = plan.tokenizers
    model: Json = {**plan.architecture.model, "vocabulary": tokenizers.target.size}
    if plan.architecture.objective == "translation":
        model["source_vocabulary"] = tokenizers.source.size
    table = {
        "source_languages": list(plan.source_languages),
        "target_languages": list(plan.target_languages),
        "labels": list(plan.architecture.labels) or None,
        "tokenizer": tokenizers.target.kind,
        "vocabularies": "shared" if tokenizers.shared else "separate",
        "model": model,
        "train": make_train_table(plan.architecture),
        "search": plan.architecture.search,
    }
    try:
        with reading_stored():  # what a downloaded file says must import nothing
            return read_config(table)
    except ConfigError as error:
        raise ConversionError(f"this {plan.architecture.family} model cannot be built: {error}") from None


def make_train_table(architecture: Architecture) -> Json:
    """What a config says of training, for an imported model that is trained further."""
    objective = {"kind": architecture.objective, **architecture.objective_settings}
    return {"objective": objective, "max_tokens": architecture.max_tokens}


def plan_tensors(architecture: Architecture, weights: WeightSource, config: Config) -> list[TensorHeader]:
    """The tensors to write. Raises HeadwayError unless the rules give every tensor of the model exactly once, in its
    shape, and leave none of theirs over."""
    shapes = weights.shapes()
    rules = {rule.ours: rule for rule in architecture.rules}
    if missing := next((rule.theirs for rule in rules.values() if rule.theirs not in shapes), ""):
        raise HeadwayError(f"the tensor {missing} is missing in the weights. Download the whole model again.")
    own = list_shapes(config)
    if wrong := sorted(own.keys() ^ rules.keys()):
        raise ConversionError(f"{architecture.family}: no rule gives exactly the tensor {wrong[0]} of the model.")
    headers = []
    for name, shape in own.items():
        rule = rules[name]
        found = rule.shape(shapes[rule.theirs])
        if found != shape:
            raise HeadwayError(
                f"the tensor {rule.theirs} has the shape {shapes[rule.theirs]}, which does not fit the model's "
                f"config.json: {name} is {shape} there and would be {found}. Download the model again."
            )
        headers.append(TensorHeader(name, store_dtype(weights.dtype(rule.theirs)), shape))
    used = {rule.theirs for rule in rules.values()}
    unused = [name for pattern in architecture.unused for name in fnmatch.filter(shapes, pattern)]
    left = sorted(shapes.keys() - used - set(unused))
    if left:
        raise ConversionError(
            f"the weights hold the tensor {left[0]} (one of {len(left)}), which a {architecture.family} model of "
            "Headway has no place for: it would be lost."
        )
    return headers


def store_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type in which a tensor is stored: its own, if it is a float that torch computes with, or bytes (BitNet's
    packed weights)."""
    return dtype if dtype in (torch.float32, torch.float16, torch.bfloat16, torch.uint8) else torch.float32


def list_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The tensors of a model, without allocating them."""
    with torch.device("meta"):
        model = Transformer(config.model)
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def convert_tensors(weights: WeightSource, rules: Sequence[TensorRule]) -> Iterator[Tensor]:
    """Our tensors, in the order of these rules, one in memory at a time."""
    for rule in rules:
        tensor = read_tensor(rule, weights.read(rule.theirs))
        yield tensor.to(store_dtype(tensor.dtype))
