import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.text.segment.long_sentences import split_long_sentence
from headway.text.segment.sentences import join_segments


def words(text: str) -> int:
    return len(text.split())


def utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="surrogatepass"))


def test_a_short_text_stays_whole() -> None:
    assert split_long_sentence(" Short enough. ", 2, words) == [(" ", "Short enough."), (" ", "")]
    assert split_long_sentence("", 5, len) == []


def test_clauses_come_before_commas_and_commas_before_spaces() -> None:
    text = "We came early, we saw it; we won, and we left"
    assert [piece.text for piece in split_long_sentence(text, 6, words)] == [
        "We came early, we saw it;",
        "we won, and we left",
    ]
    text = "We came very early indeed, we saw nothing at all"
    assert [piece.text for piece in split_long_sentence(text, 6, words)] == [
        "We came very early indeed,",
        "we saw nothing at all",
    ]
    assert [piece.text for piece in split_long_sentence("one two three four five six", 3, words)] == [
        "one two three",
        "four five six",
    ]


def test_pieces_are_about_equally_long() -> None:
    pieces = split_long_sentence(" ".join(["word"] * 110), 100, words)
    assert [words(piece.text) for piece in pieces] == [55, 55]


def test_placeholders_stay_whole() -> None:
    def length(text: str) -> int:
        return len(text.replace("⟦0⟧", "x" * 99).replace("⟦12⟧", "yyy"))

    text = "See the page (⟦0⟧), please"
    assert [piece.text for piece in split_long_sentence(text, 20, length)] == ["See the page", "(⟦0⟧),", "please"]
    pieces = split_long_sentence("⟦12⟧" * 9 + "⟦0⟧⟦0⟧", 10, length)
    assert [piece.text for piece in pieces] == ["⟦12⟧" * 3] * 3 + ["⟦0⟧", "⟦0⟧"]


def test_an_early_comma_leaves_no_tiny_piece() -> None:
    pieces = split_long_sentence("Yes, " + " ".join(["word"] * 30), 20, words)
    assert min(words(piece.text) for piece in pieces) > 5


def test_text_without_spaces_is_cut_between_characters() -> None:
    assert [piece.text for piece in split_long_sentence("abcdefgh", 4, len)] == ["abcd", "efgh"]
    assert [piece.text for piece in split_long_sentence("一二三，四五六", 5, len)] == ["一二三，", "四五六"]


@pytest.mark.parametrize(
    "character",
    [
        "e\u0301",
        "👩\u200d🚀",
        "👍🏽",
        "🇩🇪",
        "क्षि",
        "\u1112\u1161\u11ab",
        "\ud83d\ude00",
        "🏴\U000e0067\U000e0062\U000e007f",
    ],
)
def test_one_character_of_several_code_points_is_not_cut(character: str) -> None:
    pieces = split_long_sentence("x" * 5 + character + "x" * 5, 5 + len(character) // 2, len)
    assert any(character in piece.text for piece in pieces)


def test_a_character_too_long_by_itself_is_cut_as_a_last_resort() -> None:
    text = "e" + "\u0301" * 99
    pieces = split_long_sentence(text, 10, len)
    assert join_segments(pieces) == text
    assert max(len(piece.text) for piece in pieces) == 10


def test_a_code_point_too_long_by_itself_stays() -> None:
    assert [piece.text for piece in split_long_sentence("😀😀", 3, utf8_bytes)] == ["😀", "😀"]


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(HeadwayError, match="the limit is 0: it must be at least 1"):
        split_long_sentence("a", 0, len)


TEXT = st.text() | st.text(alphabet="ab ,;:–. \n\u0301一，👍🏽\u200d")


@settings(deadline=None)
@given(TEXT, st.integers(4, 12), st.sampled_from([len, words, utf8_bytes]))
def test_pieces_fit_and_join(text: str, limit: int, length: Callable[[str], int]) -> None:
    pieces = split_long_sentence(text, limit, length)
    assert join_segments(pieces) == text
    assert all(length(piece.text) <= limit for piece in pieces)
    assert all(piece.text for piece in pieces[:-1])


@settings(deadline=None)
@given(st.text(alphabet="ab ,\u0301\u0300", min_size=1), st.integers(6, 12))
def test_marks_stay_with_their_letters(text: str, limit: int) -> None:
    longest_run = max(len(run) for run in text.replace("a", "b").replace(" ", "b").replace(",", "b").split("b"))
    if longest_run + 1 <= limit:
        starts = [piece.text[:1] for piece in split_long_sentence(text, limit, len)[1:] if not piece.before]
        assert not any(start and unicodedata.combining(start) for start in starts)


@pytest.mark.parametrize("part", ["a", "a ", "a, ", " ", "\u0301"])
def test_long_text_takes_no_long_time(part: str) -> None:
    text = part * (100_000 // len(part))
    began = time.process_time()
    assert join_segments(split_long_sentence(text, 200, len)) == text
    assert time.process_time() - began < 5
