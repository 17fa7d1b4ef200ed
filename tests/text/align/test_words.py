"""Words between spaces, and how they are found again in any row of tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.toy import toy_corpus
from headway.errors import ConfigError
from headway.text.align.words import (
    current_word_index,
    format_moses_links,
    split_units,
    split_words,
    token_roles,
    word_indices,
)
from headway.text.tokenizer.tokenizer import Tokenizer

LINES = [side for pair in toy_corpus(150) for side in (pair.source, pair.target)]
TOKENIZERS = {kind: Tokenizer.train(LINES, kind) for kind in ("bpe(400)", "unigram(400)", "bytes", "characters")}
TEXT = st.text(alphabet="ab,. \t\n\u00a0é中-", max_size=20)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("  ", []),
        ("a", ["a"]),
        (" a  b.\tc\n", ["a", "b.", "c"]),
        ("a\u00a0b c", ["a\u00a0b", "c"]),
        ("“Ja”, sagt er.", ["“Ja”,", "sagt", "er."]),
    ],
)
def test_words_are_what_stands_between_spaces(text: str, found: list[str]) -> None:
    assert split_words(text) == found


@given(TEXT, TEXT)
def test_a_text_goes_on_where_the_one_before_it_ended(before: str, text: str) -> None:
    """Its words are the last ones, and `current_word_index` is that of the first, which may begin before it."""
    if split_words(text):
        whole = split_words(before + text)
        assert whole[current_word_index(before) if text[0] not in " \t\n" else len(split_words(before)) :] != []
        first = len(whole) - len(split_words(text))
        assert first == (current_word_index(before) if text[0] not in " \t\n" else len(split_words(before)))


def test_units_are_small_letters_without_signs() -> None:
    assert split_units("Twenty-three “Ja”, o'clock — don't_go!") == (
        ["twenty", "three", "ja", "o", "clock", "—", "don", "t", "go"],
        [0, 0, 1, 2, 2, 3, 4, 4, 4],
    )
    assert split_units(" ") == ([], [])


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=st.one_of(TEXT, st.sampled_from(LINES)))
def test_tokens_know_their_words(kind: str, text: str) -> None:
    """Token by token, put together again, they spell the words."""
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    numbers = word_indices(ids, token_roles(tokenizer))
    spelled = [b""] * (int(numbers.max(initial=-1)) + 1)
    for token, number in zip(ids, numbers.tolist()):
        if number >= 0:
            spelled[number] += tokenizer._content(token).strip(b" \t\n")
        else:
            assert not tokenizer.decode([token]).strip(" \t\n")
    assert [word.decode() for word in spelled] == split_words(text)


def test_words_are_found_with_dropped_merges_and_between_control_tokens() -> None:
    tokenizer = Tokenizer.train(LINES, "bpe(400)", tags=["de", "fr"])
    roles = token_roles(tokenizer)
    for ids in tokenizer.encode_batch(["The dog sees  a red-brown house."] * 5, dropout=0.5):
        row = [tokenizer.tags["fr"], *ids, tokenizer.end, tokenizer.pad]
        numbers = word_indices(row, roles)
        assert numbers[0] == numbers[-1] == numbers[-2] == -1
        assert sorted(set(numbers[1:-2].tolist()) - {-1}) == [0, 1, 2, 3, 4, 5]
        many = word_indices(np.array([row, row[::-1]]), roles)
        assert (many[0] == numbers).all()


def test_wordpiece_is_refused_because_it_forgets_spaces() -> None:
    with pytest.raises(ConfigError, match='tokenizer: alignments count words between spaces, and "wordpiece" loses'):
        token_roles(Tokenizer.train(LINES, "wordpiece(512)"))


def test_links_are_written_as_moses_writes_them() -> None:
    assert format_moses_links([(0, 0), (1, 12)]) == "0-0 1-12"
    assert format_moses_links(np.array([[3, 1]], dtype=np.uint16)) == "3-1"
    assert format_moses_links([]) == ""
