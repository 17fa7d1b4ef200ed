"""Distillation: what the teacher says becomes the target; references choose and drop."""

from pathlib import Path

import pytest

from headway.translate.options import TranslateOptions
from headway.translate.results import Guess, Translation
from headway.translate.translator import Translator, load_translator
from headway.workflows.back_translation import PairFilter, RejectReason, SyntheticPair
from headway.workflows.distillation import Distillation, format_distilled, sentence_chrf_score, sort_by_reference_bleu


@pytest.fixture(scope="module")
def teacher(translator_dir: Path) -> Translator:
    return load_translator(translator_dir)


def way(teacher: Translator, **changes: object) -> Distillation:
    options = TranslateOptions(search=teacher.search(beam_size=2))
    return Distillation(translator=teacher, options=options, pair_filter=PairFilter(max_tokens=60), **changes)  # type: ignore[arg-type]


def test_the_target_is_the_teachers_whatever_the_reference(teacher: Translator, toy: Path) -> None:
    lines, known = ((toy / f"train.{side}").read_text().splitlines()[:2] for side in ("en", "qtx"))
    given = [f"{lines[0]}\tsomething else", lines[1], "", " \tx", "dog " * 100]
    expected = [SyntheticPair(lines[0], known[0]), SyntheticPair(lines[1], known[1]), "blank", "blank", "long"]
    assert way(teacher).pairs(given) == expected
    assert way(teacher, min_chrf=50.0).pairs([f"{lines[0]}\tzzz", f"{lines[0]}\t{known[0]}"]) == [
        "unlike",
        SyntheticPair(lines[0], known[0]),
    ]


def test_a_span_is_a_part_of_the_text(teacher: Translator, toy: Path) -> None:
    lines = [f"{{x}} {line}" for line in (toy / "train.en").read_text().splitlines()[:20]]
    plain = teacher.translate(lines, TranslateOptions(search=teacher.search(beam_size=2), retry=False, protect=None))
    made = [(pair, SyntheticPair(one.source, one.text)) for pair, one in zip(way(teacher).pairs(lines), plain)]
    fit = [(pair, expected) for pair, expected in made if isinstance(pair, SyntheticPair)]
    assert fit and all(pair == expected for pair, expected in fit)


def guess(text: str, tokens: list[int] | None = None) -> Guess:
    return Guess(text, 0.0, -1.0, tokens or [8, 9, 10], [-0.1] * 3)


@pytest.mark.parametrize(
    ("guesses", "closest", "found"),
    [
        (["das Haus ist rot .", "ein Haus ist rot ."], False, "das Haus ist rot ."),
        (["das Haus ist rot .", "ein Haus ist rot ."], True, "ein Haus ist rot ."),
        (["", "ein Haus ist rot ."], False, "empty"),
        (["", "ein Haus ist rot ."], True, "ein Haus ist rot ."),  # one that is sound is taken, wherever it stands
        (["", " "], True, "empty"),
    ],
)
def test_choosing(teacher: Translator, guesses: list[str], closest: bool, found: str | RejectReason) -> None:
    made = Translation("a house is red .", [guess(text) for text in guesses])
    one = way(teacher, closest=closest)._make_pair([5, 6, 7], made, "ein Haus ist rot .")
    assert one == (SyntheticPair("a house is red .", found) if found != "empty" else "empty")


def test_of_equally_close_ones_the_likeliest() -> None:
    same = [guess("a b c"), guess("a b c", [1, 2])]
    assert sort_by_reference_bleu("a b c", same)[0] is same[0]
    assert sort_by_reference_bleu("a b c", [guess("a b x"), *same])[-1].text == "a b x"
    assert sentence_chrf_score("abc", "abc") == 100
    assert sentence_chrf_score("abc", "xyz") == 0


def test_what_is_written() -> None:
    found: list[SyntheticPair | RejectReason] = [SyntheticPair("a", "b"), "loop", SyntheticPair("c", "d")]
    assert format_distilled(found, "x.en-de.tsv.xz") == format_distilled(found, "") == "a\tb\nc\td\n"
    assert format_distilled(found, "x.de.xz") == "b\n\nd\n"
    assert format_distilled(found, "x.jsonl").count("\n") == 2
