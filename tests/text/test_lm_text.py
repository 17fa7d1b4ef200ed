"""Running text as ids: nothing is lost, however it is cut into chunks."""

import pytest

from headway.text.lm_text import chunk_lines, encode_after_line_end, encode_text, line_end_id
from headway.text.tokenizer.tokenizer import Tokenizer

BYTES = Tokenizer.train([], "bytes")
BPE = Tokenizer.train(["the dog sees the house\n"] * 30, "bpe(384)")


@pytest.mark.parametrize("text", ["a", "a\n", "\n\na b\n", "no end", "x" * 250_001, "\n" * 5])
def test_a_text_comes_back_as_it_was(text: str) -> None:
    decoded = BYTES.decode(encode_text(text, BYTES).tolist())  # with a space before each chunk but the first
    assert decoded.replace(" ", "") == "\n" + text.replace(" ", "")


def test_an_empty_text_is_a_line_end() -> None:
    assert encode_text("", BPE).tolist() == [line_end_id(BPE)]


def test_a_first_word_is_that_of_any_line() -> None:
    both = encode_text("the dog\nthe dog", BPE).tolist()
    first = encode_after_line_end("the dog", BPE)
    assert both == [line_end_id(BPE), *first, line_end_id(BPE), *first]


def test_a_tokenizer_without_line_ends_starts_with_its_start_token() -> None:
    wordpiece = Tokenizer.train(["the dog sees the house"] * 30, "wordpiece")
    assert line_end_id(wordpiece) == wordpiece.start


def test_chunks_are_cut_before_line_ends() -> None:
    assert list(chunk_lines(iter(["aa", "bb", "cc"]), size=5)) == ["aa\nbb", "\ncc\n"]
    assert list(chunk_lines(iter(["x" * 11]), size=5)) == ["xxxxx", "xxxxxx\n"]
