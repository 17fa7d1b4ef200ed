"""headway pack: a BitNet model in few bytes, used like any other, trained no more."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from headway.cli.app import main
from headway.config.config import Config
from headway.storage.model_dir import WEIGHTS_FILE, load_model, read_tensors
from headway.storage.tensor_file import read_weights
from headway.train.checkpoints import list_checkpoints
from headway.translate.translator import Translator, load_translator

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def bit_dir(train_toy: Callable[..., Path]) -> Path:
    """Trained with a running average, so that its checkpoints hold both."""
    settings = ["model.linear=bitnet", "train.ema=0.9", "train.steps=120", "train.validate_every=60"]
    return train_toy(*(word for setting in settings for word in ("--set", setting)))


@pytest.fixture(scope="module")
def packed_dir(bit_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("packed") / "a model"
    assert main(["pack", str(bit_dir), "--out", str(out)]) == 0
    return out


def message(capsys: Capture, code: int, *words: object) -> str:
    assert main([*map(str, words)]) == code
    return capsys.readouterr().err


def test_it_translates_the_same_to_the_last_digit(bit_dir: Path, packed_dir: Path, toy: Path) -> None:
    lines = (toy / "test.en").read_text().splitlines()
    found = [load_translator(folder, device="cpu").translate(lines) for folder in (bit_dir, packed_dir)]
    assert [result.text for result in found[1]] == [result.text for result in found[0]]
    assert [result.score for result in found[1]] == [result.score for result in found[0]]
    assert len({result.text for result in found[0]}) > 5


def test_one_model_is_packed(capsys: Capture, tmp_path: Path) -> None:
    assert "error: --model is missing." in message(capsys, 2, "pack", "--out", tmp_path)
    told = message(capsys, 2, "pack", "a", "--model", "b", "--out", tmp_path)
    assert "error: two models were given, b and a: give one." in told


def test_what_it_writes(capsys: Capture, bit_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "a packed model"
    told = message(capsys, 0, "pack", "--model", bit_dir, "--out", out).splitlines()
    assert told[1] == f"next: headway evaluate --model '{out}' --source FILE --target FILE"
    assert {path.name for path in out.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "README.md", "history.jsonl",
    }  # fmt: skip
    before, after = ((folder / WEIGHTS_FILE).stat().st_size for folder in (bit_dir, out))
    assert (
        told[0] == f"packed {WEIGHTS_FILE}: {before / 1e6:.2f} MB -> {_size(after)}, {before / after:.1f} times smaller"
    )
    assert before > 2.5 * after, "most of this small model are words, which stay as they are"
    whole, small = read_tensors(bit_dir / WEIGHTS_FILE), read_tensors(out / WEIGHTS_FILE)
    matrices = [name for name in whole if "sublayers" in name and whole[name].dim() == 2]
    assert len(matrices) == 6 + 10
    for name in matrices:
        place = name.removesuffix("weight")
        assert name not in small and small[f"{place}scale"].shape == ()
        assert small[f"{place}packed"].dtype == torch.uint8
        assert small[f"{place}packed"].nbytes * 16 == whole[name].nbytes
    assert all(torch.equal(small[name], whole[name]) for name in whole if name not in matrices)
    config = Config.load(out / "config.json")
    assert config.model.linear.packed and not Config.load(bit_dir / "config.json").model.linear.packed
    assert config.model.parameter_count() == Config.load(bit_dir / "config.json").model.parameter_count()
    assert json.loads((out / "history.jsonl").read_text()) == {"kind": "pack", "step": 0, "model": str(bit_dir)}
    card = (out / "README.md").read_text()
    assert card.startswith((bit_dir / "README.md").read_text()) and "it cannot be trained on" in card


def _size(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def test_nothing_is_written_over_unasked(capsys: Capture, bit_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    message(capsys, 0, "pack", bit_dir, "--out", tmp_path / "empty")
    weights = tmp_path / "empty" / WEIGHTS_FILE
    weights.write_bytes(b"mine")
    told = message(capsys, 1, "pack", bit_dir, "--out", weights.parent)
    assert f"{weights.parent} is not empty. Choose another --out, or overwrite it with --overwrite." in told
    assert weights.read_bytes() == b"mine"
    message(capsys, 0, "pack", bit_dir, "--out", weights.parent, "--overwrite")
    assert load_translator(weights.parent, device="cpu")("The dog sees a red house.")


def test_without_a_card_it_gets_one(bit_dir: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(bit_dir, tmp_path / "copy", ignore=shutil.ignore_patterns("checkpoints", "README.md")))
    assert main(["pack", str(copy), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "README.md").read_text().startswith("# A model\n")


def test_every_verb_takes_it(capsys: Capture, packed_dir: Path, bit_dir: Path, toy: Path, tmp_path: Path) -> None:
    text = ["--source", toy / "test.en", "--target", toy / "test.qtx"]
    for command in (
        ["translate", "--model", packed_dir, "The dog sees a red house."],
        ["translate", "--model", packed_dir, "--model", bit_dir, "The dog sees a red house."],
        ["evaluate", "--model", packed_dir, *text],
        ["score", "--model", packed_dir, *text],
        ["align", "--model", packed_dir, *text],
        ["attend", "--model", packed_dir, "The dog sees a red house."],
        ["trace", "--model", packed_dir, "The dog sees a red house.", "--out", tmp_path / "trace.safetensors"],
    ):
        assert main([*map(str, command)]) == 0, (command, capsys.readouterr().err)


def test_a_large_one_is_not_taken_for_damaged(packed_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file holds fewer numbers than the model has weights, four in each byte."""
    monkeypatch.setattr("headway.storage.model_dir.MAX_UNCHECKED_PARAMETERS", 0)
    tensors = read_tensors(packed_dir / WEIGHTS_FILE)
    loaded = load_model(packed_dir)
    assert sum(tensor.numel() for tensor in tensors.values()) < loaded.config.model.parameter_count()
    assert isinstance(Translator([loaded]), Translator)


def test_what_cannot_be_packed(capsys: Capture, translator_dir: Path, bit_dir: Path, packed_dir: Path) -> None:
    out = ["--out", packed_dir.with_name("never")]
    assert (
        f'{translator_dir} cannot be packed: its linear layers are "dense", and only ternary weights can be packed. '
        "Train a ternary model: headway train … --set model.linear=bitnet"
    ) in message(capsys, 1, "pack", translator_dir, *out)
    assert "cannot be packed: it is packed already. Copy its directory." in message(capsys, 1, "pack", packed_dir, *out)
    assert f"--out is {bit_dir}, the model itself: choose another directory." in message(
        capsys, 2, "pack", bit_dir, "--out", bit_dir
    )
    assert f"{translator_dir} holds a training run, which cannot resume from packed weights." in message(
        capsys, 1, "pack", bit_dir, "--out", translator_dir
    )
    assert not out[1].exists()


def test_it_is_trained_no_more(capsys: Capture, packed_dir: Path, toy: Path, tiny: list[str], tmp_path: Path) -> None:
    text = ["--source", toy / "train.en", "--target", toy / "train.qtx", "--out", tmp_path / "x", "--steps", 2]
    assert "is packed: the float weights that training changes are gone. Give the model that it was packed from." in (
        message(capsys, 1, "train", "--from-model", packed_dir, *text)
    )
    assert "model.linear: packed weights cannot be trained" in message(
        capsys, 2, "train", *text, *tiny, "--set", "model.linear=bitnet(packed=true)"
    )
    assert not (tmp_path / "x" / WEIGHTS_FILE).exists()


def test_averages_are_taken_before_packing(capsys: Capture, bit_dir: Path, packed_dir: Path, tmp_path: Path) -> None:
    for models in ([packed_dir], [packed_dir, packed_dir], [bit_dir, packed_dir]):
        flags = [word for model in models for word in ("-m", model)]
        told = message(capsys, 1, "average", *flags, "--out", tmp_path / "never")
        assert f"{packed_dir} is packed, and packed models cannot be averaged" in told
        assert "Average the models that they were packed from, then run headway pack on the result" in told
    assert len(list_checkpoints(bit_dir)) == 2
    averaging = ["average", "-m", bit_dir, "--last", 2, "-o", tmp_path / "a"]
    for command in (averaging, ["pack", tmp_path / "a", "-o", tmp_path / "b"]):
        message(capsys, 0, *command)
    assert load_translator(tmp_path / "b", device="cpu")("The dog sees a red house.")


def test_a_model_that_is_not_packed_is_fine_tuned(bit_dir: Path, toy: Path, tmp_path: Path) -> None:
    files = ["--source", toy / "train.en", "--target", toy / "train.qtx", "--from", "en", "--to", "qtx"]
    steps = ["--steps", 2, "--set", "train.validate_every=2", "--out", tmp_path / "tuned"]
    assert main([*map(str, ["train", "--from-model", bit_dir, *files, *steps])]) == 0
    one, other = (read_tensors(folder / WEIGHTS_FILE) for folder in (bit_dir, tmp_path / "tuned"))
    assert one.keys() == other.keys() and any(not torch.equal(one[name], other[name]) for name in one)


# ---- eight bits


@pytest.fixture(scope="module")
def small_dir(translator_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("small") / "model"
    assert main(["pack", str(translator_dir), "--out", str(out), "--int8"]) == 0
    return out


def test_eight_bits_are_a_quarter_and_near(translator_dir: Path, small_dir: Path, toy: Path) -> None:
    before, after = ((folder / WEIGHTS_FILE).stat().st_size for folder in (translator_dir, small_dir))
    assert after < 0.4 * before, "little of this small model is norms and names"
    whole, small = read_tensors(translator_dir / WEIGHTS_FILE), read_tensors(small_dir / WEIGHTS_FILE)
    assert whole.keys() == small.keys()
    stored = read_weights(small_dir / WEIGHTS_FILE)
    matrices = [name for name, value in stored.items() if isinstance(value, tuple)]
    assert len(matrices) == 1 + 6 + 10
    for name in whole:
        if name in matrices:
            rows, scale = stored[name]
            assert torch.equal(small[name], torch.from_numpy(rows * scale[:, None]))
            assert float((small[name] - whole[name]).abs().max()) <= float(scale.max()) * 0.51
        else:
            assert torch.equal(small[name], whole[name])
    assert Config.load(small_dir / "config.json") == Config.load(translator_dir / "config.json")
    assert "stored in eight bits. Made from" in (small_dir / "README.md").read_text()


def test_eight_bits_are_not_packed_again(capsys: Capture, small_dir: Path, tmp_path: Path) -> None:
    told = message(capsys, 1, "pack", small_dir, "--out", tmp_path / "never", "--int8")
    assert f"{small_dir} cannot be packed: its matrices are in int8 already. Copy its directory." in told
    assert not (tmp_path / "never").exists()


def test_a_folder_whose_name_is_not_utf8(translator_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"m\xff")
    shutil.copytree(translator_dir, folder)
    assert main(["pack", str(folder), "--out", f"{folder}-8", "--int8"]) == 0
    assert "m\\udcff" in Path(f"{folder}-8", "README.md").read_text()
    assert load_translator(f"{folder}-8", device="cpu", engine="torch")(["A dog runs."])


def test_both_engines_take_eight_bits(translator_dir: Path, small_dir: Path, toy: Path) -> None:
    lines = (toy / "train.en").read_text().splitlines()[:40]
    expected = load_translator(translator_dir, device="cpu", engine="torch")(lines)
    for engine, compute in (
        ("ctranslate2", "auto"),
        ("ctranslate2", "float32"),
        ("torch", "auto"),
        ("torch", "float32"),
    ):
        translator = load_translator(small_dir, device="cpu", engine=engine, compute=compute)  # type: ignore[arg-type]
        assert sum(a == b for a, b in zip(translator(lines), expected)) > 30, (engine, compute)
    quick = load_translator(small_dir, device="cpu", engine="ctranslate2").engines.torch_free
    assert quick is not None and quick.compute == "int8"


def test_both_engines_compute_the_same_from_eight_bits_in_float32(small_dir: Path, toy: Path) -> None:
    lines = (toy / "test.en").read_text().splitlines()
    one, other = (
        load_translator(small_dir, device="cpu", engine=engine, compute="float32")
        for engine in ("torch", "ctranslate2")
    )  # type: ignore[arg-type]
    assert one(lines, beam_size=1) == other(lines, beam_size=1)


def test_ternary_weights_are_not_stored_in_eight_bits(capsys: Capture, bit_dir: Path, tmp_path: Path) -> None:
    told = message(capsys, 1, "pack", bit_dir, "--out", tmp_path / "never", "--int8")
    assert (
        'cannot be packed: its linear layers are "bitnet", and only dense ones can be quantised to int8. Remove --int8'
        in told
    )
    assert not (tmp_path / "never").exists()


def test_what_to_do_next_names_one_of_several_languages() -> None:
    from headway.config.config import read_config
    from headway.train.model_card import format_evaluate_command

    table = {"model": {"vocabulary": 64}, "target_languages": ["de", "en"]}
    assert (
        format_evaluate_command(read_config(table), "m")
        == "headway evaluate --model m --to de --source FILE --target FILE"
    )
    one = read_config({**table, "target_languages": ["de"]})
    assert format_evaluate_command(one, "m") == "headway evaluate --model m --source FILE --target FILE"
