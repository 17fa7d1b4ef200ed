"""What a training run left in its model directory beside the model: its log and its checkpoints. Needs no torch."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from headway.errors import HeadwayError

CHECKPOINT_FILES = ("model.safetensors", "training.safetensors", "state.json")


class StoredCheckpoint(NamedTuple):
    step: int
    folder: Path

    @property
    def weights_file(self) -> Path:
        return self.folder / CHECKPOINT_FILES[0]


def find_checkpoints(out: Path) -> list[StoredCheckpoint]:
    """All complete ones, oldest first."""
    found = []
    for folder in (out / "checkpoints").glob("step-*"):
        step = folder.name.removeprefix("step-")
        if step.isdecimal() and all((folder / name).exists() for name in CHECKPOINT_FILES):
            found.append(StoredCheckpoint(int(step), folder))
    return sorted(found)


def read_history(out: Path) -> list[dict[str, Any]]:
    """All entries, except a last line that was cut off when the machine went down."""
    path = out / "history.jsonl"
    try:
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        entries = [dict(json.loads(line)) for line in lines]
        if all(isinstance(entry["step"], int) and isinstance(entry["kind"], str) for entry in entries):
            return entries
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    raise HeadwayError(f"{path} is damaged. Move it away: training resumes without it.")


def read_losses(out: Path) -> dict[int, float]:
    """The loss on the validation text after each step at which it was measured."""
    entries = [entry for entry in read_history(out) if entry["kind"] == "validation"]
    return {entry["step"]: entry["loss"] for entry in entries if isinstance(entry.get("loss"), float)}
