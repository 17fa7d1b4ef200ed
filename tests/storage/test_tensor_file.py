"""Weights as they lie in their file, and weights in eight bits."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from headway.errors import HeadwayError
from headway.nn.ops.int8_rows import dequantise_rows, quantise_rows
from headway.storage.tensor_file import TensorFile, read_weights


def test_eight_bits_are_near_and_symmetric() -> None:
    weight = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    weight[2] = 0
    rows, scale = quantise_rows(weight)
    assert (rows.dtype, scale.dtype, scale.shape) == (np.int8, np.float32, (5,))
    assert rows.min() >= -127
    assert (np.abs(rows[[0, 1, 3, 4]]).max(axis=1) == 127).all()
    assert scale[2] == 1 and not rows[2].any()
    assert np.abs(dequantise_rows(rows, scale) - weight).max() <= scale.max() / 2 * 1.001
    assert (quantise_rows(-weight)[0] == -rows).all()


def test_tensors_are_read_as_they_were_written(tmp_path: Path) -> None:
    wide = torch.randn(3, 4)
    save_file(
        {"a": wide, "b": torch.arange(3), "c": torch.zeros(2, 2, dtype=torch.int8), "c.row_scale": torch.ones(2)},
        tmp_path / "w",
    )
    stored = TensorFile(tmp_path / "w")
    assert (stored.array("a") == wide.numpy()).all()
    assert stored.entries["b"].shape == (3,)
    assert stored.is_int8
    read = read_weights(tmp_path / "w")
    assert set(read) == {"a", "b", "c"}
    rows, scale = read["c"]
    assert rows.shape == (2, 2) and (scale == 1).all()


@pytest.mark.parametrize("content", [
    b"", b"short", b"\xff" * 64, (2).to_bytes(8, "little") + b"[]", (5).to_bytes(8, "little") + b"{bad}",
    (61).to_bytes(8, "little") + b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}' + b"\0" * 4,
    (63).to_bytes(8, "little") + b'{"a": {"dtype": "F32", "shape": [-2], "data_offsets": [8, 0]}}  ' + b"\0" * 8,
])  # fmt: skip
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(HeadwayError, match="w is damaged or not a safetensors file. Copy it again"):
        TensorFile(tmp_path / "w")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="there is no file"):
        TensorFile(tmp_path / "w")
