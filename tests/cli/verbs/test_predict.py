"""`headway train --task`, `predict`, `evaluate --data`, `embed` and `search`, from files to files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from train.task_data import SMALL, make_rows

from headway.cli.app import main

SETTINGS = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    for task, steps in (("classify", "60"), ("tag", "4"), ("match", "4"), ("score", "4"), ("embed", "20")):
        data = write_rows(folder / f"{task}.tsv", make_rows(task))
        name = "match" if task == "score" else task
        words = ["train", "--task", name, "--data", str(data), "--out", str(folder / task), "--steps", steps]
        assert main([*words, "--preset", "tiny_encoder", "--device", "cpu", *SETTINGS]) == 0
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == code
    captured = capsys.readouterr()
    return captured.out if not code else captured.err


def test_labels(models: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    predict = ("predict", "--model", models / "classify")
    label, probability = run(capsys, *predict, "7 a red house").strip().split("\t")
    assert label == "red" and 0.5 < float(probability) <= 1
    assert len(run(capsys, *predict, "7 a red house", "--top-k", 3).split("\t")) == 6
    (tmp_path / "in.txt").write_text("7 a red house\n\n7 a blue dog\n")
    lines = run(capsys, *predict, "--input", tmp_path / "in.txt").split("\n")
    assert [line.partition("\t")[0] for line in lines] == ["red", "", "blue", ""]
    table = json.loads(run(capsys, *predict, "--json", "7 a red house"))
    assert table["text"] == "7 a red house" and table["labels"][0]["label"] == "red"


def test_tags_and_pairs(models: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = run(capsys, "predict", "--model", models / "tag", "7 a red house").split()
    assert [word.partition("/")[0] for word in words] == ["7", "a", "red", "house"]
    table = json.loads(run(capsys, "predict", "--model", models / "tag", "--json", "7 a"))
    assert [word["word"] for word in table["words"]] == ["7", "a"]
    assert run(capsys, "predict", "--model", models / "match", "a", "b").partition("\t")[0] in ("same", "other")
    pairs = write_rows(tmp_path / "pairs.tsv", [("a", "b"), ("c", "d")])
    scores = run(capsys, "predict", "--model", models / "score", "--input", pairs).split()
    (tmp_path / "gap.tsv").write_text("a\tb\n\t \nc\td\n")
    assert run(capsys, "predict", "--model", models / "score", "--input", tmp_path / "gap.tsv").split("\n")[1] == ""
    assert len(scores) == 2 and all(map(float, scores))
    assert "score" in json.loads(run(capsys, "predict", "--model", models / "score", "a", "b", "--json"))


def test_evaluation(models: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = write_rows(tmp_path / "test.tsv", [*make_rows("classify", 50, seed=2), ("", "red")])
    out = run(capsys, "evaluate", "--model", models / "classify", "--data", data, "--out", tmp_path / "labels")
    assert out.startswith("accuracy ") and "95 % interval" in out and "macro_f1" in out
    assert "label\tprecision" in out or "label" in out
    assert len((tmp_path / "labels").read_text().split()) == 50
    for task in ("tag", "match", "score", "embed"):
        out = run(capsys, "evaluate", "--model", models / task, "--data", models / f"{task}.tsv")
        name = {"tag": "span_f1", "match": "accuracy", "score": "spearman", "embed": "recall@1"}[task]
        assert out.startswith(f"{name} ")


def test_vectors_and_search(models: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = [anchor for anchor, _ in make_rows("embed", 40)]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    index = tmp_path / "v.npy"
    run(capsys, "embed", "--model", models / "embed", tmp_path / "lines.txt", "--out", index)
    vectors = np.load(index)
    assert vectors.shape == (40, 32) and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    found = run(capsys, "search", lines[7], "--index", index, "-k", 3).strip().split("\n")
    assert len(found) == 3 and found[0].split("\t") == ["1.0000", str(lines.index(lines[7]) + 1), lines[7]]
    (tmp_path / "q.txt").write_text("\n".join(lines[:2]))
    tables = run(capsys, "search", "--input", tmp_path / "q.txt", "--index", index, "--json").strip().split("\n")
    assert [json.loads(table)["query"] for table in tables] == lines[:2]
    run(capsys, "embed", "--model", models / "classify", tmp_path / "lines.txt", "--out", tmp_path / "raw.npy", "--raw")
    assert np.load(tmp_path / "raw.npy").shape == (40, 32)


def test_int8(models: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Packed models compute in int8, others where they are asked to: with nearly the same results."""
    run(capsys, "pack", "--model", models / "classify", "--out", tmp_path / "small", "--int8")
    text, folder = "7 a red house", models / "classify"
    packed, whole, asked = (
        json.loads(run(capsys, "predict", "--json", text, "--model", *more))["labels"][0]
        for more in ((tmp_path / "small",), (folder,), (folder, "--compute", "int8"))
    )
    for rounded in (packed, asked):
        assert rounded != whole and rounded["label"] == whole["label"]
        assert rounded["probability"] == pytest.approx(whole["probability"], abs=0.05)
    data = models / "classify.tsv"
    small, large = (run(capsys, "evaluate", "--model", m, "--data", data).split() for m in (tmp_path / "small", folder))
    assert float(small[1]) == pytest.approx(float(large[1]), abs=0.05)
    (tmp_path / "lines.txt").write_text(f"{text}\nother\n")
    for name, more in (("a", ()), ("b", ("--compute", "int8"))):
        embed = ("embed", "--model", models / "embed", tmp_path / "lines.txt", "--out", tmp_path / f"{name}.npy")
        run(capsys, *embed, *more)
    plain, rounded = (np.load(tmp_path / f"{name}.npy") for name in "ab")
    assert not np.array_equal(plain, rounded) and ((plain * rounded).sum(1) > 0.99).all()


def test_errors(models: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = write_rows(tmp_path / "one.tsv", [("a",), ("b",)])
    classify, index = models / "classify", tmp_path / "v.npy"
    run(capsys, "embed", "--model", models / "embed", text, "--out", index)
    (tmp_path / "v.npy.json").unlink()
    short = write_rows(tmp_path / "short.txt", [("a",)])
    for words, code, message in (
        (("predict", "--model", classify, "a", "--input", text), 2, "texts or --input, not both"),
        (("predict", "--model", models / "match", "a"), 2, "give two texts"),
        (("predict", "--model", models / "match", "--input", text), 1, "line 1 has 1 columns"),
        (("predict", "--model", "en-de", "a"), 1, "was not trained for a task"),
        (("evaluate", "--model", "en-de", "--data", text), 1, "was not trained for a task"),
        (("evaluate", "--data", text), 2, "--data measures a task"),
        (("evaluate", "--model", classify, "--text", text), 1, "for the task classify: give its test data as --data"),
        (("translate", "--model", classify, "a"), 1, "does not translate. Try: headway predict --model"),
        (("translate", "--model", models / "embed", "a"), 1, "does not translate. Try: headway embed --model"),
        (("evaluate", "--model", models / "score", "--data", models / "match.tsv"), 1, "this model gives scores"),
        (("generate", "--model", classify, "a"), 1, "it continues no text"),
        (("embed", "--model", classify, text, "--out", tmp_path / "v.txt"), 2, "name a .npy file"),
        (("embed", "--model", classify, text, "--out", tmp_path / "no" / "v.npy"), 2, "there is no folder"),
        (("search", "a", "--index", index), 2, "give --model"),
        (("search", "a", "--index", index, "--model", models / "embed"), 2, "give --texts"),
        (("search", "a", "--index", index, "--model", models / "embed", "--texts", short), 1, "has fewer lines"),
    ):
        assert message in " ".join(run(capsys, *words, code=code).split()), words


def test_python_errors(models: Path) -> None:
    import headway
    from headway.errors import HeadwayError
    from headway.translate.task_evaluation import evaluate_task
    from headway.translate.task_model import TaskModel

    model = headway.load(models / "classify", device="cpu")
    assert isinstance(model, TaskModel) and "TaskModel" in repr(model)
    for call, message in (
        (lambda: model.predict("one"), "takes a list of texts"),
        (lambda: model.predict(["one"], top_k=0), "top_k = 0"),
        (lambda: model.predict([("a", "b")]), "reads single texts"),
        (lambda: evaluate_task(model, []), "no examples to evaluate"),
    ):
        with pytest.raises(HeadwayError, match=message):
            call()
