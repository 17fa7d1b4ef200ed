"""Checkpoints: what a training run needs to go on, one folder each, complete or absent.

One training at a time writes to a directory."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.errors import HeadwayError
from headway.storage.model_dir import WEIGHTS, read_tensors, write_tensors
from headway.storage.summary import read_outline

STATE, TRAINING = "state.json", "training.safetensors"
NUMBERS = {"step": int, "epoch": int, "batch": int, "seconds": float, "stale": int}
LATER = {"share": float, "warm_epochs": float, "warm_seconds": float}  # which older checkpoints have not


class Checkpoint(NamedTuple):
    step: int
    folder: Path

    @property
    def weights(self) -> dict[str, Tensor]:
        return read_tensors(self.folder / WEIGHTS)

    @property
    def training(self) -> dict[str, Tensor]:
        return read_tensors(self.folder / TRAINING)

    @property
    def state(self) -> dict[str, Any]:
        path = self.folder / STATE
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            state = {**dict.fromkeys(LATER, 0.0), **state}
            for name, kind in (NUMBERS | LATER).items():
                state[name] = kind(state[name])
                if not 0 <= state[name] < 2**53:
                    raise ValueError
            state["best"] = {int(step): float(score) for step, score in state["best"].items()}
            if "lines" in state:
                state["lines"] = {name: int(value) for name, value in state["lines"].items()}
                if any(not 0 < value < 2**53 for value in state["lines"].values()):
                    raise ValueError
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise HeadwayError(
                f"{path} is damaged. Delete {self.folder} to go on from the checkpoint before it."
            ) from None
        return dict(state)

    def read(self) -> "Saved":
        return Saved(self.folder, self.state, self.weights, self.training)


@dataclass(frozen=True)
class Saved:
    """All that a checkpoint holds."""

    folder: Path
    state: dict[str, Any]
    weights: dict[str, Tensor]
    training: dict[str, Tensor]

    @property
    def position(self) -> dict[str, Any]:
        return {name: self.state[name] for name in (*NUMBERS, *LATER, "best")}

    def random(self, kind: str, rank: int, size: int) -> Tensor | None:
        """The random state of one of so many processes, if there were as many."""
        saved = [name for name in self.training if name.startswith(f"random.{kind}.")]
        return self.training.get(f"random.{kind}.{rank}") if len(saved) == size else None

    def carried(self, rank: int, size: int) -> dict[str, Tensor]:
        """What the rows of one of so many processes remembered, if there were as many."""
        found: dict[str, dict[str, Tensor]] = {}
        for name, tensor in self.training.items():
            kind, _, rest = name.partition(".")
            if kind == "carried":
                owner, _, rest = rest.partition(".")
                found.setdefault(owner, {})[rest] = tensor
        return found.get(str(rank), {}) if len(found) == size else {}


def checkpoints(out: Path) -> list[Checkpoint]:
    """All complete ones, oldest first."""
    found = []
    for folder in (out / "checkpoints").glob("step-*"):
        step = folder.name.removeprefix("step-")
        if step.isdecimal() and all((folder / name).exists() for name in (WEIGHTS, TRAINING, STATE)):
            found.append(Checkpoint(int(step), folder))
    return sorted(found)


def newest(out: Path, notes: list[str]) -> Saved | None:
    """The newest that can be read; what is said of those that cannot goes to `notes`."""
    found = checkpoints(out)
    faults: list[HeadwayError] = []
    for checkpoint in reversed(found):
        try:
            saved = checkpoint.read()
        except HeadwayError as error:
            faults.append(error)
            continue
        notes += [f"{fault} Going on from step {checkpoint.step} instead." for fault in faults]
        return saved
    if faults:
        raise faults[0]
    return None


def save(
    out: Path, step: int, weights: dict[str, Tensor], training: dict[str, Tensor], state: dict[str, Any]
) -> Checkpoint:
    """Written under another name and renamed when whole. Where a damaged one was, it gives way at the last moment."""
    folder = out / "checkpoints" / f"step-{step:08d}"
    refuse_full(out, _bytes(weights) + _bytes(training), f"step {step}")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        write_tensors(partial / WEIGHTS, weights)
        write_tensors(partial / TRAINING, training)
        (partial / STATE).write_text(json.dumps({"step": step, **state}, indent=2))
        for path in (*partial.iterdir(), partial):
            flush(path)
    except (OSError, HeadwayError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        reason = getattr(error, "strerror", None) or str(error).removesuffix(".")
        raise HeadwayError(f"step {step} could not be saved to {out}: {reason}. {_kept(out)}") from None
    if folder.exists():
        remove(folder)
    os.replace(partial, folder)
    flush(folder.parent)
    return Checkpoint(step, folder)


def flush(path: Path) -> None:
    """Onto the disk itself, so that not even a power cut leaves half of it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refuse_taken(out: Path, overwrite: bool, weights: str) -> None:
    """A folder that a model is to be written to, and that holds something. weights: what it would have instead of its own."""
    if (out / "checkpoints").exists():
        raise HeadwayError(f"{out} holds a training, which could not go on from {weights}. Choose another --out.")
    if not overwrite and out.is_dir() and any(out.iterdir()):
        raise HeadwayError(f"{out} is not empty. Choose another --out, or write over it with --overwrite.")


def refuse_strange(out: Path) -> None:
    """Before anything is read: a folder of the user's own, with files of the names that a training writes."""
    if (out / "checkpoints").exists() or read_outline(out) is not None:
        return  # a run that goes on, or a model, of which the training itself says that it cannot go on
    found = [name for name in ("README.md", "config.json", "tokenizer.json", WEIGHTS) if (out / name).exists()]
    if found:
        raise HeadwayError(
            f"{out} holds no training, and {', '.join(found)}, which a training would write over. Choose another --out."
        )


def refuse_full_at_first(out: Path, model: torch.nn.Module, optimisers: list[torch.optim.Optimizer]) -> None:
    """Before the first step, as far as can be told by then: an optimiser with betas will remember a tensor for each."""
    remembered = [
        parameter.numel() * parameter.element_size() * len(group.get("betas", ()))
        for optimiser in optimisers
        for group in optimiser.param_groups
        for parameter in group["params"]
    ]
    refuse_full(out, _bytes(model.state_dict()) + sum(remembered), "a checkpoint")


def refuse_full(out: Path, needed: int, what: str) -> None:
    """Stop before the disk is full: a checkpoint, the model beside it and some room must fit."""
    free, wanted = shutil.disk_usage(out).free, 2 * needed + (32 << 20)
    if free < wanted:
        raise HeadwayError(
            f"the disk is nearly full: {free >> 20:,} MB are free at {out}, and saving {what} takes up to "
            f"{wanted >> 20:,} MB. Make room, and give the same command again. {_kept(out)}"
        )


def _kept(out: Path) -> str:
    kept = checkpoints(out)
    return f"What is there: step {kept[-1].step}." if kept else "Nothing was saved before."


def _bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def remove(folder: Path) -> None:
    """Renamed first: what is half deleted must not look like a checkpoint."""
    doomed = folder.with_name(f".{folder.name}.deleted")
    shutil.rmtree(doomed, ignore_errors=True)
    os.replace(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def prune(out: Path, last: int, best: set[int]) -> None:
    """Keep the newest and the best; clear away what a killed process left behind."""
    for checkpoint in checkpoints(out)[:-last]:
        if checkpoint.step not in best:
            remove(checkpoint.folder)
    for ending in ("partial", "deleted"):
        for left in (out / "checkpoints").glob(f".step-*.{ending}"):
            shutil.rmtree(left, ignore_errors=True)


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


@contextmanager
def only_one(out: Path) -> Iterator[None]:
    """Refuses where another is at work. The lock is the process's: however that ends, it is gone."""
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    with (out / "checkpoints" / "training.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeadwayError(
                f"another training is writing to {out}. Wait for its end, stop it, or choose another --out."
            ) from None
        yield
