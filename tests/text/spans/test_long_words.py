"""Words of hundreds of characters stay as they are; reading takes time linear in a text, whatever is in it."""

import re

import pytest

from headway.text.segment.long_sentences import split_long_sentence
from headway.text.spans.long_words import MAX_WORD_CHARACTERS, describe_long_words, find_long_words
from headway.text.spans.protect import make_protector

LONG = MAX_WORD_CHARACTERS + 1


@pytest.mark.parametrize(
    "word", ["a" * LONG, "\u0301" * LONG, "a\u0301" * LONG, "x-y_z/'" * LONG, "Qm9v+/=" * LONG, "é" * LONG, "한" * LONG]
)
def test_a_word_that_nobody_could_translate_is_protected(word: str) -> None:
    masked, spans = make_protector().mask(f"See {word} here.")
    assert (masked, spans) == ("See ⟦0⟧ here.", [word])
    assert describe_long_words(spans) == [f"a word of {len(word):,} characters was left as it is"]
    both = make_protector().mask(f"{word} and {word}")[1]
    assert describe_long_words(both) == [f"2 words of up to {len(word):,} characters were left as they are"]


@pytest.mark.parametrize(
    "text",
    ["a" * MAX_WORD_CHARACTERS, "日本語" * LONG, "ภาษาไทย" * LONG, "one,two;" * LONG, "(a) " * LONG, "ab " * LONG, ""],
)
def test_other_texts_are_not(text: str) -> None:
    assert find_long_words(text) == []


def test_a_long_url_is_no_word() -> None:
    url = f"https://example.org/{'a' * LONG}"
    assert make_protector().mask(f"See {url} and {{x}}.")[1] == [url, "{x}"]
    assert describe_long_words([url]) == []


def test_what_lies_between_other_spans_is_found() -> None:
    word = "a" * LONG
    assert make_protector().mask(f"{{x}}{word}{{y}} {word}<b>")[1] == ["{x}", word, "{y}", word, "<b>"]
    taken = list(re.finditer("b", f"{word}b{word}"))
    assert [match[0] for match in find_long_words(f"{word}b{word}", taken)] == [word, word]


def test_a_long_sentence_is_measured_a_few_times_a_piece() -> None:
    """Without a space, and with many: the characters that are measured grow with the text, and not with its square."""
    for unit in ("ab,", "word ", "x(", "⟦1⟧", "\u0301", "👩\u200d"):
        measured = []
        for count in (2000, 8000):
            total = 0

            def length(piece: str) -> int:
                nonlocal total
                total += len(piece)
                return len(piece)

            assert "".join(before + text for before, text in split_long_sentence(unit * count, 100, length))
            measured.append(total)
        assert measured[1] < 6 * measured[0], unit
