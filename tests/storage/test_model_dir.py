"""A model directory: complete, safe, and plain about what is wrong with it."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from headway.errors import ConfigError, HeadwayError
from headway.storage.model_dir import (
    WEIGHTS_FILE,
    average_weights,
    load_model,
    load_weights,
    read_tensors,
    save_model,
    write_tensors,
)
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer


@pytest.fixture
def copy(translator_dir: Path, tmp_path: Path) -> Path:
    """A model directory to spoil."""
    return Path(shutil.copytree(translator_dir, tmp_path / "copy", ignore=shutil.ignore_patterns("checkpoints")))


def test_saved_and_loaded(translator_dir: Path, tmp_path: Path) -> None:
    loaded = load_model(translator_dir)
    save_model(tmp_path / "new", loaded.config, loaded.model.state_dict(), loaded.tokenizers, "# A card\n")
    again = load_model(str(tmp_path / "new"))
    assert again.config == loaded.config
    assert again.tokenizers.target.fingerprint() == loaded.tokenizers.target.fingerprint()
    assert not again.model.training
    for name, weight in loaded.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name])
    assert (tmp_path / "new" / "README.md").read_text() == "# A card\n"


def test_others_may_read_the_weights(translator_dir: Path) -> None:
    assert stat.S_IMODE(os.stat(translator_dir / WEIGHTS_FILE).st_mode) == 0o644


def no_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def no_weights(folder: Path) -> None:
    (folder / WEIGHTS_FILE).unlink()


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def truncated(folder: Path) -> None:
    content = (folder / WEIGHTS_FILE).read_bytes()
    (folder / WEIGHTS_FILE).write_bytes(content[: len(content) // 2])


def not_tensors(folder: Path) -> None:
    (folder / WEIGHTS_FILE).write_bytes(b"PK\x03\x04 a zip file, say")


def empty(folder: Path) -> None:
    (folder / WEIGHTS_FILE).write_bytes(b"")


def weights_of_another(folder: Path) -> None:
    write_tensors(folder / WEIGHTS_FILE, {"other": torch.zeros(2)})


def a_tensor_more(folder: Path) -> None:
    write_tensors(folder / WEIGHTS_FILE, {**read_tensors(folder / WEIGHTS_FILE), "extra.weight": torch.zeros(2)})


def another_shape(folder: Path) -> None:
    tensors = read_tensors(folder / WEIGHTS_FILE)
    write_tensors(folder / WEIGHTS_FILE, {**tensors, "embeddings.decoder.words.weight": torch.zeros(2, 48)})


def another_tokenizer(folder: Path) -> None:
    other = Tokenizer.train([], "bytes")
    Tokenizers(other, other).save(folder / "tokenizer.json")


def newer(folder: Path) -> None:
    table = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**table, "format_version": 9}))


def wrong_config(folder: Path) -> None:
    table = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**table, "modle": 1}))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (no_folder, "there is no model directory {0}. Train one: headway train … --out {0}"),
        (no_config, "{0} is not a model directory: it has no config.json."),
        (no_weights, "{0} has no model.safetensors: its training has not saved a model yet."),
        (no_tokenizer, "{0}/tokenizer.json does not exist. A model directory holds its tokenizer in this file."),
        (truncated, "{0}/model.safetensors is damaged or not a safetensors file. Copy it again."),
        (not_tensors, "{0}/model.safetensors is damaged or not a safetensors file. Copy it again."),
        (empty, "{0}/model.safetensors is damaged or not a safetensors file. Copy it again."),
        (
            weights_of_another,
            "{0}/model.safetensors does not fit its config.json: embeddings.decoder.words.weight is missing.",
        ),
        (
            a_tensor_more,
            "does not fit its config.json: extra.weight belongs to another model. Copy both from the same model.",
        ),
        (another_shape, "embeddings.decoder.words.weight has the shape (2, 48) and not (384, 48)."),
        (
            another_tokenizer,
            "{0} is inconsistent: its tokenizer.json has 320 target tokens, and its config.json says 384.",
        ),
        (newer, "{0}/config.json: this model was written in format 9, and this Headway reads up to 2."),
        (wrong_config, '{0}/config.json: there is no setting "modle" here. Did you mean "model"?'),
    ],
)
def test_what_is_wrong_is_said(copy: Path, spoil: Callable[[Path], None], message: str) -> None:
    spoil(copy)
    with pytest.raises(HeadwayError) as caught:
        load_model(copy)
    assert message.format(copy) in str(caught.value)


def test_a_wrong_config_is_a_config_error(copy: Path) -> None:
    wrong_config(copy)
    with pytest.raises(ConfigError):
        load_model(copy)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"there is no file"):
        read_tensors(tmp_path / "none.safetensors")


def test_tensors_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / WEIGHTS_FILE
    write_tensors(path, {"w": torch.arange(6.0).reshape(2, 3).T})
    assert torch.equal(read_tensors(path)["w"], torch.arange(6.0).reshape(2, 3).T)
    with pytest.raises(Exception):  # noqa: B017 - the library's own
        write_tensors(path, {"w": "no tensor"})  # type: ignore[dict-item]
    assert read_tensors(path)["w"].shape == (3, 2)


def test_fill_takes_only_its_own(translator_dir: Path) -> None:
    model = load_model(translator_dir).model
    weights = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
    load_weights(model, weights, Path("x"))
    assert all(not tensor.any() for tensor in model.state_dict().values())


def test_the_average_is_the_mean() -> None:
    models = [
        {"w": torch.tensor([1.0, 2.0]), "b": torch.tensor([0.0])},
        {"w": torch.tensor([3.0, 6.0]), "b": torch.tensor([1.0])},
    ]
    assert average_weights(models)["w"].tolist() == [2.0, 4.0]
    assert average_weights(models)["b"].tolist() == [0.5]
    assert average_weights(models)["w"].dtype == torch.float32
    thirds = average_weights([{"w": torch.full((1,), 0.1)}] * 3)["w"]
    assert torch.equal(thirds, torch.full((1,), 0.1))  # summed in float64


def test_packed_weights_have_no_average() -> None:
    with pytest.raises(HeadwayError, match=r"packed models cannot be averaged: there is nothing between two"):
        average_weights([{"w": torch.zeros(2, dtype=torch.uint8)}] * 2)


@pytest.mark.parametrize("other", [{"w": torch.zeros(3)}, {"v": torch.zeros(2)}, {}])
def test_different_models_have_no_average(other: dict[str, torch.Tensor]) -> None:
    with pytest.raises(HeadwayError, match=r"only models of the same architecture can be averaged"):
        average_weights([{"w": torch.zeros(2)}, other])


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    """The library's errors are of its own kind, and hold the system's."""
    path = tmp_path / "none" / "model.safetensors"
    with pytest.raises(HeadwayError) as caught:
        write_tensors(path, {"a": torch.zeros(3)})
    assert str(caught.value) == f"{path} cannot be written: No such file or directory."
    path.mkdir(parents=True)
    with pytest.raises(HeadwayError) as caught:
        write_tensors(path, {"a": torch.zeros(3)})
    assert str(caught.value) == f"{path} cannot be written: Is a directory."
    assert list(path.parent.iterdir()) == [path], "nothing is left behind"
