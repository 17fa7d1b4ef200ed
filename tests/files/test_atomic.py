"""Files and directories are complete or absent, and what stood there before survives a failure."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from headway.errors import HeadwayError
from headway.files.atomic import atomic_directory, atomic_file, save_tensors_atomically, write_text_atomically


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_text_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_text_atomically(path, "new \ud800")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["x"]
    write_text_atomically(path, "new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["x"]


def test_a_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "x") as partial:
        partial.write_text("half")
        assert names(tmp_path) == [".x.partial"]
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("tensor", [np.arange(3.0), torch.arange(6.0, requires_grad=True)[::2] / 2])
def test_tensors_of_both_libraries(tmp_path: Path, tensor: np.ndarray | torch.Tensor) -> None:
    path = tmp_path / "x.safetensors"
    save_tensors_atomically(path, {"a": tensor}, {"about": "me"})
    assert load_file(path)["a"].tolist() == [0.0, 1.0, 2.0]
    assert path.stat().st_mode & 0o777 == 0o644
    assert names(tmp_path) == ["x.safetensors"]


def test_tensors_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"none/x cannot be written: No such file or directory\.$"):
        save_tensors_atomically(tmp_path / "none" / "x", {"a": np.zeros(1)})


@pytest.mark.parametrize("per_process", [True, False])
def test_a_directory_appears_when_the_block_ends(tmp_path: Path, per_process: bool) -> None:
    folder = tmp_path / "a" / "x"
    name = f".x.{os.getpid()}.partial" if per_process else ".x.partial"
    left = folder.with_name(name)
    left.mkdir(parents=True)
    (left / "rubbish").touch()
    with atomic_directory(folder, per_process=per_process) as partial:
        assert partial == left
        assert names(partial) == []
        (partial / "file").touch()
    assert names(tmp_path / "a") == ["x"]
    assert names(folder) == ["file"]


def test_a_directory_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_directory(tmp_path / "x") as partial:
        (partial / "file").touch()
        raise KeyboardInterrupt
    assert names(tmp_path) == []


@pytest.mark.parametrize("exist_ok", [True, False])
def test_another_process_was_faster(tmp_path: Path, exist_ok: bool) -> None:
    folder = tmp_path / "x"

    def fill() -> None:
        with atomic_directory(folder, exist_ok=exist_ok) as partial:
            (partial / "ours").touch()
            folder.mkdir()
            (folder / "theirs").touch()

    if exist_ok:
        fill()
    else:
        with pytest.raises(OSError, match="not empty"):
            fill()
    assert names(tmp_path) == ["x"]
    assert names(folder) == ["theirs"]
