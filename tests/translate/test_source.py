"""Reading a text into sentences: each is bounded, and what cannot be translated is not searched for."""

from pathlib import Path

import pytest

from headway.storage.registry import choose_models
from headway.text.spans.protect import make_protector
from headway.text.spans.unknown_script import make_repertoire
from headway.text.tokenizer.direction_tokens import DirectionTokens
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.source import SourceReader

MAX_TOKENS = 160
TAGGED = DirectionTokens(source_lead=(5,), source_tail=(2,))
UNITS = [
    "a", "abcdefghij", "\u0301", "a\u0301\u0302\u0303", "⟦1⟧", "👩\u200d", "👩‍👩‍👧‍👦",
    "https://example.com/a ", "www.", " ", "\n", "\r\n", "\t", "(", "a.)", ".", ". ",
    '"', "<", "<b>", "<b>x</b>", "`", "`a", "&", "a@", "{", "${", "%", "你", "日本語。", "ก",
    "word ", "a, ", "1", "1,", "A", "AB ", "a-", "The dog runs and sees\na cat.\n",
    "z. B. ", "ж", "xж ", "\uf8ff", "𝐛", "\0", "\u200b", "\u202e", "a_", "a'", "[a](",
    "[a](b) ", "**a", "<!--", "b=c ", "a[1]", "abc¹", "\x1b[", "a/", "a\\", "A a. ",
    "This is a sentence. ",
]  # fmt: skip


class CountingTokenizer:
    """Counts the characters that are encoded."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.end = tokenizer.end
        self.characters = 0

    def encode(self, text: str) -> list[int]:
        self.characters += len(text)
        return self.tokenizer.encode(text)


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return Tokenizers.load(Path(choose_models([]).paths[0]) / "tokenizer.json")


def read(tokenizers: Tokenizers, text: str) -> tuple[int, int]:
    """Tokens to search for, and characters that were encoded."""
    counting = CountingTokenizer(tokenizers.source)
    repertoire = make_repertoire(frozenset(["en", "de"]), tokenizers.source.characters)
    reader = SourceReader(counting, TAGGED, MAX_TOKENS, "en", True, make_protector((), repertoire), True)  # type: ignore[arg-type]
    line = reader.read(text, 0)
    searched = [sentence for sentence in line.sentences if not sentence.is_untranslatable]
    assert all(len(sentence.ids) <= MAX_TOKENS for sentence in searched)
    return sum(len(sentence.ids) for sentence in searched), counting.characters


@pytest.mark.parametrize("unit", UNITS)
def test_any_text_is_read_in_linear_time_and_is_bounded(tokenizers: Tokenizers, unit: str) -> None:
    """Work is counted in characters that were encoded: seconds depend on the machine."""
    counts = [max(size // len(unit), 1) for size in (4000, 16_000)]
    (_, small), (tokens, large) = (read(tokenizers, unit * count) for count in counts)
    assert large <= 6 * max(small, 2000)
    assert large <= 60 * counts[1] * len(unit)
    assert tokens <= 2 * counts[1] * len(unit) + MAX_TOKENS


@pytest.mark.parametrize("unit", ["a", "\u0301", "a\u0301", "a/", "Qm9v", "你", "👩\u200d", "(", "\uf8ff"])
def test_what_nobody_could_translate_costs_nothing(tokenizers: Tokenizers, unit: str) -> None:
    assert read(tokenizers, unit * 5000)[0] == 0


def test_a_long_word_within_a_sentence_is_kept_with_a_warning(tokenizers: Tokenizers) -> None:
    reader = SourceReader(tokenizers.source, TAGGED, MAX_TOKENS, "en", True, make_protector(), True)
    line = reader.read(f"Look at {'x' * 5000} here. And go.", 0)
    assert [sentence.model_text for sentence in line.sentences] == ["Look at ⟦0⟧ here.", "And go."]
    assert line.sentences[0].warnings == ["a word of 5,000 characters was left as it is"]
