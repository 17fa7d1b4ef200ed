"""Which engine without torch can run a stored model; those that torch would refuse, none of them runs."""

import dataclasses
import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headway.config.catalogue import CATALOGUE, find_entry
from headway.config.config import Config
from headway.config.objective_kinds import TASKS
from headway.decode.probe import probe_engines
from headway.decode.stored_config import (
    SUPPORTED_FIELDS,
    TRAIN_CHOICES,
    TRAIN_HIGHEST,
    TRAIN_LOWEST,
    TRAIN_SLOTS,
)
from headway.errors import ConfigError, HeadwayError
from headway.train.config import TrainConfig
from headway.translate.translator import load_translator

REFUSED = {
    "feedforward swiglu": {"output_norm"},
    "feedforward geglu": {"output_norm"},
    "feedforward geglu_tanh": {"output_norm"},
    "head logits": {"scale"},
    "mixer attention": {"qk_norm", "output_norm", "output_bias", "qkv_bias"},
    "config": {"packages"},
    "train": {"augmentation", "index", "index_fingerprint"},  # of no translator
}


def test_the_table_of_settings_is_that_of_the_config() -> None:
    nodes: dict[str, Any] = {"config": Config, "train": TrainConfig}
    for name in SUPPORTED_FIELDS:
        slot, _, kind = name.partition(" ")
        if kind:
            module, _, owner = find_entry(slot, kind).target.partition(":")
            nodes[name] = getattr(importlib.import_module(module), owner).Config
    for name, node in nodes.items():
        fields = {field.name for field in dataclasses.fields(node)} - {"kind"}
        supported = {field.rstrip("?") for field in SUPPORTED_FIELDS[name].split()}
        refused = fields - supported  # written only where a model has them
        assert supported <= fields and refused <= REFUSED.get(name, set()), name
    kinds = {f"{entry.slot} {entry.kind}" for entry in CATALOGUE if entry.slot in (*TRAIN_SLOTS, "tokenizer")}
    assert (
        kinds - {f"objective {kind}" for kind in ("causal", "masked", "permutation", *TASKS)} <= SUPPORTED_FIELDS.keys()
    )


def test_the_ranges_of_training_settings_are_those_of_the_config() -> None:
    for field in dataclasses.fields(TrainConfig):
        if field.name in TRAIN_CHOICES:
            assert str(TRAIN_CHOICES[field.name])[1:-1] in str(field.type), field.name
        elif field.name not in TRAIN_SLOTS and field.name not in REFUSED["train"]:
            assert field.metadata["low"] == TRAIN_LOWEST.get(field.name, 0), field.name
            assert field.metadata["high"] == TRAIN_HIGHEST.get(field.name), field.name


def change(table: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *parents, last = path.split(".")
    node: Any = table
    for parent in parents:
        node = node[int(parent) if parent.isdigit() else parent]
    node[last] = value
    return table


@pytest.mark.parametrize(("path", "value"), [
    ("new", 1), ("train.new", 1), ("train.optimiser.new", 1), ("train.objective.new", 1), ("tokenizer.new", 1),
    ("search.new", 1), ("model.new", 1), ("model.encoder.new", 1), ("model.encoder.mixer.0.new", 1),
    ("model.norm.new", 1), ("train.schedule", {"kind": "unheard"}), ("vocabularies", "many"),
    ("model.dropout", "much"), ("model.dropout", 3), ("model.encoder.mixer.0.kernel", "quick"),
    ("model.embedding.scale", "yes"), ("model.encoder.mixer.0.bias", 1), ("train", []),
    ("train.seed", -1), ("train.seed", True), ("train.ema", 2), ("train.metric", "taste"), ("train.max_tokens", 1)
])  # fmt: skip
@pytest.mark.parametrize("engine", ["native", "ctranslate2"])
def test_what_torch_refuses_every_engine_refuses(
    translator_dir: Path, tmp_path: Path, path: str, value: Any, engine: Any
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(translator_dir, folder, ignore=shutil.ignore_patterns("checkpoints"))
    assert probe_engines([folder], "cpu", engine, "int8").model is not None
    table = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(change(table, path, value)))
    with pytest.raises(ConfigError):
        load_translator(folder, device="cpu", engine="torch")
    with pytest.raises(HeadwayError, match=f"engine {engine} cannot be used: "):
        load_translator(folder, device="cpu", engine=engine, compute="int8")
    with pytest.raises(ConfigError):  # which torch words
        load_translator(folder, device="cpu", compute="int8")


def test_what_the_kernels_do_not_know(translator_dir: Path, train_toy: Any) -> None:
    short = ["--set", "train.steps=10", "--set", "train.validate_every=10"]
    folder = train_toy("--set", "model.encoder.feedforward=gelu", *short)
    probe = probe_engines([folder], "cpu", compute="int8")
    assert probe.reasons[0] == ("native", "there are no kernels for feedforward gelu")
    with pytest.raises(HeadwayError, match="engine native cannot be used: it computes in int8"):
        load_translator(translator_dir, device="cpu", engine="native", compute="float32")
