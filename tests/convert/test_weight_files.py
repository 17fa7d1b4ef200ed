"""Weight files: read tensor by tensor, and nothing but tensors; written as a stream."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from headway.convert.streaming import TensorHeader, write_tensor_stream
from headway.convert.weight_files import RenamedSource, SafetensorsSource, TensorsSource, count_weights, open_weights
from headway.errors import HeadwayError

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3, dtype=torch.bfloat16)}


def test_one_file_or_several_hold_the_same(tmp_path: Path) -> None:
    whole, parts, pickled = tmp_path / "whole", tmp_path / "parts", tmp_path / "pickled"
    for folder in (whole, parts, pickled):
        folder.mkdir()
    save_file(TENSORS, whole / "model.safetensors")
    save_file({"a": TENSORS["a"]}, parts / "model-00001-of-00002.safetensors")
    save_file({"b": TENSORS["b"]}, parts / "model-00002-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (parts / "model.safetensors.index.json").write_text(json.dumps(index))
    torch.save(TENSORS, pickled / "pytorch_model.bin")
    for folder in (whole, parts, pickled):
        source = open_weights(folder, allow_pickle=True)
        assert source.shapes() == {"a": (2, 3), "b": (3,)}
        assert source.dtype("b") == torch.bfloat16
        assert torch.equal(source.read("a"), TENSORS["a"])
        assert count_weights(source) == 9


def test_several_pickles_are_read_by_their_index(tmp_path: Path) -> None:
    torch.save({"a": TENSORS["a"]}, tmp_path / "one.bin")
    torch.save({"b": TENSORS["b"]}, tmp_path / "two.bin", _use_new_zipfile_serialization=False)
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": "one.bin", "b": "two.bin"}}))
    assert open_weights(tmp_path, allow_pickle=True).shapes() == {"a": (2, 3), "b": (3,)}


def test_tensors_can_have_other_names() -> None:
    renamed = RenamedSource(TensorsSource(TENSORS), {"new": "a"})
    assert renamed.shapes() == {"new": (2, 3)}
    assert renamed.dtype("new") == torch.float32
    assert torch.equal(renamed.read("new"), TENSORS["a"])


def test_a_stream_is_a_safetensors_file(tmp_path: Path) -> None:
    headers = [TensorHeader(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in TENSORS.items()]
    write_tensor_stream(tmp_path / "out.safetensors", headers, iter(TENSORS.values()))
    read = load_file(tmp_path / "out.safetensors")
    assert all(torch.equal(read[name], tensor) for name, tensor in TENSORS.items())
    with pytest.raises(HeadwayError, match="cannot be written: No such file"):
        write_tensor_stream(tmp_path / "nowhere" / "out.safetensors", headers, iter(TENSORS.values()))


class Shell:
    def __reduce__(self) -> Any:
        return os.system, ("exit 1",)


def test_what_is_no_weights_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="has no weights: neither"):
        open_weights(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    for damaged in ("{", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', "[" * 100_000):
        index.write_text(damaged)
        with pytest.raises(HeadwayError, match="is damaged or incomplete"):
            open_weights(tmp_path)
    for outside in ("../model.safetensors", "/etc/passwd", "sub/model.safetensors"):
        index.write_text(json.dumps({"weight_map": {"a": outside}}))
        with pytest.raises(HeadwayError, match="outside of its folder"):
            open_weights(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    with pytest.raises(HeadwayError, match="is missing. Download the whole model"):
        open_weights(tmp_path)


def test_a_file_that_shrinks_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({**TENSORS, "none": torch.zeros(0, 3)}, path)
    source = SafetensorsSource([path])
    assert source.read("none").shape == (0, 3)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HeadwayError, match="is damaged or incomplete"):
        for name in TENSORS:
            source.read(name)


def test_damaged_safetensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file(TENSORS, path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:7], whole[:20], whole[:-1], b"\xff" * 8 + whole[8:]):
        path.write_bytes(damaged)
        with pytest.raises(HeadwayError, match="is damaged or incomplete"):
            open_weights(tmp_path)
    path.write_bytes(whole)
    source = open_weights(tmp_path)
    path.write_bytes(whole[:20])
    with pytest.raises(HeadwayError, match="is damaged or incomplete"):
        source.read("a")
    header = json.dumps({"a": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(HeadwayError, match="is of the type C64, which is not supported"):
        SafetensorsSource([path])


def test_pickles_are_read_with_consent_and_only_for_their_tensors(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save(TENSORS, path)
    with pytest.raises(HeadwayError, match="a pickle, which can hold programs.*--allow-pickle"):
        open_weights(tmp_path)
    damaged = path.read_bytes()[:-100]
    cases: list[tuple[Any, str]] = [
        (Shell(), "holds more than tensors, and is not read"),
        ({"a": Shell()}, "holds more than tensors, and is not read"),
        ([1, 2], "is not a table of tensors"),
        ({"a": 1}, "is not a table of tensors"),
        (None, "is damaged or incomplete"),
    ]
    for content, message in cases:
        torch.save(content, path)
        if content is None:
            path.write_bytes(damaged)
        with pytest.raises(HeadwayError, match=message):
            open_weights(tmp_path, allow_pickle=True)
    path.write_bytes(pickle.dumps(Shell()))
    with pytest.raises(HeadwayError, match="holds more than tensors|is damaged"):
        open_weights(tmp_path, allow_pickle=True)
    path.unlink()
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": "gone.bin"}}))
    with pytest.raises(HeadwayError, match="gone.bin is missing"):
        open_weights(tmp_path, allow_pickle=True)
