"""headway calibrate: a calibrated confidence between 0 and 1, saved with the model, and --min-confidence."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.cli.app import main
from headway.data.toy import toy_corpus
from headway.errors import HeadwayError
from headway.storage.calibration import CALIBRATION_FILE, Calibration
from headway.translate.confidence import features
from headway.translate.translator import Translator
from headway.workflows.calibration import fit_logistic_regression, measure_reliability

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 pairs, some of which the toy model knows."""
    folder = tmp_path_factory.mktemp("valid")
    pairs = toy_corpus(320)[20:]
    (folder / "valid.en").write_text("".join(f"{pair.source}\n" for pair in pairs))
    (folder / "valid.qtx").write_text("".join(f"{pair.target}\n" for pair in pairs))
    return folder


@pytest.fixture(scope="module")
def model(translator_dir: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrated") / "model"
    shutil.copytree(translator_dir, folder)
    files = ["--source", str(text / "valid.en"), "--target", str(text / "valid.qtx"), "--threshold", "75"]
    assert main(["calibrate", "--model", str(folder), *files, "--png", str(folder / "curve.png")]) == 0
    return folder


def test_what_is_written_and_said(model: Path, capsys: Capture, text: Path) -> None:
    files = ["--source", str(text / "valid.en"), "--target", str(text / "valid.qtx"), "--threshold", "75"]
    assert main(["calibrate", "--model", str(model), *files]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "score\tlines\tmean score\tshare good"
    assert "expected calibration error 0." in out
    assert f"wrote {model / CALIBRATION_FILE}" in err
    about = json.loads((model / CALIBRATION_FILE).read_text())["about"]
    assert about["threshold"] == 75
    assert about["held_out"]["lines"] == sum(one["lines"] for one in about["held_out"]["bins"]) == 100
    assert about["held_out"]["ranked"] > 0.6
    assert (model / "curve.png").stat().st_size > 1000


def test_known_lines_have_higher_scores(model: Path, text: Path) -> None:
    translator = headway.load(model)
    assert isinstance(translator, Translator)
    lines = (text / "valid.en").read_text().splitlines()
    known, new = translator.translate(lines[:50]), translator.translate(lines[150:200])
    scores = [[one.confidence or 0.0 for one in part] for part in (known, new)]
    assert all(0 <= score <= 1 for part in scores for score in part)
    assert np.mean(scores[0]) > np.mean(scores[1])
    assert translator.translate([""])[0].confidence == 1.0


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_unsure_lines_stay_as_they_are(model: Path, text: Path, engine: str, capsys: Capture) -> None:
    lines = ["Xq zzv blorp 9 9 wug.", (text / "valid.en").read_text().splitlines()[0]]
    flags = ["--device", "cpu", "--engine", engine, "--min-confidence", "0.3", "--json"]
    assert main(["translate", "--model", str(model), *flags, *lines]) == 0
    out, err = capsys.readouterr()
    first, second = (json.loads(line) for line in out.splitlines())
    assert first["text"] == lines[0]
    assert first["confidence"] < 0.3 < second["confidence"]
    assert second["text"] != lines[1]
    assert f"line 1: left untranslated: its score is {first['confidence']:.2f}, below 0.3" in err


def test_text_that_teaches_nothing(model: Path, text: Path) -> None:
    translator = headway.load(model)
    assert isinstance(translator, Translator)
    from headway.workflows.calibration import calibrate

    with pytest.raises(HeadwayError, match=r"2 lines, .* are not enough to fit: give 100 lines or more"):
        calibrate(translator, ["a", "b"], ["c", "d"])


def test_files_that_are_not_one(model: Path, tmp_path: Path) -> None:
    assert Calibration.load(tmp_path) is None
    table = json.loads((model / CALIBRATION_FILE).read_text())
    for change, told in (({"format_version": 9}, "has format_version 9"), ({"scales": None}, "is damaged")):
        (tmp_path / CALIBRATION_FILE).write_text(json.dumps({**table, **change}))
        with pytest.raises(
            HeadwayError, match=f"{CALIBRATION_FILE} {told}.*Calibrate the model again: headway calibrate"
        ):
            Calibration.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"means": [0.0] * 5}, {"weights": [1.0] * 7}, {"scales": [1.0] * 5 + [0.0]}, {"bias": math.nan},
        {"usual": None}, {"weights": [None] * 6}, {"means": "123456"}, {"bias": 10**400}, {"about": None}, {"more": 1},
    ],
)  # fmt: skip
def test_damaged_ones(change: dict[str, object], tmp_path: Path) -> None:
    sound = Calibration([0.0] * 6, [1.0] * 6, [1.0] * 6, 0.5, 0.0, {})
    sound.save(tmp_path)
    assert Calibration.load(tmp_path) == sound
    table = json.loads((tmp_path / CALIBRATION_FILE).read_text())
    (tmp_path / CALIBRATION_FILE).write_text(json.dumps({**table, **change}))
    with pytest.raises(
        HeadwayError, match=f"{CALIBRATION_FILE} is damaged. Calibrate the model again: headway calibrate"
    ):
        Calibration.load(tmp_path)


def test_a_packed_model_keeps_it_and_another_training_does_not(
    model: Path, tmp_path: Path, run_headway: Callable[..., object]
) -> None:
    from headway.storage.model_dir import load_model, save_model

    assert main(["pack", str(model), "--out", str(tmp_path / "small"), "--int8"]) == 0
    assert (tmp_path / "small" / CALIBRATION_FILE).read_bytes() == (model / CALIBRATION_FILE).read_bytes()
    config, weights, tokenizers = load_model(tmp_path / "small")
    save_model(tmp_path / "small", config, weights.state_dict(), tokenizers, "")
    assert not (tmp_path / "small" / CALIBRATION_FILE).exists()


# ---- the arithmetic


def test_a_regression_finds_what_made_the_data() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(20_000, 2)) * [3.0, 0.1] + [5.0, -1.0]
    truth = 1 / (1 + np.exp(-(0.5 * (values[:, 0] - 5) - 8 * (values[:, 1] + 1) + 0.3)))
    good = random.random(20_000) < truth
    means, scales, weights, bias = fit_logistic_regression(values, good)
    assert np.allclose(weights / scales, [0.5, -8], rtol=0.1)
    made = Calibration(means.tolist(), scales.tolist(), weights.tolist(), bias, 0.0, {})
    scores = np.array([made.score(row) for row in values[:2000].tolist()])
    found = measure_reliability(scores, good[:2000])
    assert found.error < 0.03
    assert found.ranked == pytest.approx(_ranked(scores, good[:2000]), abs=1e-9)
    assert sum(one.lines for one in found.bins) == found.lines == 2000


def test_ranks_of_equal_scores_and_of_many_lines() -> None:
    random = np.random.default_rng(0)
    scores, good = random.integers(0, 5, 300) / 5, random.random(300) < 0.4
    assert measure_reliability(scores, good).ranked == pytest.approx(_ranked(scores, good), abs=1e-12)
    many = np.linspace(0, 1, 200_000)  # each with each would take 320 GB
    assert measure_reliability(many, many > 0.3).ranked == 1.0


def _ranked(scores: np.ndarray, good: np.ndarray) -> float:
    pairs = [(a, b) for a in scores[good] for b in scores[~good]]
    return sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)


def test_features() -> None:
    found = features("In 1999 and 7", 4, "1999", [-1.0, -3.0], usual_ratio=0.0)
    assert found == pytest.approx([-2.0, -3.0, 0.5, np.log(2), np.log(4), 0.5])
    assert features("x", 1, "", [])[5] == 1.0


def test_both_sides_in_one_file(capsys: Capture, translator_dir: Path, text: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(translator_dir, model)
    found = []
    sides = [(text / name).read_text().splitlines() for name in ("valid.en", "valid.qtx")]
    table = tmp_path / "valid.jsonl"
    table.write_text("".join(json.dumps({"qtx": b, "en": a}) + "\n" for a, b in zip(*sides)))
    for given in (["-s", text / "valid.en", "-t", text / "valid.qtx"], ["--pairs", table]):
        assert main([*map(str, ["calibrate", "--model", model, *given])]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    assert main(["calibrate", "--model", str(model)]) == 2
    assert "give --source and --target, or --pairs." in capsys.readouterr().err
