"""Texts, pairs and words as an encoder reads them."""

import pytest

from headway.text.lm_text import encode_after_line_end, frame_text
from headway.text.task_text import (
    choose_windows,
    cut_lengths,
    encode_pair,
    encode_texts,
    encode_words,
    make_windows,
)
from headway.text.tokenizer.tokenizer import Tokenizer

LINES = ["the cat sat on the mat", "a dog runs after the cat", "cats and dogs"] * 5


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, "bpe(size=320)")


def test_texts_are_framed_and_cut(tokenizer: Tokenizer) -> None:
    rows = encode_texts(["the cat", "", "cats " * 20_000], tokenizer, 12)
    assert rows[0] == frame_text(encode_after_line_end("the cat", tokenizer), tokenizer)
    assert rows[1] == frame_text([], tokenizer)
    assert len(rows[2]) == 12 and rows[2] == encode_texts(["cats " * 40], tokenizer, 12)[0]


@pytest.mark.parametrize(
    ("first", "other", "kept"), [(3, 4, (3, 4)), (20, 4, (6, 4)), (4, 20, (4, 6)), (20, 30, (5, 5)), (30, 20, (5, 5))]
)
def test_of_two_texts_the_longer_is_cut(first: int, other: int, kept: tuple[int, int]) -> None:
    assert cut_lengths(first, other, 10) == kept


def test_pairs(tokenizer: Tokenizer) -> None:
    one, two = (encode_after_line_end(text, tokenizer) for text in ("the cat", "a dog"))
    line_end = frame_text([], tokenizer)
    pair = encode_pair("the cat", "a dog", tokenizer, 100)
    assert pair.ids == [*line_end, *one, *line_end, *two]
    assert pair.ids[pair.second :] == two
    assert len(encode_pair("the cat " * 50, "a dog " * 50, tokenizer, 20).ids) == 20


def test_words_are_those_of_their_text(tokenizer: Tokenizer) -> None:
    words = LINES[1].split()
    pieces = encode_words(words, tokenizer)
    assert [n for piece in pieces for n in piece] == encode_after_line_end(LINES[1], tokenizer)
    assert all(encode_words(["", "\u200b", "a"], tokenizer)) and encode_words([], tokenizer) == []


def test_windows_cover_all_words(tokenizer: Tokenizer) -> None:
    words = [f"w{n}" for n in range(50)]
    pieces = encode_words(words, tokenizer)
    windows = make_windows(pieces, tokenizer, 30)
    assert len(windows) > 3 and all(len(window.ids) <= 30 for window in windows)
    chosen = choose_windows(windows, 50)
    for word, (number, index) in enumerate(chosen):
        window = windows[number]
        assert window.start + index == word
        at = window.first_tokens[index]
        assert window.ids[at : at + len(pieces[word])] == pieces[word]
    inner = [index for number, index in chosen if windows[number].start]
    assert min(inner) > 0  # no word has its tag from where nothing is read before it
    assert len(make_windows(pieces[:3], tokenizer, 100)) == 1
    long = make_windows([[5] * 80, [6]], tokenizer, 30)  # a word longer than all that is read
    assert [len(window.ids) for window in long] == [30, 2]
