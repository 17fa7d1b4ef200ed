"""Models with wrong values anywhere are imported or refused, and never end in another error than ours."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.ct2_models import change_model, convert, read_variables, save_model
from convert.huggingface.test_directory import gpt2_folder
from convert.test_runtimes import make_arrays, marian_ct2, spm, write_opus
from convert.translators import save_t5
from headway.convert.ctranslate2.model_file import ModelFile
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import HeadwayError

BY_CHANCE = True  # which errors are met says nothing
WRONG: list[Any] = [None, -1, 0, 10**30, 1.5, "x", "", [], [1, "x"], {"a": {}}, True]
__all__ = ["gpt2_folder", "marian_ct2", "spm"]


def try_all(folder: Path, name: str) -> int:
    """Put every wrong value in the place of every value of a JSON file, one by one; how many were refused."""
    path = folder / name
    whole = json.loads(path.read_text())
    refused = 0
    for key in whole:
        for wrong in WRONG:
            path.write_text(json.dumps({**whole, key: wrong}))
            try:
                plan_import(str(folder), ImportOptions())
            except HeadwayError:
                refused += 1
    path.write_text(json.dumps(whole))
    return refused


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
def test_a_directory_of_hugging_face(name: str, gpt2_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(gpt2_folder, tmp_path / "gpt2")
    assert try_all(folder, name) >= (0 if name == "generation_config.json" else 10)


def test_a_directory_of_ctranslate2(marian_ct2: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(marian_ct2, tmp_path / "ct2")
    assert try_all(folder, "config.json") > 5


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("Llama", "T5")]


@pytest.mark.parametrize("kind", ["GPT-2", *SLOW])
def test_variables_of_ctranslate2(kind: str, tmp_path: Path) -> None:
    """Every setting with every wrong number, every tensor in another shape, header bytes at random."""
    if kind == "T5":
        save_t5(tmp_path / "theirs")
    else:
        save_model(tmp_path / "theirs", kind)
    folder = convert(tmp_path / "theirs", tmp_path / "ct2")
    whole, variables = (folder / "model.bin").read_bytes(), read_variables(folder / "model.bin")
    name = ModelFile(folder / "model.bin").specification
    wrong = [np.array(value, np.float32) for value in (-1, 0, 1e30, np.nan, np.inf, 0.5, 70000)]
    changes: list[tuple[str, np.ndarray]] = []
    for key, array in variables.items():
        changes += [(key, value) for value in wrong] if not array.shape else [(key, array[:1]), (key, array.ravel())]
    refused = 0
    for key, value in changes[:: max(len(changes) // 60, 1)]:
        change_model(folder, {key: value}, name=name)
        refused += is_refused(folder, tmp_path / "out")
        (folder / "model.bin").write_bytes(whole)
    draw = np.random.default_rng(1)
    for _ in range(60):
        damaged = bytearray(whole)
        for at in draw.integers(0, 400, 3):
            damaged[int(at)] = int(draw.integers(256))
        (folder / "model.bin").write_bytes(damaged)
        refused += is_refused(folder, tmp_path / "out")
    assert refused > 40


def is_refused(folder: Path, out: Path) -> bool:
    """By one of our errors, while it is planned or written."""
    shutil.rmtree(out, ignore_errors=True)
    try:
        plan_import(str(folder), ImportOptions()).write(out)
    except HeadwayError:
        return True
    return False


def test_options_of_marian(spm: bytes, tmp_path: Path) -> None:
    arrays = make_arrays()
    folder = write_opus(tmp_path / "opus", spm, arrays)
    refused = 0
    for key in ("dim-emb", "dim-vocabs", "transformer-preprocess", "transformer-dropout", "transformer-heads", "type"):
        for wrong in WRONG:
            write_opus(folder, spm, arrays, **{key: wrong})
            with contextlib.suppress(HeadwayError):
                plan_import(str(folder), ImportOptions())
                refused -= 1
            refused += 1
    assert refused > 30
