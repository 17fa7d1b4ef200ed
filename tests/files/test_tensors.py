"""safetensors files by any name."""

import os
from pathlib import Path

import numpy as np
import pytest

from headway.files.atomic import save_tensors_atomically
from headway.files.tensors import is_utf8, open_tensors


@pytest.mark.parametrize("name", [b"plain", b"\xff\xfe", "größe".encode(), b"a \n b"])
def test_names_that_are_not_utf8(tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    path = folder / "a.safetensors"
    save_tensors_atomically(path, {"x": np.arange(5)})
    with open_tensors(path, "numpy") as file:
        assert file.get_tensor("x").tolist() == [0, 1, 2, 3, 4]
    assert is_utf8(path) == (name != b"\xff\xfe")
