"""headway average: the mean of checkpoints, or of models."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import headway
from headway.cli.app import main
from headway.storage.model_dir import read_tensors
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.checkpoints import list_checkpoints
from headway.translate.translator import Translator

Capture = pytest.CaptureFixture[str]


def averaged(capsys: Capture, *arguments: object, code: int = 0) -> str:
    assert main(["average", *map(str, arguments)]) == code
    return capsys.readouterr().err


def mean_of(files: list[Path]) -> dict[str, torch.Tensor]:
    tensors = [read_tensors(file) for file in files]
    return {name: torch.stack([one[name].double() for one in tensors]).mean(0).float() for name in tensors[0]}


def assert_mean(out: Path, files: list[Path]) -> None:
    for name, tensor in read_tensors(out / "model.safetensors").items():
        torch.testing.assert_close(tensor, mean_of(files)[name], rtol=1e-6, atol=1e-8)


def test_the_last_checkpoints(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    err = averaged(capsys, "--model", translator_dir, "--last", 2, "--out", tmp_path / "out")
    kept = [found.folder / "model.safetensors" for found in list_checkpoints(translator_dir)[-2:]]
    assert len(kept) == 2
    assert_mean(tmp_path / "out", kept)
    assert err.splitlines()[0] == f"averaged 2: {kept[0].parent}, {kept[1].parent}"
    assert err.splitlines()[1] == f"next: headway evaluate --model {tmp_path}/out --source FILE --target FILE"
    assert isinstance(headway.load(tmp_path / "out"), Translator)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "README.md", "history.jsonl",
    }  # fmt: skip
    assert json.loads((tmp_path / "out" / "history.jsonl").read_text())["models"] == [str(file.parent) for file in kept]
    assert "# An average of 2 models" in (tmp_path / "out" / "README.md").read_text()


def test_several_models(capsys: Capture, translator_dir: Path, other_translator_dir: Path, tmp_path: Path) -> None:
    models = [translator_dir, other_translator_dir]
    averaged(capsys, "-m", models[0], "-m", models[1], "-o", tmp_path / "soup")
    assert_mean(tmp_path / "soup", [model / "model.safetensors" for model in models])


def test_a_language_model(capsys: Capture, lm_dir: Path, tmp_path: Path) -> None:
    err = averaged(capsys, "--model", lm_dir, "--last", 1, "--out", tmp_path / "a b")
    assert err.splitlines()[-1] == f"next: headway evaluate --model '{tmp_path}/a b' --text FILE"
    assert "--text FILE" in (tmp_path / "a b" / "README.md").read_text()


def test_what_is_wrong_is_said(capsys: Capture, translator_dir: Path, lm_dir: Path, toy: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(translator_dir, tmp_path / "copy", ignore=shutil.ignore_patterns("checkpoints")))
    out = ["--out", tmp_path / "out"]
    assert "has no checkpoints to average. Give several --model instead." in averaged(capsys, "-m", copy, *out, code=1)
    assert "these models have different architectures, so they cannot be averaged." in averaged(
        capsys, "-m", translator_dir, "-m", lm_dir, *out, code=1
    )
    tokenizers = Tokenizers.load(copy / "tokenizer.json")
    other = Tokenizer.train((toy / "test.qtx").read_text().splitlines(), f"bpe({tokenizers.target.size})")
    assert other.size == tokenizers.target.size
    Tokenizers(other, other).save(copy / "tokenizer.json")
    assert "these models have different tokenizers, so they cannot be averaged." in averaged(
        capsys, "-m", translator_dir, "-m", copy, *out, code=1
    )
    Tokenizers(other, tokenizers.target).save(copy / "tokenizer.json")
    assert "these models have different tokenizers, so they cannot be averaged." in averaged(
        capsys, "-m", translator_dir, "-m", copy, *out, code=1
    ), "of the source alone"
    tokenizers.save(copy / "tokenizer.json")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "source_languages": ["fr"]}))
    assert "these models translate between different languages, so they cannot be averaged." in averaged(
        capsys, "-m", translator_dir, "-m", copy, *out, code=1
    )
    assert f"--out is {translator_dir}, one of the models: choose another directory." in averaged(
        capsys, "-m", translator_dir, "-o", translator_dir, code=2
    )
    assert "--last: 0 is not in the range x>=1" in averaged(capsys, "-m", translator_dir, "--last", 0, *out, code=2)
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_not_written_over(
    capsys: Capture, translator_dir: Path, other_translator_dir: Path, tmp_path: Path
) -> None:
    models = ["-m", translator_dir, "-m", other_translator_dir]
    copy = Path(shutil.copytree(translator_dir, tmp_path / "copy"))
    (copy / "calibration.json").write_text("{}")
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    for flags in ([], ["--overwrite"]):
        assert (
            f"{copy} holds a training run, which cannot resume from other weights. Choose another --out."
            in averaged(capsys, *models, "-o", copy, *flags, code=1)
        )
    shutil.rmtree(copy / "checkpoints")
    told = averaged(capsys, *models, "-o", copy, code=1)
    assert f"{copy} is not empty. Choose another --out, or overwrite it with --overwrite." in told
    assert {path: path.stat().st_mtime_ns for path in copy.iterdir()}.items() <= before.items()
    averaged(capsys, *models, "-o", copy, "--overwrite")
    assert_mean(copy, [model / "model.safetensors" for model in (translator_dir, other_translator_dir)])
