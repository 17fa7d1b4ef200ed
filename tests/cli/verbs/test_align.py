"""headway align, and headway translate --align."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.cli.app import main
from headway.data.toy import toy_corpus
from headway.text.align.aligner import train_aligner
from headway.text.align.words import format_moses_links
from headway.translate.options import TranslateOptions

Capture = pytest.CaptureFixture[str]
PAIRS = [(pair.source, pair.target) for pair in toy_corpus(120)[20:]]
LINKS = re.compile(r"(\d+-\d+( \d+-\d+)*)?")


def run(capsys: Capture, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main([*arguments]) == code
    return capsys.readouterr()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("pairs")
    pairs = [*PAIRS[:60], ("", "Kavu."), ("A dog.", "  ")]
    for name, side in (("a.en", 0), ("a.qtx", 1)):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    (folder / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    return [str(folder / name) for name in ("a.en", "a.qtx", "a.tsv")]


# ---- pairs that are there already


def test_by_counting(capsys: Capture, files: list[str], tmp_path: Path) -> None:
    out, err = run(capsys, "align", "--source", files[0], "--target", files[1])
    pairs = [*PAIRS[:60], ("", "Kavu."), ("A dog.", "")]
    assert out == "".join(f"{format_moses_links(own)}\n" for own in train_aligner(pairs).align(pairs))
    assert err == "warning: learned from only 62 pairs: alignments are unreliable. Give more pairs, or --model\n"
    assert run(capsys, "align", "--pairs", files[2])[0] == out
    assert run(capsys, "align", "--pairs", files[2], "--columns", "1,2")[0] == out
    assert run(capsys, "align", "--pairs", files[2], "--columns", "2,1")[0] != out
    saved = tmp_path / "links"
    assert run(capsys, "align", "--pairs", files[2], "--output", str(saved))[0] == ""
    assert saved.read_text() == out


def test_standard_input_can_be_learned_from(
    capsys: Capture, files: list[str], run_headway: Callable[..., "object"]
) -> None:
    """It is read twice, though it comes only once."""
    text = Path(files[0]).read_text(encoding="utf-8")
    ran = run_headway("-q", "align", "--source", "-", "--target", files[1], input=text)
    assert ran.returncode == 0, ran.stderr  # type: ignore[attr-defined]
    assert ran.stdout == run(capsys, "align", "--source", files[0], "--target", files[1])[0]  # type: ignore[attr-defined]


def test_by_a_model(capsys: Capture, translator_dir: Path, files: list[str]) -> None:
    out, err = run(capsys, "align", "--model", str(translator_dir), "--source", files[0], "--target", files[1])
    translator = headway.load(translator_dir)
    assert out.splitlines() == [
        format_moses_links(links) for links in translator.align([*PAIRS[:60], ("", "x"), ("x", "")])
    ]
    warning = "this model was not trained to align, so alignments are unreliable. Train with train.alignment=guided"
    assert err == f"warning: {warning}\n"


def test_one_pair(capsys: Capture, translator_dir: Path) -> None:
    out, _ = run(capsys, "align", "--model", str(translator_dir), *PAIRS[0])
    assert LINKS.fullmatch(out.strip()) and out.count("\n") == 1 and out.strip()


def test_a_pair_that_is_too_long_is_told(
    capsys: Capture, translator_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.translate.alignment.MAX_ALIGNED_TOKENS", 64)
    out, err = run(capsys, "align", "--model", str(translator_dir), "dog " * 200, "kavu")
    assert out == "\n"
    assert "line 1: not aligned: it has " in err and "reads at most 64" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["A dog.", "Kavu."], "one pair is too little to learn an aligner from: give --model, or files."),
        ([], "give one source and its target as text, or --source and --target, or --pairs."),
        (["--source", "a"], "give one source and its target as text, or --source and --target, or --pairs."),
    ],
)
def test_wrong_usage(capsys: Capture, arguments: list[str], message: str) -> None:
    _, err = run(capsys, "align", *arguments, code=2)
    assert message in err and "headway align --help" in err


def test_a_tokenizer_that_forgets_spaces_is_refused(capsys: Capture, train_toy: Callable[..., Path]) -> None:
    model = train_toy("--set", "tokenizer=wordpiece(512)", "--set", "train.steps=2", "--set", "train.validate_every=2")
    capsys.readouterr()
    _, err = run(capsys, "translate", "--model", str(model), "--align", "A dog.", code=2)
    assert 'alignments count words between spaces, and "wordpiece" loses spaces' in err


# ---- translate --align


def test_links_follow_the_translation(capsys: Capture, translator_dir: Path) -> None:
    source = f"{PAIRS[0][0]} {PAIRS[1][0]}"
    out, err = run(capsys, "translate", "--model", str(translator_dir), "--align", source, "")
    translated, links = out.splitlines()[0].split(" ||| ")
    assert LINKS.fullmatch(links) and links
    assert out.splitlines()[1] == " |||"
    found = headway.load(translator_dir).translate([source], TranslateOptions(align=True))[0]
    assert (translated, links) == (found.text, format_moses_links(found.guesses[0].alignment or []))
    assert err.count("so alignments are unreliable") == 1


def test_with_scores_and_n_best(capsys: Capture, translator_dir: Path) -> None:
    arguments = ["translate", "--model", str(translator_dir), "--align", PAIRS[0][0]]
    out, _ = run(capsys, *arguments, "--scores")
    score, rest = out.rstrip("\n").split("\t")
    assert float(score) < 0 and LINKS.fullmatch(rest.split(" ||| ")[1])
    out, _ = run(capsys, *arguments, "--n-best", "2")
    assert len(out.splitlines()) == 2
    for line in out.splitlines():
        number, text, score, links = line.split(" ||| ")
        assert number == "0" and text and float(score) < 0 and LINKS.fullmatch(links)


def test_as_json(capsys: Capture, translator_dir: Path) -> None:
    arguments = ["translate", "--model", str(translator_dir), "--json", PAIRS[0][0]]
    assert "alignment" not in json.loads(run(capsys, *arguments)[0])
    found = json.loads(run(capsys, *arguments, "--align", "--n-best", "2")[0])
    assert found["alignment"] == found["n_best"][0]["alignment"]
    assert all(len(link) == 2 for guess in found["n_best"] for link in guess["alignment"])
