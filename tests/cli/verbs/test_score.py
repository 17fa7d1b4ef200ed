"""headway score: one line a pair, in order, equal to what the library says."""

import json
from pathlib import Path
from typing import Any

import pytest

import headway.cli.verbs.score
from headway.cli.app import main
from headway.cli.terminal import open_output
from headway.files.text_files import read_lines
from headway.translate.translator import ScoredPair, Translator, load_translator

Capture = pytest.CaptureFixture[str]


def scored(capsys: Capture, model: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["score", "--model", str(model), *arguments]) == code
    return capsys.readouterr()


@pytest.fixture(scope="module")
def expected(translator_dir: Path, toy: Path) -> list[ScoredPair]:
    lines = [(toy / f"test.{side}").read_text().splitlines() for side in ("en", "qtx")]
    return load_translator(translator_dir).score(list(zip(*lines)))


def test_two_files(
    capsys: Capture, translator_dir: Path, toy: Path, expected: list[ScoredPair], monkeypatch: Any
) -> None:
    monkeypatch.setattr(headway.cli.verbs.score, "PAIRS_PER_GROUP", 7)  # several groups
    files = ("--source", str(toy / "test.en"), "--target", str(toy / "test.qtx"))
    out, err = scored(capsys, translator_dir, *files)
    assert [float(line) for line in out.splitlines()] == pytest.approx([s.logp for s in expected], rel=1e-5)
    assert err == ""
    out, _ = scored(capsys, translator_dir, *files, "--normalised", "--batch-tokens", "30")
    assert [float(line) for line in out.splitlines()] == pytest.approx([s.score for s in expected], rel=1e-5)
    out, _ = scored(capsys, translator_dir, *files, "--per-token")
    means = [s.logp / len(s.token_logps) for s in expected]
    assert [float(line) for line in out.splitlines()] == pytest.approx(means, rel=1e-4)


def test_one_file_with_both_sides_and_blank_ones(
    capsys: Capture, translator_dir: Path, toy: Path, expected: list[ScoredPair], tmp_path: Path
) -> None:
    pairs = [("", ""), (expected[0].source, expected[0].target), (" ", "\u3000"), (expected[1].source, "")]
    (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    out, _ = scored(capsys, translator_dir, "--pairs", str(tmp_path / "a.tsv"))
    numbers = [float(line) for line in out.splitlines()]
    assert numbers[0] == numbers[2] == 0
    assert numbers[1] == pytest.approx(expected[0].logp, rel=1e-5)
    assert numbers[3] < -1
    out, _ = scored(capsys, translator_dir, "--pairs", str(tmp_path / "a.tsv"), "--json")
    assert [json.loads(line)["logp"] for line in out.splitlines()] == pytest.approx(numbers)


def test_columns_follow_the_languages_of_the_model(
    capsys: Capture, translator_dir: Path, expected: list[ScoredPair], tmp_path: Path
) -> None:
    (tmp_path / "a.qtx-en.tsv").write_text(f"{expected[0].target}\t{expected[0].source}\n")
    out, _ = scored(capsys, translator_dir, "--pairs", str(tmp_path / "a.qtx-en.tsv"))
    assert float(out) == pytest.approx(expected[0].logp, rel=1e-5)
    (tmp_path / "a.jsonl").write_text(json.dumps({"a": expected[0].source, "b": expected[0].target}) + "\n")
    out, _ = scored(capsys, translator_dir, "--pairs", str(tmp_path / "a.jsonl"), "--columns", "a,b")
    assert float(out) == pytest.approx(expected[0].logp, rel=1e-5)


def test_json_of_one_pair_and_what_a_beam_reported(capsys: Capture, translator_dir: Path, toy: Path) -> None:
    source = (toy / "train.en").read_text().splitlines()[0]
    assert main(["translate", "--model", str(translator_dir), "--json", source]) == 0
    reported = json.loads(capsys.readouterr().out)
    out, _ = scored(capsys, translator_dir, source, reported["text"], "--json")
    found = json.loads(out)
    assert found["tokens"] == [*reported["tokens"], "⟨/s⟩"]
    for name in ("logp", "score"):
        assert found[name] == pytest.approx(reported[name], rel=1e-5)
    assert found["token_logps"] == pytest.approx(reported["token_logps"], abs=2e-5)
    assert found["logp"] == pytest.approx(sum(found["token_logps"]), abs=1e-5)
    assert (found["source"], found["target"], found["warnings"]) == (source, reported["text"], [])


def test_a_pair_that_is_too_long_keeps_its_line(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n" + "a " * 5000 + "\tb\na\tb\n")
    arguments = ("--pairs", str(tmp_path / "a.tsv"))
    out, err = scored(capsys, translator_dir, *arguments)
    first, second, third = out.splitlines()
    assert (first, second) == (third, "nan")
    assert "warning: line 2: not scored: it has" in err
    out, _ = scored(capsys, translator_dir, *arguments, "--json")
    assert [json.loads(line)["logp"] is None for line in out.splitlines()] == [False, True, False]
    assert json.loads(out.splitlines()[1])["score"] is None


def test_into_a_file(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    out, _ = scored(capsys, translator_dir, "a", "b", "--output", str(tmp_path / "out"))
    assert out == ""
    assert float((tmp_path / "out").read_text()) < 0


CHOOSE = "error: give one source and its target as text, or --source and --target, or --pairs."


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, CHOOSE),
        (["a"], 2, CHOOSE),
        (["a", "b", "c"], 2, CHOOSE),
        (["a", "b", "--pairs", "x.tsv"], 2, CHOOSE),
        (["--source", "x"], 2, CHOOSE),
        (["a", "b", "--columns", "1,2"], 2, "error: --columns needs --pairs."),
        (
            ["a", "b", "--normalised", "--per-token"],
            2,
            "error: --normalised and --per-token exclude each other: choose one.",
        ),
        (["a", "b", "--to", "de"], 1, 'error: this model does not translate to "de". It knows: qtx.'),
        (["--pairs", "none.tsv"], 1, "error: there is no file none.tsv."),
        (
            ["--pairs", "there.tsv", "--output", "./there.tsv"],
            2,
            "error: --out is one of the input files: choose another file.",
        ),
        (["--pairs", "there.txt"], 1, "error: there.txt: a file with both sides must end in one of"),
    ],
)
def test_what_is_wrong_is_said(
    capsys: Capture,
    translator_dir: Path,
    tmp_path: Path,
    monkeypatch: Any,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("there.tsv", "there.txt"):
        Path(name).write_text("a\tb\n")
    out, err = scored(capsys, translator_dir, *arguments, code=code)
    assert out == ""
    assert message in err
    assert Path("there.tsv").read_text() == "a\tb\n"


def test_memory_does_not_grow_with_the_file(
    capsys: Capture, translator_dir: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """However many pairs a file has, so many are in hand at a time."""
    (tmp_path / "a.tsv").write_text("a\tb\n" * 50)
    sizes: list[int] = []
    score = Translator.score
    monkeypatch.setattr(headway.cli.verbs.score, "PAIRS_PER_GROUP", 8)
    monkeypatch.setattr(
        Translator,
        "score",
        lambda self, pairs, **how: (sizes.append(len(pairs)), score(self, pairs, **how))[1],
    )
    out, _ = scored(capsys, translator_dir, "--pairs", str(tmp_path / "a.tsv"))
    assert len(out.splitlines()) == 50
    assert sizes == [8] * 6 + [2]


@pytest.mark.parametrize("ending", ["gz", "xz", "zst"])
def test_a_file_is_packed_as_its_name_says(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.txt.{ending}"
    with open_output(str(path)) as sink:
        sink.write("eins – ")
        sink.flush()
        sink.write("zwei\n")
    assert list(read_lines(path)) == ["eins – zwei"]
    with pytest.raises(KeyboardInterrupt), open_output(str(path)) as sink:
        sink.write("eins\n")
        raise KeyboardInterrupt
    assert list(read_lines(path)) == ["eins"], "what was written until then can be read"
