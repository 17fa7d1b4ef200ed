"""Validation text that is trained on is noticed, on both sides and on one."""

from pathlib import Path

import pytest

from headway.train import overlap as module
from headway.train.overlap import Overlap, count_pair_overlap, describe_overlap
from headway.train.sources import TrainingFiles, read_texts

LONG = "This sentence has more than six words."


def write(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return str(path)


def test_both_sides_and_one_side_are_counted(tmp_path: Path) -> None:
    valid = [("One.", "Eins."), ("Two.", "Zwei."), (LONG, "Etwas."), ("Three.", LONG + "x"), ("Four.", "Vier.")]
    training = [("Eins.", "One."), ("Two.", "Nichts."), (LONG, "Anderes."), ("x", LONG + "x"), ("A.", "B.")]
    assert count_pair_overlap(training, valid) == Overlap(5, 1, 2)  # either way round; short sides are chance
    texts = read_texts(
        TrainingFiles(pairs=[write(tmp_path / "a.tsv", training)], valid_pairs=[write(tmp_path / "v.tsv", valid)])
    )
    [warning] = texts.warnings
    assert warning.startswith(
        "of 5 validation pairs, 1 (20.0%) and 2 (40.0%) with one side are in the training text too: validation is too"
    )


def test_both_ways_are_read_once_and_nothing_is_said_without_overlap(tmp_path: Path) -> None:
    files = TrainingFiles(
        pairs=[write(tmp_path / "a.en-de.tsv", [("One.", "Eins."), ("Two.", "Zwei.")])],
        valid_pairs=[write(tmp_path / "v.en-de.tsv", [("Two.", "Zwei.")])],
        both_ways=True,
    )
    [warning] = read_texts(files).warnings
    assert warning.startswith("of 1 validation pairs, 1 (100.0%) are in the training text too")
    assert describe_overlap(Overlap(10, 0, 0), "pair") == ""
    files = TrainingFiles(pairs=files.pairs, valid_pairs=[write(tmp_path / "w.en-de.tsv", [("Six.", "Sechs.")])])
    assert read_texts(files).warnings == []


def test_lines_of_running_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"One.\n {LONG}\n\n")
    (tmp_path / "v.txt").write_text(f"One.\n{LONG}\nAnother one that is not in the other text.\n")
    texts = read_texts(TrainingFiles(text=[str(tmp_path / "a.txt")], valid_text=[str(tmp_path / "v.txt")]))
    [warning] = texts.warnings
    assert warning.startswith("of 2 validation lines, 1 (50.0%) are in the training text too")


def test_only_so_many_pairs_are_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COMPARED_PAIRS", 3)
    pairs = [(f"{number}", f"{number}.") for number in range(9)]
    assert count_pair_overlap(pairs, pairs) == Overlap(3, 3, 0)
