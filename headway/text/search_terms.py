"""The terms of a text that a search engine indexes: words without case and endings, and pairs of characters where a
script has no spaces between words.

    split_terms("Größe der Modelle")   ["grös", "der", "model"]
    split_terms("模型很小")              ["模型", "型很", "很小"]

Endings are those of English, with a few of German: a search for "caching" finds "cached". A stem need not be a word;
what counts is that forms of one word have the same."""

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from headway.text.unspaced import UNSPACED_CLASS

MAX_TERM_CHARS = 64  # of a longer word the beginning: it is a key, or encoded data
MIN_STEM_CHARS = 4
ASCII_WORD = re.compile(r"[a-z0-9]+")
STEMMED_WORD = re.compile(r"[a-zäöüßàâçéèêëîïôûùœáíóúñ]{5,}")
ENDINGS = ("ing", "ung", "ion", "ed", "er", "en", "em", "e")  # after an s of the plural


class TermSpan(NamedTuple):
    """A term, the word that it stands for, and where that is in the text."""

    start: int
    end: int
    word: str  # case-folded
    term: str


def split_terms(text: str) -> list[str]:
    """The terms of a text, in order."""
    return [stem_word(word) for word in split_words(text)]


def split_words(text: str) -> list[str]:
    """Its words as they are written, case-folded; pairs of characters of scripts without spaces."""
    if text.isascii():
        return [word[:MAX_TERM_CHARS] for word in ASCII_WORD.findall(text.lower())]
    return [span.word for span in find_terms(text)]


def find_terms(text: str) -> Iterator[TermSpan]:
    """The terms of a text with their places. Spans of adjacent pairs of characters overlap."""
    for match in _word_pattern().finditer(text):
        start, end = match.span()
        if match["unspaced"] is None or end - start == 1:
            word = fold_word(match[0])
            yield TermSpan(start, end, word, stem_word(word))
        else:
            for n in range(start, end - 1):
                pair = fold_word(text[n : n + 2])
                yield TermSpan(n, n + 2, pair, pair)


def fold_word(word: str) -> str:
    """As it is compared: full-width letters and ligatures are plain ones, case is folded."""
    return unicodedata.normalize("NFKC", word).casefold()[:MAX_TERM_CHARS]


@lru_cache(maxsize=100_000)
def stem_word(word: str) -> str:
    """Without its ending, if enough is left: models, modelling and modelled are "model"."""
    if not STEMMED_WORD.fullmatch(word):
        return word
    if word[-1] == "s" and word[-2] not in "su":
        word = word[:-1]
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= MIN_STEM_CHARS:
            word = word[: -len(ending)]
            break
    if word[-1] == word[-2] and word[-1] not in "aeiou" and len(word) > MIN_STEM_CHARS:
        word = word[:-1]
    return f"{word[:-1]}i" if word[-1] == "y" else word


@cache
def _word_pattern() -> re.Pattern[str]:
    """Letters and digits with the marks that belong to them, which \\w lacks: the vowels of Indic scripts."""
    marks = "".join(chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M")
    return re.compile(rf"(?P<unspaced>[{UNSPACED_CLASS}]+)|(?:(?![{UNSPACED_CLASS}])[^\W_][{marks}]*)+")
