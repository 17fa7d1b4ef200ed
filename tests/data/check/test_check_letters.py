"""Arrays over many lines say the same as a loop over the characters of each."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.check.char_features import (
    count_line_scripts,
    extract_trigrams,
    extract_words,
    hash_sentences,
    to_code_points,
)
from headway.data.check.language_profiles import fit_language_profiles, mean_log_probability
from headway.text.scripts import SCRIPT_NAMES, count_scripts

TEXT = st.text(st.sampled_from(list("aAbzßÄ .,'-019\u0301\u00a0\tжЖ日本คの한\U00020000😀")), max_size=12)
LINES = st.lists(TEXT, min_size=1, max_size=5)


def words_by_hand(line: str) -> list[str]:
    """What `words_of` promises, a character at a time."""
    words: list[str] = []
    joined = False
    for character in line.lower():
        scripts = list(count_scripts(character))
        alone = scripts and scripts[0] in ("Han", "Hiragana", "Thai")
        if not scripts and character not in "0123456789\u0301":
            joined = False
            continue
        if joined and not alone:
            words[-1] += character
        else:
            words.append(character)
        joined = not alone
    return words


@given(LINES)
def test_words_are_equal_where_their_hashes_are(lines: list[str]) -> None:
    found = extract_words(to_code_points(lines))
    expected = [words_by_hand(line) for line in lines]
    assert found.counts().tolist() == [len(words) for words in expected]
    flat = list(itertools.chain(*expected))
    assert found.line.tolist() == [number for number, words in enumerate(expected) for _ in words]
    hashes = dict(zip(flat, found.hash.tolist()))
    assert [hashes[word] for word in flat] == found.hash.tolist()
    assert len(set(hashes.values())) == len(hashes)


@given(LINES)
def test_sentences_are_equal_where_their_words_are(lines: list[str]) -> None:
    found = hash_sentences(extract_words(to_code_points(lines))).tolist()
    expected = [tuple(words_by_hand(line)) for line in lines]
    for (one, words), (other, more) in itertools.combinations(zip(found, expected), 2):
        assert (one == other) == (words == more)
    assert [hash == 0 for hash in found] == [not words for words in expected]


def test_the_order_of_words_counts_and_case_and_punctuation_do_not() -> None:
    lines = ["The dog, the cat.", "THE DOG the cat", "the cat the dog", "the dog the", "the dog the cat the cat"]
    first, second, *others = hash_sentences(extract_words(to_code_points(lines))).tolist()
    assert first == second
    assert len({first, *others}) == 4


@given(LINES)
def test_scripts_are_counted_line_by_line(lines: list[str]) -> None:
    counts = count_line_scripts(to_code_points(lines))
    assert counts.shape == (len(lines), len(SCRIPT_NAMES))
    for row, line in zip(counts, lines):
        assert {SCRIPT_NAMES[number]: int(row[number]) for number in np.flatnonzero(row)} == count_scripts(line.lower())


@given(LINES)
def test_trigrams_do_not_depend_on_the_neighbours(lines: list[str]) -> None:
    found = extract_trigrams(to_code_points(lines))
    alone = [extract_trigrams(to_code_points([text])).key.tolist() for text in lines]
    assert found.key.tolist() == list(itertools.chain(*alone))
    assert np.bincount(found.line, minlength=found.lines).tolist() == [len(part) for part in alone]


def test_a_triple_needs_a_letter_in_its_middle() -> None:
    assert len(extract_trigrams(to_code_points(["ab, c 1 2"])).key) == 3  # " ab", "ab ", " c "
    same = extract_trigrams(to_code_points(["x-ab.c", "x ab'c"])).key.tolist()
    assert len(same) == 6
    assert same[:3] == same[3:]


def test_nothing_at_all() -> None:
    assert len(extract_words(to_code_points([""])).hash) == 0
    assert to_code_points(["", ""]).lines == 2
    assert extract_words(to_code_points(["", "..."])).counts().tolist() == [0, 0]


def test_each_side_is_known_by_its_letters(rows: list[tuple[str, str]]) -> None:
    sides = fit_language_profiles([source for source, _ in rows[:1000]], [target for _, target in rows[:1000]])
    english = extract_trigrams(to_code_points([source for source, _ in rows[1000:]]))
    german = extract_trigrams(to_code_points([target for _, target in rows[1000:]]))
    assert (sides.source_log_odds(english) > 6).mean() > 0.99
    assert (sides.source_log_odds(german) < -6).mean() > 0.99
    french = extract_trigrams(to_code_points(["Nous avons encore beaucoup de choses à faire."]))
    assert mean_log_probability(sides.target, french)[0] < np.quantile(mean_log_probability(sides.target, german), 0.01)
    assert sides.source_log_odds(extract_trigrams(to_code_points(["123"]))).tolist() == [0.0]


@pytest.mark.parametrize("size", [1, 3])
def test_a_mean_of_nothing_is_nothing(size: int) -> None:
    sides = fit_language_profiles(["abc"], ["def"])
    assert mean_log_probability(sides.source, extract_trigrams(to_code_points([""] * size))).tolist() == [0.0] * size
