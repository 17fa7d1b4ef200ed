"""Words that are looked up are split as the library splits them, character by character."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headway.text.tokenizer.word_cache
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.text.tokenizer.word_cache import KNOWN_RANGES, CachedEncoder

LINES = ["The dog doesn't see 25 houses, geht's?", "Größe über Straße — «да» и нет", "שלום हिन्दी ١٢٣ x²  a\tb"] * 20
TOKENIZERS = {kind: Tokenizer.train(LINES, kind) for kind in ("bpe(400)", "unigram(400)")}


def by_the_library(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer._library.encode(text, add_special_tokens=False).ids
    return ids


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_every_character_is_checked_as_the_library_does(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    encoder = CachedEncoder(tokenizer._library)
    checked = 0
    points = {point for first, last in KNOWN_RANGES for point in range(first, last + 1, 1 if last < 0x3400 else 11)}
    edges = {edge for pair in KNOWN_RANGES for edge in pair}
    for point in sorted(points | edges):
        sign = chr(point)
        text = f"a{sign}b {sign}{sign} {sign}1{sign}'s.{sign}"
        ids = encoder.encode(text)
        if ids is not None:
            checked += 1
            assert ids == by_the_library(tokenizer, text), f"U+{point:04X} {unicodedata.category(sign)}"
    assert checked > 11_000


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=st.text(st.characters(max_codepoint=0x1F700, exclude_categories=["Cs"]), max_size=80))
def test_any_text(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.encode(text) == by_the_library(tokenizer, text)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(
    parts=st.lists(st.sampled_from([" ", "  ", "\t", "\n", "a", "é", "7", "-", "'", "’", "\u00a0", "x" * 70, "!" * 70]))
)
def test_spaces_apostrophes_and_long_runs(kind: str, parts: list[str]) -> None:
    tokenizer, text = TOKENIZERS[kind], "".join(parts)
    assert tokenizer.encode(text) == by_the_library(tokenizer, text)


def test_text_that_only_the_library_can_judge_is_left_to_it() -> None:
    tokenizer = TOKENIZERS["bpe(400)"]
    encoder = CachedEncoder(tokenizer._library)
    for text in ("𠀀", "\x1c", "\x00", "😀", "\u0378", "\u9ff0"):
        assert encoder.encode(text) is None
    for text in ("日本語のテキスト。", "한국어", "全角！"):
        assert encoder.encode(text) == by_the_library(tokenizer, text)
    texts = ["a dog", "𠀀", "日本", "", "\x00", "the house"]
    assert tokenizer.encode_batch(texts) == [by_the_library(tokenizer, text) for text in texts]


def test_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headway.text.tokenizer.word_cache, "MAX_CACHED_WORDS", 3)
    tokenizer = TOKENIZERS["bpe(400)"]
    encoder = CachedEncoder(tokenizer._library)
    text = "one two three four five"
    assert encoder.encode(text) == encoder.encode(text) == by_the_library(tokenizer, text)
    assert 0 < len(encoder.cache) <= 3
    assert " five" in encoder.cache  # it begins anew: words that nobody asks for again do not fill it for ever


def test_words_of_many_ids_are_not_kept() -> None:
    tokenizer = TOKENIZERS["bpe(400)"]
    encoder = CachedEncoder(tokenizer._library)
    text = "dog " + "qxzjvkw" * 9
    assert encoder.encode(text) == by_the_library(tokenizer, text)
    assert list(encoder.cache) == [" dog"]
