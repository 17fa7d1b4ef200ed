"""Checkpoints: everything that a run needs to resume, written atomically, one folder each.

OUT/checkpoints/step-00001000/model.safetensors     weights (averaged, with train.ema)
                              training.safetensors  optimiser state, random state, carried state, raw weights
                              state.json            TrainState, and which text and batches it belongs to
OUT/checkpoints/training.lock                       held by the one process that trains in OUT
"""

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
from headway.files.atomic import atomic_directory
from headway.storage.model_dir import WEIGHTS_FILE, read_tensors, write_tensors
from headway.storage.summary import read_summary
from headway.storage.training_history import CHECKPOINT_FILES, find_checkpoints

TRAINING_FILE, STATE_FILE = CHECKPOINT_FILES[1:]
STATE_FIELDS = {"step": int, "epoch": int, "batch": int, "seconds": float, "stale": int}
OPTIONAL_STATE_FIELDS = {"share": float, "warm_epochs": float, "warm_seconds": float}  # missing in old checkpoints
FREE_DISK_RESERVE = 32 << 20  # bytes that must stay free


class Checkpoint(NamedTuple):
    step: int
    folder: Path

    @property
    def weights(self) -> dict[str, Tensor]:
        return read_tensors(self.folder / WEIGHTS_FILE)

    @property
    def training(self) -> dict[str, Tensor]:
        return read_tensors(self.folder / TRAINING_FILE)

    @property
    def state(self) -> dict[str, Any]:
        path = self.folder / STATE_FILE
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            state = {**dict.fromkeys(OPTIONAL_STATE_FIELDS, 0.0), **state}
            for name, kind in (STATE_FIELDS | OPTIONAL_STATE_FIELDS).items():
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
                f"{path} is damaged. Delete {self.folder} to resume from the checkpoint before it."
            ) from None
        return dict(state)

    def read(self) -> "CheckpointContents":
        return CheckpointContents(self.folder, self.state, self.weights, self.training)


@dataclass(frozen=True)
class CheckpointContents:
    folder: Path
    state: dict[str, Any]
    weights: dict[str, Tensor]
    training: dict[str, Tensor]

    @property
    def train_state(self) -> dict[str, Any]:
        """The fields of TrainState."""
        return {name: self.state[name] for name in (*STATE_FIELDS, *OPTIONAL_STATE_FIELDS, "best")}

    def random_state(self, kind: str, rank: int, size: int) -> Tensor | None:
        """That of one of `size` processes, if the checkpoint was written by as many."""
        saved = [name for name in self.training if name.startswith(f"random.{kind}.")]
        return self.training.get(f"random.{kind}.{rank}") if len(saved) == size else None

    def carried_state(self, rank: int, size: int) -> dict[str, Tensor]:
        """That of one of `size` processes, if the checkpoint was written by as many."""
        by_rank: dict[str, dict[str, Tensor]] = {}
        for name, tensor in self.training.items():
            kind, _, rest = name.partition(".")
            if kind == "carried":
                owner, _, rest = rest.partition(".")
                by_rank.setdefault(owner, {})[rest] = tensor
        return by_rank.get(str(rank), {}) if len(by_rank) == size else {}


# ---- Reading and writing


def list_checkpoints(out: Path) -> list[Checkpoint]:
    """All complete ones, oldest first."""
    return [Checkpoint(*found) for found in find_checkpoints(out)]


def read_newest(out: Path, notes: list[str]) -> CheckpointContents | None:
    """The newest readable checkpoint, None if there is none. Adds a note for each damaged one that was passed over."""
    errors: list[HeadwayError] = []
    for checkpoint in reversed(list_checkpoints(out)):
        try:
            saved = checkpoint.read()
        except HeadwayError as error:
            errors.append(error)
            continue
        notes += [f"{error} Resuming from step {checkpoint.step} instead." for error in errors]
        return saved
    if errors:
        raise errors[0]
    return None


def save_checkpoint(
    out: Path, step: int, weights: dict[str, Tensor], training: dict[str, Tensor], state: dict[str, Any]
) -> Checkpoint:
    """Write a checkpoint atomically, in place of a damaged one of the same step if there is one."""
    folder = out / "checkpoints" / f"step-{step:08d}"
    refuse_full_disk(out, _count_bytes(weights) + _count_bytes(training), f"step {step}")
    try:
        with atomic_directory(folder, per_process=False) as partial:
            write_tensors(partial / WEIGHTS_FILE, weights)
            write_tensors(partial / TRAINING_FILE, training)
            (partial / STATE_FILE).write_text(json.dumps({"step": step, **state}, indent=2))
            for path in (*partial.iterdir(), partial):
                fsync_path(path)
            if folder.exists():
                remove_checkpoint(folder)
    except (OSError, HeadwayError) as error:
        reason = getattr(error, "strerror", None) or str(error).removesuffix(".")
        raise HeadwayError(f"step {step} could not be saved to {out}: {reason}. {_describe_newest(out)}") from None
    fsync_path(folder.parent)
    return Checkpoint(step, folder)


def fsync_path(path: Path) -> None:
    """Flush to the disk itself, so that even a power cut leaves it complete."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_checkpoint(folder: Path) -> None:
    """Renamed first: what is half deleted must not look like a checkpoint."""
    doomed = folder.with_name(f".{folder.name}.deleted")
    shutil.rmtree(doomed, ignore_errors=True)
    os.replace(folder, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def prune_checkpoints(out: Path, last: int, best: set[int]) -> None:
    """Keep the newest and the best; also delete what a killed process left behind."""
    for checkpoint in list_checkpoints(out)[:-last]:
        if checkpoint.step not in best:
            remove_checkpoint(checkpoint.folder)
    for ending in ("partial", "deleted"):
        for leftover in (out / "checkpoints").glob(f".step-*.{ending}"):
            shutil.rmtree(leftover, ignore_errors=True)


def optimiser_tensors(optimisers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """The state of optimisers as named tensors, in the order of their parameters."""
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
        current = optimiser.state_dict()
        parameter_count = sum(len(group["params"]) for group in current["param_groups"])
        if any(index >= parameter_count for index in state):
            raise HeadwayError("this checkpoint belongs to another optimiser. Choose another --out.")
        optimiser.load_state_dict({"state": state, "param_groups": current["param_groups"]})


# ---- Checks of the output directory, and its lock


@contextmanager
def lock_directory(out: Path) -> Iterator[None]:
    """Hold the lock of a directory, or raise if another process trains in it. The system releases the lock however the
    process ends."""
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    with (out / "checkpoints" / "training.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeadwayError(
                f"another training run is writing to {out}. Wait until it ends, stop it, or choose another --out."
            ) from None
        yield


def refuse_nonempty(out: Path, overwrite: bool, weights: str) -> None:
    """Raise if a model is to be written to a folder that is in use. `weights`: what kind would be written."""
    if (out / "checkpoints").exists():
        raise HeadwayError(f"{out} holds a training run, which cannot resume from {weights}. Choose another --out.")
    if not overwrite and out.is_dir() and any(out.iterdir()):
        raise HeadwayError(f"{out} is not empty. Choose another --out, or overwrite it with --overwrite.")


def refuse_foreign_files(out: Path) -> None:
    """Raise, before anything is read, if training would overwrite files that it did not write."""
    if (out / "checkpoints").exists() or read_summary(out) is not None:
        return  # a run to resume; or a model without checkpoints, which TrainingRun refuses
    found = [name for name in ("README.md", "config.json", "tokenizer.json", WEIGHTS_FILE) if (out / name).exists()]
    if found:
        raise HeadwayError(
            f"{out} holds no training run, but {', '.join(found)}, which training would overwrite. Choose another "
            "--out."
        )


def refuse_full_disk_at_start(out: Path, model: torch.nn.Module, optimisers: list[torch.optim.Optimizer]) -> None:
    """Before the first step, by an estimate of the optimiser's state: one tensor for each of its betas."""
    optimiser_bytes = [
        parameter.numel() * parameter.element_size() * len(group.get("betas", ()))
        for optimiser in optimisers
        for group in optimiser.param_groups
        for parameter in group["params"]
    ]
    refuse_full_disk(out, _count_bytes(model.state_dict()) + sum(optimiser_bytes), "a checkpoint")


def refuse_full_disk(out: Path, checkpoint_bytes: int, what: str) -> None:
    """Raise unless a checkpoint, the model beside it and a reserve fit the disk."""
    free = shutil.disk_usage(out).free
    needed = 2 * checkpoint_bytes + FREE_DISK_RESERVE
    if free < needed:
        raise HeadwayError(
            f"the disk is nearly full: {free >> 20:,} MB are free at {out}, and saving {what} needs up to "
            f"{needed >> 20:,} MB. Free some space and run the same command again. {_describe_newest(out)}"
        )


def _describe_newest(out: Path) -> str:
    saved = list_checkpoints(out)
    return f"The last checkpoint is step {saved[-1].step}." if saved else "There is no earlier checkpoint."


def _count_bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
