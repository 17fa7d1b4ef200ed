"""headway toy: the corpus of two languages, and tasks for language models."""

from pathlib import Path

import pytest

from headway.cli.app import main
from headway.data.toy import write_toy
from headway.data.toy.tasks import write_task

Capture = pytest.CaptureFixture[str]


def read_folder(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_corpus(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "a toy"
    assert main(["toy", "--out", str(out), "--pairs", "20", "--seed", "2"]) == 0
    write_toy(tmp_path / "same", 20, 2)
    assert read_folder(out) == read_folder(tmp_path / "same")
    assert capsys.readouterr().err.splitlines() == [
        f"wrote train.en, train.qtx, valid.en, valid.qtx, test.en, test.qtx, test.align to {out}",
        f"next: headway train --source '{out}/train.en' --target '{out}/train.qtx' --valid-source '{out}/valid.en' "
        f"--valid-target '{out}/valid.qtx' --out my-model",
    ]


def test_a_task(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "a task"
    words = ["--task", "needle", "--length", "30", "--test-length", "30", "--test-length", "60", "--lines", "50"]
    assert main(["toy", *words, "--seed", "2", "--out", str(out)]) == 0
    write_task(tmp_path / "same", "needle", 30, lines=50, seed=2, test_lengths=(30, 60))
    assert read_folder(out) == read_folder(tmp_path / "same")
    assert capsys.readouterr().err.splitlines() == [
        f"wrote train.txt, valid.txt, test-30.tsv, test-60.tsv to {out}",
        f"next: headway train --text '{out}/train.txt' --valid-text '{out}/valid.txt' --set tokenizer=characters "
        "--out my-model",
    ]
    assert main(["toy", "--task", "recall", "--lines", "5", "--out", str(tmp_path / "recall")]) == 0
    assert sorted(read_folder(tmp_path / "recall")) == ["test-8.tsv", "train.txt", "valid.txt"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--length", "3"], 2, "--length needs --task."),
        (["--test-length", "3"], 2, "--test-length needs --task."),
        (["--lines", "20000"], 2, "--lines needs --task."),
        (
            ["--task", "copy", "--pairs", "8000"],
            2,
            "--pairs is for the corpus of two languages: with --task, give --lines",
        ),
        (["--task", "neddle"], 2, "'neddle' is not one of"),
        (["--task", "recall", "--length", "99"], 1, "it must be at least 1 and at most 52, not 99."),
    ],
)
def test_what_does_not_go_together(words: list[str], code: int, message: str, capsys: Capture, tmp_path: Path) -> None:
    assert main(["toy", *words, "--out", str(tmp_path / "out")]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
