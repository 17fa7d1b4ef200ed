"""Distillation: what the teacher says becomes the target; references choose and drop."""

from pathlib import Path

import pytest

from headway.translate.results import Guess, Translation
from headway.translate.translator import Translator, load_translator
from headway.workflows.back_translation import Pair, Reason, Standards
from headway.workflows.distillation import Distillation, by_likeness, chrf, written_out


@pytest.fixture(scope="module")
def teacher(translator_dir: Path) -> Translator:
    return load_translator([translator_dir])


def way(teacher: Translator, **changes: object) -> Distillation:
    settings: dict[str, object] = {"search": teacher.search(beam_size=2), "standards": Standards(longest=60)}
    return Distillation(translator=teacher, **{**settings, **changes})  # type: ignore[arg-type]


def test_the_target_is_the_teachers_whatever_the_reference(teacher: Translator, toy: Path) -> None:
    lines, known = ((toy / f"train.{side}").read_text().splitlines()[:2] for side in ("en", "qtx"))
    given = [f"{lines[0]}\tsomething else", lines[1], "", " \tx", "dog " * 100]
    expected = [Pair(lines[0], known[0]), Pair(lines[1], known[1]), "blank", "blank", "long"]
    assert way(teacher).pairs(given) == expected
    assert way(teacher, least_chrf=50.0).pairs([f"{lines[0]}\tzzz", f"{lines[0]}\t{known[0]}"]) == [
        "unlike",
        Pair(lines[0], known[0]),
    ]


def test_a_span_is_a_part_of_the_text(teacher: Translator, toy: Path) -> None:
    lines = [f"{{x}} {line}" for line in (toy / "train.en").read_text().splitlines()[:20]]
    plain = teacher.translate(lines, teacher.search(beam_size=2), mend=False, protect=None)
    made = [(pair, Pair(one.source, one.text)) for pair, one in zip(way(teacher).pairs(lines), plain)]
    fit = [(pair, expected) for pair, expected in made if isinstance(pair, Pair)]
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
def test_choosing(teacher: Translator, guesses: list[str], closest: bool, found: str | Reason) -> None:
    made = Translation("a house is red .", [guess(text) for text in guesses])
    one = way(teacher, closest=closest)._pair([5, 6, 7], made, "ein Haus ist rot .")
    assert one == (Pair("a house is red .", found) if found != "empty" else "empty")


def test_of_equally_close_ones_the_likeliest() -> None:
    same = [guess("a b c"), guess("a b c", [1, 2])]
    assert by_likeness("a b c", same)[0] is same[0]
    assert by_likeness("a b c", [guess("a b x"), *same])[-1].text == "a b x"
    assert chrf("abc", "abc") == 100
    assert chrf("abc", "xyz") == 0


def test_what_is_written() -> None:
    found: list[Pair | Reason] = [Pair("a", "b"), "loop", Pair("c", "d")]
    assert written_out(found, "x.en-de.tsv.xz") == written_out(found, "") == "a\tb\nc\td\n"
    assert written_out(found, "x.de.xz") == "b\n\nd\n"
    assert written_out(found, "x.jsonl").count("\n") == 2
