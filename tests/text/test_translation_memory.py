"""The translation memory: exact and similar texts, and the files that it reads."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.text import translation_memory
from headway.text.translation_memory import TranslationMemory, edit_distance

UNITS = [
    {"en": "Page 3 of 10.", "de": "Seite 3 von 10."},
    {"en": "The dog sleeps.", "de": "Der Hund schläft.", "fr": "Le chien dort."},
    {"en": "The dog sleeps.", "de": "Der Hund pennt."},
    {"en": "Only here."},
    {"en": "Since 3 to 3 days", "de": "Seit 3 bis 3 Tagen"},
    {"en": "It costs 1,000.50.", "de": "Es kostet 1.000,50."},
]


def naive_distance(one: list[str], other: list[str]) -> int:
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, row[0] = row[:], i
        for j, b in enumerate(other, 1):
            row[j] = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b))
    return row[-1]


@given(st.lists(st.sampled_from("abc"), max_size=80), st.lists(st.sampled_from("abc"), max_size=80))
def test_the_edit_distance_is_that_of_the_table(one: list[str], other: list[str]) -> None:
    assert edit_distance(one, other) == naive_distance(one, other)


def test_exact_texts_and_those_with_other_numbers() -> None:
    index = TranslationMemory(UNITS).for_direction("en", "de")
    assert index.find_exact("  The dog\tsleeps. ") == "Der Hund pennt."  # the later one
    assert index.find_exact("Page 12 of 3.5.") == "Seite 12 von 3.5."
    assert index.find_exact("Only here.") is None
    assert index.find_exact("Since 4 to 5 days") is None  # which 3 is which?
    assert index.find_exact("It costs 2,000.50.") is None  # numbers are written otherwise
    assert index.find_exact("the dog sleeps.") is None


def test_similar_texts() -> None:
    index = TranslationMemory(UNITS).for_direction("en", "de")
    (match,) = index.find_similar("The big dog sleeps.")
    assert (match.source, match.target) == ("The dog sleeps.", "Der Hund pennt.")
    assert match.similarity == pytest.approx(0.8)
    assert index.find_similar("The big dog sleeps.", 0.85) == []
    assert index.find_similar("") == index.find_similar("Something else entirely") == []
    assert len(index.find_similar("The dog sleeps on page 3.", 0.1, 2)) == 2


def test_languages_are_found_or_asked_for() -> None:
    memory = TranslationMemory(UNITS[:1] + UNITS[4:], "my.tmx")
    assert memory.for_direction("en-GB", "de_AT").find_exact("Page 3 of 10.") == "Seite 3 von 10."
    assert memory.for_direction().find_exact("Page 3 of 10.") == "Seite 3 von 10."
    assert memory.for_direction("de", "en").find_exact("Seite 3 von 10.") == "Page 3 of 10."
    with pytest.raises(HeadwayError, match='my.tmx has no texts in "fr". Its languages: en, de. Name yours'):
        memory.for_direction("en", "fr")
    with pytest.raises(HeadwayError, match="memory has several languages, and the source is unknown"):
        TranslationMemory(UNITS).for_direction()
    assert repr(memory) == "TranslationMemory(my.tmx, 3 units: en, de)"


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(
        '<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header srclang="en"/><body><tu>'
        '<tuv xml:lang="en"><seg>A <bpt i="1">&lt;b&gt;</bpt>big<ept i="1">x</ept> <hi>dog</hi> &amp; <ph>0</ph>'
        '</seg></tuv><tuv lang="de"><seg>Ein großer Hund</seg></tuv></tu></body></tmx>'
    )
    assert TranslationMemory.load(path).units == [{"en": "A big dog &", "de": "Ein großer Hund"}]
    (tmp_path / "a.tsv").write_text("one\teins\n\ntwo\tzwei\n")
    assert TranslationMemory.load(tmp_path / "a.tsv").for_direction("x", "y").find_exact("two") == "zwei"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tmx", "<tmx><body>", "a.tmx is damaged"),
        ("a.tmx", "<html/>", "is not a TMX file: it has no <tmx>"),
        ("a.tmx", '<!DOCTYPE tmx [<!ENTITY a "b">]><tmx>&a;</tmx>', "is refused: it declares entities"),
        ("a.tsv", "one two\n", "line 1: each line must be a text, a tab and its translation"),
        ("a.tmx", "<tmx><tu/><tu/><tu/></tmx>", "has more than 2 units, the limit of a memory"),
    ],
)
def test_bad_files(name: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation_memory, "MAX_UNITS", 2)
    (tmp_path / name).write_text(text)
    with pytest.raises(HeadwayError, match=message):
        TranslationMemory.load(tmp_path / name)
