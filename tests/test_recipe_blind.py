"""The blind rating of recipes/en-de: what is on the sheet, and what its ratings say."""

import csv
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RECIPE = Path(__file__).parents[1] / "recipes" / "en-de"


@pytest.fixture(scope="module")
def blind() -> ModuleType:
    spec = importlib.util.spec_from_file_location("blind", RECIPE / "blind.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(blind: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["blind.py", *map(str, words)])
    blind.main()


def test_the_sentences_are_two_hundred_of_many_registers(blind: ModuleType) -> None:
    sentences = blind.read_sentences(blind.SENTENCES)
    assert len(sentences) == len({one.text for one in sentences}) == 200
    counts = Counter((one.language, one.register) for one in sentences)
    assert set(counts.values()) == {10} and {language for language, _ in counts} == {"en", "de"}


def test_a_sheet_and_its_score(
    blind: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader who always prefers the longer translation prefers the model that writes it."""
    sentences = blind.read_sentences(blind.SENTENCES)
    files = {"short": tmp_path / "short.txt", "long": tmp_path / "long.txt"}
    files["short"].write_text("".join(f"{n}\n" for n in range(200)))
    files["long"].write_text("".join(f"{n}{'' if n % 4 == 0 else ' and more'}\n" for n in range(200)))
    out = tmp_path / "rating"
    outputs = [word for name, file in files.items() for word in ("--output", f"{name}={file}")]
    run(blind, monkeypatch, "sheet", *outputs, "--out", out)
    assert "150 sentences to rate; 50 are translated alike" in capsys.readouterr().out
    with open(f"{out}.tsv", newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file, delimiter="\t"))
    assert set(rows[0]) == set(blind.COLUMNS) and {row["better"] for row in rows} == {""}
    longer = ["A" if len(row["A"]) > len(row["B"]) else "B" for row in rows]
    assert 50 < longer.count("A") < 100, "in random order"
    assert all(row["sentence"] == sentences[int(row["number"]) - 1].text for row in rows)
    for row, better in zip(rows, longer):
        row["better"] = better.lower()
    rows[0]["better"], rows[1]["better"] = "=", ""
    with open(f"{out}.tsv", "w", newline="") as file:
        writer = csv.DictWriter(file, blind.COLUMNS, delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    run(blind, monkeypatch, "score", "--out", out)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["group\tshort\tlong\tequal\tby chance", "all\t0\t148\t1\t0.000"]
    assert lines[-1] == "translated alike: 50; not rated: 1"
    rows[2]["better"] = "C"
    with open(f"{out}.tsv", "w", newline="") as file:
        writer = csv.DictWriter(file, blind.COLUMNS, delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(SystemExit, match='is rated "C": write A, B or ='):
        run(blind, monkeypatch, "score", "--out", out)


def test_what_is_given_wrongly(blind: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "few.txt").write_text("one\n")
    with pytest.raises(SystemExit, match="has 1 lines for 200 sentences"):
        run(blind, monkeypatch, "sheet", "--output", f"a={tmp_path / 'few.txt'}", "--out", tmp_path / "x")
    with pytest.raises(SystemExit):
        run(blind, monkeypatch, "sheet", "--out", tmp_path / "x")


def test_the_sign_test(blind: ModuleType) -> None:
    """As scipy.stats.binomtest has it."""
    scipy = pytest.importorskip("scipy.stats")
    for wins, losses in ((8, 2), (5, 5), (60, 40), (1, 0)):
        assert blind.sign_test(wins, losses) == pytest.approx(scipy.binomtest(wins, wins + losses).pvalue)
    assert blind.sign_test(0, 0) == 1.0


def test_a_model_translates_both_languages(
    blind: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import headway

    class Upper:
        def __call__(self, texts: list[str], source: str, target: str) -> list[str]:
            return [f"{target}: {text}" for text in texts]

    monkeypatch.setattr(headway, "load_translator", lambda model, source, target: Upper())
    (tmp_path / "plain.txt").write_text("".join(f"{one.text}\n" for one in blind.read_sentences(blind.SENTENCES)))
    given = ["--output", f"a={tmp_path / 'plain.txt'}", "--model", "b=en-de"]
    run(blind, monkeypatch, "sheet", *given, "--out", tmp_path / "sheet")
    key = json.loads((tmp_path / "sheet.key.json").read_text())
    assert key["models"] == ["a", "b"] and len(key["A"]) == 200
    text = (tmp_path / "sheet.tsv").read_text()
    assert "de: Too sweet for my taste." in text and "en: Vor Gebrauch gut schütteln." in text
