"""Measuring: the numbers are sacreBLEU's on what was said."""

from pathlib import Path

import pytest
import sacrebleu

import headway
from headway.errors import HeadwayError
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator
from headway.workflows.evaluation import compare_evaluations, evaluate


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    found = headway.load(translator_dir)
    assert isinstance(found, Translator)
    return found


def read(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_the_scores_are_those_of_the_hypotheses(translator: Translator, toy: Path) -> None:
    source, target = read(toy / "test.en"), read(toy / "test.qtx")
    found = evaluate(translator, source, target)
    assert found.hypotheses == translator(source)
    assert found.scores.bleu == pytest.approx(sacrebleu.corpus_bleu(found.hypotheses, [target]).score)
    assert found.scores.chrf == pytest.approx(sacrebleu.corpus_chrf(found.hypotheses, [target]).score)
    assert found.sentences_per_second == pytest.approx(len(source) / found.seconds)
    assert found.tokens_per_second > found.sentences_per_second


def test_settings_reach_search_and_score(translator: Translator, toy: Path) -> None:
    source, target = read(toy / "train.en")[:8], [line.upper() for line in read(toy / "train.qtx")[:8]]
    greedy = TranslateOptions(search=translator.search(beam_size=1))
    cased = evaluate(translator, source, target, greedy)
    lower = evaluate(translator, source, target, greedy, lowercase=True, tokenize="none")
    assert lower.scores.bleu > cased.scores.bleu + 20
    assert "case:lc" in lower.scores.bleu_signature and "tok:none" in lower.scores.bleu_signature
    short = evaluate(translator, source, target, TranslateOptions(search=translator.search(max_length=2)))
    assert short.warnings == 8


def test_lines_are_split_or_not(translator: Translator, toy: Path) -> None:
    source, target = read(toy / "train.en"), read(toy / "train.qtx")
    pair = [" ".join(source[:2])], [" ".join(target[:2])]
    whole = TranslateOptions(split_sentences=False)
    assert evaluate(translator, *pair).scores.chrf > evaluate(translator, *pair, whole).scores.chrf


def test_a_line_break_in_a_line_shifts_nothing(translator: Translator, toy: Path) -> None:
    source = read(toy / "train.en")
    found = evaluate(translator, [f"{source[0]}\n{source[1]}"], ["x"])
    assert len(found.hypotheses) == 1
    assert "\n" not in found.hypotheses[0]


def test_comparison(translator: Translator, other_translator_dir: Path, toy: Path) -> None:
    source, target = read(toy / "train.en")[:40], read(toy / "train.qtx")[:40]
    other = headway.load(other_translator_dir)
    assert isinstance(other, Translator)
    first, second = evaluate(translator, source, target), evaluate(other, source, target)
    assert first.scores.bleu > second.scores.bleu
    assert compare_evaluations(first, second, target, lowercase=False, tokenize="13a").p_value < 0.05
    assert compare_evaluations(first, first, target, lowercase=False, tokenize="13a").p_value == 1


def test_nothing_to_measure(translator: Translator) -> None:
    with pytest.raises(HeadwayError, match=r"there are no hypotheses to score"):
        evaluate(translator, [], [])
