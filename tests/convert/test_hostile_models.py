"""Models with wrong values anywhere are imported or refused, and never end in another error than ours."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from convert.huggingface.test_directory import gpt2_folder
from convert.test_runtimes import make_arrays, marian_ct2, spm, write_opus
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
