"""A model directory that is replaced while it is used or loaded."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from headway.errors import HeadwayError
from headway.storage import model_dir
from headway.storage.model_dir import load_model
from headway.storage.model_files import list_versions, refuse_replaced
from headway.translate.translator import load_translator


def replace_directory(folder: Path, other: Path) -> None:
    folder.rename(folder.with_name("away"))
    shutil.copytree(other, folder)


def test_what_is_read_later_must_be_of_the_same_model(translator_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(translator_dir, folder)
    translator = load_translator(folder, device="cpu", engine="ctranslate2")
    said = translator(["A dog runs."])
    replace_directory(folder, translator_dir)
    assert translator(["A dog runs."]) == said, "what was opened is held"
    with pytest.raises(HeadwayError, match="model was replaced by another model while it was in use. Load it again"):
        _ = translator.engines.torch
    assert load_translator(folder, device="cpu", engine="torch").engines.torch is not None


def test_a_model_that_is_replaced_while_it_is_loaded_is_read_again(
    translator_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(translator_dir, folder)
    (folder / "tokenizer.json").unlink()
    read = model_dir.Config.load
    read_count = []

    def read_and_replace(path: Path) -> Any:
        read_count.append(path)
        config = read(path)
        if len(read_count) == 1:
            replace_directory(folder, translator_dir)
        return config

    monkeypatch.setattr(model_dir.Config, "load", read_and_replace)
    assert load_model(folder).config
    assert len(read_count) == 2


def test_a_model_that_changes_all_the_time_is_read_some_times_only(
    translator_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(1000))
    monkeypatch.setattr(model_dir, "list_versions", lambda folder: next(calls))
    assert load_model(translator_dir).config


def test_a_missing_file_is_another_version(translator_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(translator_dir, folder)
    opened = [list_versions(folder)]
    refuse_replaced([folder], opened)
    (folder / "config.json").unlink()
    with pytest.raises(HeadwayError, match="was replaced by another model"):
        refuse_replaced([folder], opened)
