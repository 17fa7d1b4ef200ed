"""Our numbers are those of the sacreBLEU command line, and say so."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.errors import HeadwayError
from headway.text import bleu_tokenization
from headway.text.metrics import compute_scores, find_best_and_worst, paired_bootstrap

REFERENCES = [
    "The dog sees the red house.",
    "Anna won't buy 3.5 apples, because they're bad.",
    'He said: "Where are my keys?"',
    "It is well-known that dogs bark.",
    "Good morning!",
] * 4
BETTER = [
    "The dog sees a red house.",
    "Anna won't buy 3.5 apples because they're bad.",
    'He said: "Where are our keys?"',
    "It is well-known that the dogs bark.",
    "good morning!",
] * 4
WORSE = ["A dog saw a house.", "Anna buys apples.", "Where?", "Dogs are known.", "Morning!"] * 4


def command_line(folder: Path, *arguments: str) -> str:
    """What `sacrebleu` prints."""
    for name, lines in {"ref": REFERENCES, "better": BETTER, "worse": WORSE}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", *arguments, "--width", "8"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, []),
        ({"lowercase": True}, ["--lowercase", "--chrf-lowercase"]),
        ({"tokenize": "none"}, ["--tokenize", "none", "--force"]),
    ],
    ids=["default", "lowercase", "untokenised"],
)
def test_scores_are_those_of_the_command_line(tmp_path: Path, options: dict[str, Any], arguments: list[str]) -> None:
    printed = command_line(tmp_path, "-i", "better", "-m", "bleu", "chrf", "--format", "json", *arguments)
    bleu, chrf = json.loads(printed)
    ours = compute_scores(BETTER, REFERENCES, **options)
    assert ours.bleu == pytest.approx(bleu["score"], abs=1e-7)
    assert ours.bleu_signature == bleu["signature"]
    assert ours.bleu_line == f"BLEU|{bleu['signature']} = {ours.bleu:.2f} {bleu['verbose_score']}"
    assert ours.chrf == pytest.approx(chrf["score"], abs=1e-7)
    assert ours.chrf_signature == chrf["signature"]
    assert ours.chrf_line == f"chrF2|{chrf['signature']} = {ours.chrf:.2f}"


def test_the_parts_of_bleu_multiply_to_it() -> None:
    found = compute_scores(WORSE, REFERENCES)
    assert found.length_ratio < 1
    assert 0 < found.brevity_penalty < 1
    product = 1.0
    for precision in found.precisions:
        product *= precision
    assert found.bleu == pytest.approx(found.brevity_penalty * product**0.25)


def test_moses_tokens_are_scored_as_they_are_and_named_in_the_signature() -> None:
    import sacremoses

    found = compute_scores(["Anna isn't here."], ["Anna isn't there."], tokenize="moses")
    tokens = compute_scores(["Anna isn 't here ."], ["Anna isn 't there ."], tokenize="none")
    assert found.bleu == tokens.bleu
    assert f"|tok:moses-en-sacremoses-{sacremoses.__version__}|" in found.bleu_signature
    assert found.bleu_signature in found.bleu_line
    german = compute_scores(["Anna isn't here."], ["Anna isn't there."], tokenize="moses:de", lowercase=True)
    assert german.bleu == compute_scores(["anna isn ' t here ."], ["anna isn ' t there ."], tokenize="none").bleu
    assert "|case:lc|" in german.bleu_signature
    assert "|tok:moses-de-" in german.bleu_signature


def test_moses_without_sacremoses_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(HeadwayError, match="needs sacremoses: pip install sacremoses"):
        compute_scores(["a"], ["a"], tokenize="moses")


def test_unknown_tokens_unequal_and_empty_texts_are_refused() -> None:
    with pytest.raises(HeadwayError, match='tokenize is "mosses": it can be "auto", "13a", .*"moses" or'):
        compute_scores(["a"], ["a"], tokenize="mosses")
    with pytest.raises(HeadwayError, match="there are 1,200 hypotheses and 1 references"):
        compute_scores(["a"] * 1200, ["a"])
    with pytest.raises(HeadwayError, match="there are no hypotheses to score"):
        compute_scores([], [])
    with pytest.raises(HeadwayError, match="there are 2 hypotheses of B and 1 references"):
        paired_bootstrap(["a"], ["a", "b"], ["a"])
    with pytest.raises(HeadwayError, match="there are 0 hypotheses and 1 references"):
        find_best_and_worst([], ["a"], 1)


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_the_paired_bootstrap_is_that_of_the_command_line(tmp_path: Path, metric: Any) -> None:
    printed = command_line(
        tmp_path, "-i", "better", "worse", "-m", metric, "--paired-bs", "--paired-bs-n", "200", "--format", "text"
    )
    ours = paired_bootstrap(BETTER, WORSE, REFERENCES, metric=metric, samples=200)
    rows = re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", printed)
    assert len(rows) == 2
    for interval, row in zip((ours.a, ours.b), rows):
        found = (interval.score, interval.mean, interval.half_width)
        assert found == pytest.approx([float(number) for number in row], abs=1e-5)
    assert f"(p = {ours.p_value:.4f})" in printed
    assert ours.p_value < 0.05
    assert ours.signature in printed


def test_a_system_does_not_differ_from_itself() -> None:
    assert paired_bootstrap(BETTER, list(BETTER), REFERENCES, samples=50).p_value == 1
    nothing = [["x" for _ in REFERENCES], ["y" for _ in REFERENCES]]  # both score 0
    assert paired_bootstrap(*nothing, REFERENCES, samples=50).p_value == 1


def test_the_seed_decides_and_the_environment_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    first, second, third = (
        paired_bootstrap(BETTER, WORSE, REFERENCES, samples=50, seed=seed, tokenize="moses") for seed in (1, 1, 2)
    )
    assert first == second != third
    assert "tok:moses-en" in first.signature
    assert os.environ["SACREBLEU_SEED"] == "99"
    monkeypatch.delenv("SACREBLEU_SEED")
    paired_bootstrap(BETTER, WORSE, REFERENCES, samples=1)
    assert "SACREBLEU_SEED" not in os.environ


def test_what_the_bootstrap_cannot_do_is_refused() -> None:
    with pytest.raises(HeadwayError, match='metric is "nist": it can be bleu, chrf'):
        paired_bootstrap(["a"], ["a"], ["a"], metric="nist")
    with pytest.raises(HeadwayError, match="samples is 0 and seed is 12345: both must be 1 or more"):
        paired_bootstrap(["a"], ["a"], ["a"], samples=0)
    with pytest.raises(HeadwayError, match="samples is 1000 and seed is 0"):
        paired_bootstrap(["a"], ["a"], ["a"], seed=0)


def test_best_and_worst_lines() -> None:
    hypotheses = ["the same", "nothing", "the same", "the sane"]
    references = ["the same", "utterly other", "the same", "the same"]
    best, worst = find_best_and_worst(hypotheses, references, 2)
    assert [line.number for line in best] == [1, 3]
    assert [line.number for line in worst] == [2, 4]
    assert best[0].chrf == 100
    assert worst[0].hypothesis == "nothing"
    assert worst[0].reference == "utterly other"


def test_scoring_needs_no_torch() -> None:
    code = "import sys, headway.text.metrics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


JAPANESE = ["今日は天気がいいので散歩に行きました。"]


@pytest.mark.parametrize(
    ("language", "lines", "expected"),
    [
        ("de", ["Guten Tag"], "13a"),
        ("zh", [], "zh"),
        ("zh_CN", [], "zh"),
        ("cmn-Hant", [], "zh"),
        ("ja", [], "ja"),
        ("tha_Thai", [], "char"),
        ("", ["今天天气很好，我们去散步。"], "zh"),
        ("", JAPANESE, "ja"),
        ("", ["오늘은 날씨가 좋아요."], "ko"),
        ("", ["วันนี้อากาศดี"], "char"),
        ("", ["See 今天"], "13a"),
        ("", ["1, 2, 3"], "13a"),
        ("", [], "13a"),
    ],
)
@pytest.mark.parametrize("has_mecab", [False, True])
def test_languages_without_spaces_are_cut_in_their_own_way(
    monkeypatch: pytest.MonkeyPatch, language: str, lines: list[str], expected: str, has_mecab: bool
) -> None:
    monkeypatch.setattr(bleu_tokenization, "find_spec", lambda name: object() if has_mecab else None)
    if expected in ("ja", "ko"):
        expected = f"{expected}-mecab" if has_mecab else "char"
    assert bleu_tokenization.choose_tokenization(language, lines) == expected


def test_a_perfect_japanese_output_has_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that differs in a word has less, but not nothing, as it would have as one long word."""
    monkeypatch.setattr(bleu_tokenization, "find_spec", lambda name: None)
    assert compute_scores(JAPANESE, JAPANESE, tokenize="auto").bleu == pytest.approx(100)
    near = compute_scores([JAPANESE[0].replace("散歩", "買物")], JAPANESE, tokenize="auto")
    assert 50 < near.bleu < 100
    assert "|tok:char|" in near.bleu_signature
    with pytest.raises(HeadwayError, match=r'needs MeCab: pip install "sacrebleu\[ja\]", or count characters'):
        compute_scores(JAPANESE, JAPANESE, tokenize="ja-mecab")
