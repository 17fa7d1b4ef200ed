"""Problems, from `headway toy` to answers: `train --task solve`, `evaluate --data`, `predict`, `pack --int8`, and what
refuses a model with a graph reasoner."""

import json
from pathlib import Path
from typing import Any

import pytest
from quick_training import PAIRS, QUICK
from train.test_solve import SMALL

import headway
from headway.cli.app import main
from headway.decode.stored_config import UnsupportedModelError, check_fields

SETTINGS = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == code
    captured = capsys.readouterr()
    return captured.out if not code else captured.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("problems")
    sizes = ["--length", "3", "--test-length", "3", "--test-length", "5"]
    assert main(["toy", "--task", "algorithms", *sizes, "--lines", "90", "--out", str(folder / "data")]) == 0
    valid = folder / "valid.jsonl"
    valid.write_text("".join((folder / "data/valid.jsonl").read_text().splitlines(keepends=True)[:12]))
    words = ["train", "--task", "solve", "--data", str(folder / "data/train.jsonl"), "--out", str(folder / "model")]
    words += ["--valid-data", str(valid)]
    assert main([*words, "--steps", "3", "--device", "cpu", *SETTINGS]) == 0
    return folder


def test_next_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["toy", "--task", "bfs", "--length", "4", "--lines", "9", "--out", str(folder / "bfs")]) == 0
    said = capsys.readouterr().err
    assert "wrote train.jsonl, valid.jsonl, test-4.jsonl" in said
    assert f"next: headway train --task solve --data {folder}/bfs/train.jsonl --valid-data" in said


def test_predict(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    predict = ("predict", "--model", folder / "model")
    answer, probability = run(capsys, *predict, "sort 31 7 52 =").rstrip("\n").split("\t")
    assert 0 < float(probability) <= 1 and answer == " ".join(answer.split())
    lines = (folder / "data/test-5.jsonl").read_text().splitlines()
    (tmp_path / "in.jsonl").write_text("\n".join([lines[0], "", "sort 3 1 ="]) + "\n")
    found = run(capsys, *predict, "--input", tmp_path / "in.jsonl").split("\n")
    assert [bool(line) for line in found] == [True, False, True, False]
    table = json.loads(run(capsys, *predict, "--json", lines[0]))
    names = [node[0] for node in json.loads(lines[0])["graph"]["nodes"]]
    assert table["text"] == json.loads(lines[0])["text"] and [node["name"] for node in table["nodes"]] == names
    assert all(node["points_at"] in names and 0 <= node["marked"] <= 1 for node in table["nodes"])
    assert "nodes" not in json.loads(run(capsys, *predict, "--json", "hello"))


def test_evaluate(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data, out = folder / "data/test-5.jsonl", tmp_path / "answers.txt"
    said = run(capsys, "evaluate", "--model", folder / "model", "--data", data, "--out", out, "--examples", 1)
    assert said.startswith("accuracy 0.") and "node_accuracy 0." in said and "200 problems" in said
    assert said.count("wrong: ") == 1 and "shortest_path" in said
    assert len(out.read_text().split("\n")) == 201


def test_packed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "pack", "--model", folder / "model", "--out", folder / "small", "--int8")
    assert "\t" in run(capsys, "predict", "--model", folder / "small", "minimum 4 2 =")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--top-k", "2", "sort 3 1 ="], 2, "a problem has one answer"),
        (["--input", "x", "sort 3 1 ="], 2, "give texts or --input, not both"),
        (["hello", '{"graph": {}}'], 1, "line 2 is no problem"),
        (["{"], 1, "line 1 is no problem"),
        (['{"text": "x", "graph": {"nodes": []}}'], 1, 'problem 0: a graph is an object with "nodes"'),
    ],
)
def test_what_is_no_problem(
    words: Any, code: int, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in run(capsys, "predict", "--model", folder / "model", *words, code=code)


def test_refused_elsewhere(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "continues no text" in run(capsys, "generate", "--model", folder / "model", "sort 3 1 =", code=1)
    for kind in ("huggingface", "ctranslate2", "onnx", "gguf"):
        said = run(capsys, "export", folder / "model", "--to", kind, "--out", tmp_path / kind, code=1)
        assert "objective solve" in said and not (tmp_path / kind).exists()
    with pytest.raises(UnsupportedModelError, match="graph reasoners are not supported"):
        check_fields("model", json.loads((folder / "model/config.json").read_text())["model"])
    headway.train(PAIRS, out=tmp_path / "t", languages=("en", "qtx"), **QUICK)
    train = ["train", "--task", "solve", "--data", folder / "data/train.jsonl", "--out", tmp_path / "never"]
    assert "has an encoder" in run(capsys, *train, "--from-model", tmp_path / "t", code=2)
