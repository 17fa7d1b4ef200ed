"""Sentences are joined as the target language writes them, whatever the source does."""

import pytest

from headway.text.segment.sentence_spacing import adapt_spacing


@pytest.mark.parametrize(
    ("before", "left", "right", "expected"),
    [
        ("", "This is one.", "That is two.", " "),
        ("", "“This is one.”", "“That is two.”", " "),
        (" ", "这是一。", "那是二。", ""),  # to Chinese
        (" ", "「这是一。」", "「那是二。」", ""),
        (" ", "これは一です！", "それは二です。", ""),
        ("", "这是一。", "那是二。", ""),
        (" ", "This is one.", "That is two.", " "),
        (" ", "“One.”", "“Two.”", " "),  # these marks stand in every language
        (" ", "이것은 하나입니다.", "저것은 둘입니다.", " "),  # Korean has spaces
        (" ", "用 Python。", "Python 是语言。", ""),
        (" ", "This is one.", "那是二。", " "),
        ("\n", "这是一。", "那是二。", "\n"),
        ("    ", "这是一。", "那是二。", "    "),
        ("", "", "Hello.", ""),
        ("", "Hello.", "", ""),
        (" ", "", "。", " "),
        ("", "One. ", "Two.", ""),
    ],
)
def test_spaces_follow_the_target(before: str, left: str, right: str, expected: str) -> None:
    source = "这是一。" if before == "" else "This is one."
    assert adapt_spacing(before, source, left, right) == expected


@pytest.mark.parametrize("source", ["https://example.org/a1b2", "“one”", "", "ein"])
def test_what_is_cut_inside_a_word_stays_in_one_piece(source: str) -> None:
    assert adapt_spacing("", source, "https://example.org/a1b2", "c3d4") == ""
