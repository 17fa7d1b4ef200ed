"""Scripts without spaces are known, and their words are counted in characters."""

import pytest

from headway.data.corpora import parallel_from_memory, text_from_memory
from headway.text.unspaced import count_words, is_unspaced


@pytest.mark.parametrize("character", "中文々あアｱไທ")
def test_unspaced(character: str) -> None:
    assert is_unspaced(character)


@pytest.mark.parametrize("character", "aß한я。、！1 ")
def test_spaced(character: str) -> None:
    assert not is_unspaced(character)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the dog  sees", 3),
        ("Größe über Straße", 3),
        ("이것은 하나", 2),
        ("今天天气很好。我们去散步，", 11 / 1.6),
        ("使用 Firefox 浏览器", 1 + 5 / 1.6),
        ("", 0),
    ],
)
def test_words(text: str, words: float) -> None:
    assert count_words(text) == pytest.approx(words)


def test_a_corpus_is_as_large_in_one_direction_as_in_the_other() -> None:
    english, chinese = ["The weather is fine today."] * 40, ["今天天气很好。"] * 40
    there = parallel_from_memory(english, chinese, "en", "zh")
    assert there.counts[:3] == there.swap_sides().counts[:3]
    assert 150 < there.counts.words < 200
    assert text_from_memory(chinese).counts.words == 150
