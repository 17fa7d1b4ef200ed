"""Checkpoints: what a training run needs to go on, one folder each, complete or absent."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.errors import HeadwayError
from headway.model_dir import WEIGHTS, read_tensors, write_tensors

STATE, TRAINING = "state.json", "training.safetensors"


class Checkpoint(NamedTuple):
    step: int
    folder: Path

    @property
    def weights(self) -> dict[str, Tensor]:
        return read_tensors(self.folder / WEIGHTS)

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / STATE).read_text()))

    @property
    def training(self) -> dict[str, Tensor]:
        return read_tensors(self.folder / TRAINING)


def checkpoints(out: Path) -> list[Checkpoint]:
    """All complete ones, oldest first."""
    folders = (out / "checkpoints").glob("step-*")
    found = [Checkpoint(int(folder.name.removeprefix("step-")), folder) for folder in folders]
    return sorted(found)


def save(
    out: Path, step: int, weights: dict[str, Tensor], training: dict[str, Tensor], state: dict[str, Any]
) -> Checkpoint:
    """Written under another name and renamed when whole."""
    folder = out / "checkpoints" / f"step-{step:08d}"
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    write_tensors(partial / WEIGHTS, weights)
    write_tensors(partial / TRAINING, training)
    (partial / STATE).write_text(json.dumps({"step": step, **state}, indent=2))
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)
    return Checkpoint(step, folder)


def prune(out: Path, last: int, best: set[int]) -> None:
    """Keep the newest and the best."""
    for checkpoint in checkpoints(out)[:-last]:
        if checkpoint.step not in best:
            shutil.rmtree(checkpoint.folder)


def optimiser_tensors(optimisers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """An optimiser's memory as named tensors, in the order of its parameters."""
    tensors = {}
    for number, optimiser in enumerate(optimisers):
        for index, entries in optimiser.state_dict()["state"].items():
            for name, value in entries.items():
                if value is not None:
                    tensors[f"optimiser.{number}.{index}.{name}"] = torch.as_tensor(value)
    return tensors


def restore_optimisers(optimisers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    for number, optimiser in enumerate(optimisers):
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            kind, *rest = key.split(".")
            if kind == "optimiser" and rest[0] == str(number):
                state.setdefault(int(rest[1]), {})[rest[2]] = value
        saved = optimiser.state_dict()
        known = sum(len(group["params"]) for group in saved["param_groups"])
        if any(index >= known for index in state):
            raise HeadwayError("this checkpoint belongs to another optimiser. Choose another --out.")
        optimiser.load_state_dict({"state": state, "param_groups": saved["param_groups"]})
