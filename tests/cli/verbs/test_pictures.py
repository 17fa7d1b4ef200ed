"""Pictures on the command line: train --images, predict, evaluate --images, attend --image."""

import json
from pathlib import Path

import numpy as np
import pytest
from data.pictures.drawn import draw, write_folder
from PIL import Image
from train.test_pictures import SMALL

from headway.cli.app import main
from headway.cli.picture_input import format_prediction
from headway.errors import HeadwayError
from headway.inspect.patch_plots import draw_patches, render_patches
from headway.translate.picture_model import PatchAttention

SETTINGS = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, and a model of them."""
    folder = tmp_path_factory.mktemp("pictures")
    write_folder(folder / "train", 60)
    write_folder(folder / "test", 12, first=500)
    (folder / "train" / "left" / "broken.png").write_bytes(b"x")
    words = ["train", "--images", str(folder / "train"), "--valid-images", str(folder / "test")]
    words += ["--out", str(folder / "model"), "--preset", "vit_tiny", "--steps", "40", "--device", "cpu", *SETTINGS]
    assert main(words) == 0
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main([str(word) for word in words]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_what_was_left_out_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path / "p", 12)
    (tmp_path / "p" / "left" / "broken.png").write_bytes(b"x")
    given = ("train", "--images", tmp_path / "p", "--out", tmp_path / "m", "--steps", 1, "--preset", "vit_tiny")
    _, told = run(capsys, *given, "--device", "cpu", *SETTINGS)
    assert "1 pictures could not be read and were left out" in told and "broken.png is no picture" in told


def test_predict(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    predict = ("predict", "--model", folder / "model")
    one = folder / "test" / "left" / "1.png"
    path, label, probability = run(capsys, *predict, one)[0].strip().split("\t")
    assert (path, label) == (str(one), "left") and 0.25 < float(probability) <= 1
    lines = run(capsys, *predict, folder / "test", one, "--top-k", 2)[0].splitlines()
    assert len(lines) == 13 and all(line.count("\t") == 4 for line in lines)
    (tmp_path / "list.txt").write_text(f"{one}\n\n{one}\n")
    assert len(run(capsys, *predict, "--input", tmp_path / "list.txt")[0].splitlines()) == 2
    table = json.loads(run(capsys, *predict, "--json", one)[0])
    assert table["picture"] == str(one) and table["labels"][0]["label"] == "left"


def test_what_cannot_be_read_is_named_and_nothing_else_lost(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one = folder / "test" / "left" / "1.png"
    predict = ("predict", "--model", folder / "model")
    (tmp_path / "empty.png").write_bytes(b"")
    out, err = run(capsys, *predict, one, tmp_path / "empty.png", tmp_path / "no.png", one, code=1)
    assert [line.count("\t") for line in out.splitlines()] == [2, 0, 0, 2]
    assert "empty.png is empty" in err and "there is no file" in err and "2 of 4 pictures could not be read" in err
    assert json.loads(format_prediction("a.png", None, True))["error"]
    (tmp_path / "folder").mkdir()
    assert "holds no pictures" in run(capsys, *predict, tmp_path / "folder", code=1)[1]


def test_evaluate(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    evaluate = ("evaluate", "--model", folder / "model")
    out, _ = run(capsys, *evaluate, "--images", folder / "test")
    assert out.startswith("accuracy ") and "12 examples" in out and "bottom" in out
    _, err = run(capsys, *evaluate, "--images", folder / "train")
    assert "1 pictures could not be read" in err
    (tmp_path / "t.tsv").write_text("a\tleft\n")
    assert "reads pictures: give --images" in run(capsys, *evaluate, "--data", tmp_path / "t.tsv", code=1)[1]
    wrong = (*evaluate, "--images", folder / "test", "--data", tmp_path / "t.tsv")
    assert "--data measures a task" in run(capsys, *wrong, code=2)[1]


def test_attend(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    attend = ("attend", "--model", folder / "model", "--image", folder / "test" / "left" / "1.png")
    out, err = run(capsys, *attend, "--numbers")
    rows = [[float(cell) for cell in line.split("\t")] for line in out.splitlines()]
    assert len(rows) == 3 and {len(row) for row in rows} == {3} and 0 < sum(map(sum, rows)) < 1
    assert "left 0." in err or "left 1." in err
    assert "█" in run(capsys, *attend, "--head", 2)[0]
    assert "wrote" in run(capsys, *attend, "--png", tmp_path / "where.png")[1]
    with Image.open(tmp_path / "where.png") as picture:
        assert picture.width > 300
    assert "there is no head 3" in run(capsys, *attend, "--head", 3, code=1)[1]
    assert "--image needs --model" in run(capsys, *attend, "text", code=2)[1]
    assert "reads no pictures" in run(capsys, "attend", "--model", "en-de", *attend[3:], code=1)[1]


def test_plots_of_patches(tmp_path: Path) -> None:
    weights = np.array([[[0.0, 0.1], [0.2, 0.4]]])
    attention = PatchAttention(draw("left", 1)[..., :1], weights, 1)
    for head in (0, 1):
        draw_patches(attention, tmp_path / f"{head}.png", head)
        assert (tmp_path / f"{head}.png").stat().st_size > 1000
    with pytest.raises(HeadwayError, match="there is no head 2: this layer has 1 to 1"):
        draw_patches(attention, tmp_path / "2.png", 2)
    assert render_patches(weights[0]) == "  ░░\n▒▒██"
    assert render_patches(np.zeros((1, 2))) == " "
