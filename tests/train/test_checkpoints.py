"""Checkpoints are whole or absent, without pickle, and only the last and the best stay."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from safetensors import SafetensorError

from headway.errors import HeadwayError
from headway.train.checkpoints import OPTIONAL_STATE_FIELDS, list_checkpoints, prune_checkpoints, save_checkpoint

ONE = {"w": torch.arange(3.0)}
STATE = {"epoch": 2, "batch": 3, "seconds": 1.5, "stale": 0, "best": {7: -1.0}}


def test_saved_and_read_again(tmp_path: Path) -> None:
    made = save_checkpoint(tmp_path, 7, ONE, {"optimiser.0.0.step": torch.tensor(7)}, STATE)
    [found] = list_checkpoints(tmp_path)
    assert found == made
    assert found.step == 7
    assert torch.equal(found.weights["w"], ONE["w"])
    assert found.training["optimiser.0.0.step"].item() == 7
    assert found.state == {
        "step": 7,
        **STATE,
        **dict.fromkeys(OPTIONAL_STATE_FIELDS, 0.0),
    }  # as of a run that knew nothing of these


def test_no_folder_no_checkpoints(tmp_path: Path) -> None:
    assert list_checkpoints(tmp_path / "nowhere") == []


def test_they_are_sorted_by_step(tmp_path: Path) -> None:
    for step in (200, 30, 100_000_000, 4):
        save_checkpoint(tmp_path, step, ONE, {}, {})
    assert [found.step for found in list_checkpoints(tmp_path)] == [4, 30, 200, 100_000_000]


def test_a_half_written_one_does_not_count_and_is_replaced(tmp_path: Path) -> None:
    partial = tmp_path / "checkpoints" / ".step-00000009.partial"
    partial.mkdir(parents=True)
    (partial / "rubbish").write_text("half")
    assert list_checkpoints(tmp_path) == []
    save_checkpoint(tmp_path, 9, ONE, {}, {})
    assert not partial.exists()
    assert sorted(file.name for file in list_checkpoints(tmp_path)[0].folder.iterdir()) == [
        "model.safetensors",
        "state.json",
        "training.safetensors",
    ]


def test_the_same_step_is_written_over(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 9, ONE, {}, {**STATE, "epoch": 1})
    save_checkpoint(tmp_path, 9, {"w": torch.zeros(1)}, {}, STATE)
    [found] = list_checkpoints(tmp_path)
    assert found.state["epoch"] == 2
    assert found.weights["w"].shape == (1,)


def test_the_last_and_the_best_stay(tmp_path: Path) -> None:
    for step in range(1, 9):
        save_checkpoint(tmp_path, step, ONE, {}, {})
    prune_checkpoints(tmp_path, last=2, best={3, 5, 8})
    assert [found.step for found in list_checkpoints(tmp_path)] == [3, 5, 7, 8]


def test_the_state_is_plain_json(tmp_path: Path) -> None:
    made = save_checkpoint(tmp_path, 1, ONE, {}, {"best": {1: -2.5}})
    assert json.loads((made.folder / "state.json").read_text())["best"] == {"1": -2.5}


def test_a_disk_that_the_library_finds_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(HeadwayError) as caught:
        save_checkpoint(tmp_path, 3, {"a": torch.zeros(1)}, {}, {})
    path = tmp_path / "checkpoints" / ".step-00000003.partial" / "model.safetensors"
    assert str(caught.value) == (
        f"step 3 could not be saved to {tmp_path}: {path} cannot be written: No space left on device. "
        "There is no earlier checkpoint."
    )
    assert not path.parent.exists()
