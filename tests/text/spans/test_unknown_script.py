"""Words that a model cannot say, and signs that only a printer needs."""

import time

import pytest

from headway.text.spans.protect import make_protector
from headway.text.spans.unknown_script import make_unknown_script_pattern, normalise_typography
from headway.text.tokenizer.tokenizer import Tokenizer

ENGLISH_AND_GERMAN = frozenset({"en", "de"})


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("The Hebrew word שלום means peace.", ["שלום"]),
        ("He said שלום עולם, and left.", ["שלום עולם"]),
        ("Mr. Иванов lives in Москва.", ["Иванов", "Москва"]),
        ("R = 5 kΩ, π and μ-waves", ["kΩ", "π", "μ"]),
        ("これは本です。 is Japanese.", ["これは本です"]),
        ("Nguyễn Văn Thiệu", ["Nguyễn", "Thiệu"]),
        ("{имя} of `имя`", ["{имя}", "`имя`"]),
        ("Dvořák, Łódź, Erdoğan and Straße", []),
        ("Nothing — “at all” … 5 €, 20 °C, 3 ≥ 2", []),
    ],
)
def test_what_is_strange(text: str, spans: list[str]) -> None:
    keeper = make_protector((), make_unknown_script_pattern(ENGLISH_AND_GERMAN, frozenset("abc")))
    assert [found[0] for found in keeper.find_spans(text)] == spans


def test_a_language_knows_its_letters() -> None:
    russian = make_unknown_script_pattern(frozenset({"ru", "en"}), frozenset())
    assert russian is not None
    assert russian.findall("Иванов, Ψυχή and ш") == ["Ψυχή"]
    serbian = make_unknown_script_pattern(frozenset({"sr-Latn", "en"}), frozenset())
    assert serbian is not None and serbian.search("Ниш") is None


def test_a_vocabulary_knows_its_letters() -> None:
    tokenizer = Tokenizer.train(["Ștefan și Ștefan și ștefan"] * 20, "bpe(400)")
    assert {"ș", "Ș"} <= tokenizer.characters
    assert not {"ễ", "π"} & tokenizer.characters
    romanian = make_unknown_script_pattern(frozenset({"ro", "en"}), tokenizer.characters)
    assert romanian is not None
    assert romanian.findall("Ștefan și Nguyễn") == ["Nguyễn"]


def test_nobody_knows_what_is_strange_to_a_nameless_language() -> None:
    assert make_unknown_script_pattern(frozenset(), frozenset()) is None


def test_printers_signs_are_taken_out() -> None:
    assert (
        normalise_typography("The ﬁrst ﬂower is eﬀec\u00adtive, faﬅ and e\u200bven ﬃ")
        == "The first flower is effective, fast and even ffi"
    )


@pytest.mark.parametrize("part", ["ш", "ш ", "aш, ", "a", "ш' ", "ä "])
def test_no_line_takes_long(part: str) -> None:
    keeper, started = (
        make_protector((), make_unknown_script_pattern(ENGLISH_AND_GERMAN, frozenset())),
        time.process_time(),
    )
    keeper.mask(part * 30_000 + "ä")
    assert time.process_time() - started < 3


def test_signs_for_printers_and_terminals_are_no_letters() -> None:
    assert (
        normalise_typography("\ufeffef\u00adfective o\ufb03ce mor\0ning\x07 \x9bthere")
        == "effective office morning there"
    )
    assert (
        normalise_typography("a\tb\nc\x0bd\x0ce\x1b[1mf\x85g") == "a\tb\nc\x0bd\x0ce\x1b[1mf\x85g"
    )  # spaces, lines and colours
