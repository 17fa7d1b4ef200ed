"""A word cache for tokenizers: the library's result faster, by looking up the ids of words seen before.

The `tokenizers` library spends most of its time not on merging but on splitting text into words and tracking where each
came from. Here Python's regular expressions split the text, but only text whose every character they are certain to
classify as the library does; all other text is left to the library.
"""

import re
import unicodedata
from collections.abc import Iterable
from itertools import chain
from typing import Any

from headway.text.tokenizer.vocabulary import byte_alphabet

# Code points whose classes Python and the library agree on: those that have not changed since Unicode 11. Runs of Han
# are longer than words and return less often, but the library needs even more time to split them.
KNOWN_RANGES = (
    (0x0000, 0x2E7F),
    (0x3000, 0x303F),  # CJK punctuation
    (0x3041, 0x3096),  # hiragana
    (0x3099, 0x30FF),  # katakana
    (0x3400, 0x4DB5),  # Han
    (0x4E00, 0x9FEF),
    (0xAC00, 0xD7A3),  # Hangul
    (0xFF01, 0xFFBE),  # full and half width
)
MAX_CACHED_WORDS = 100_000  # about 250 bytes each; a server that is sent random words must not grow for ever
MAX_WORD_IDS = 16  # of a word that is cached: one with more is hardly looked up again, and takes a kilobyte
ASCII_SPACES = " \t\n\r\f\v"


def _classify_characters() -> dict[str, list[int]]:
    """Characters by the classes of the pattern: letter or mark, digit, space, punctuation. No controls, no gaps."""
    kinds: dict[str, list[int]] = {
        "letter": [],
        "digit": [],
        "space": [ord(c) for c in ASCII_SPACES],
        "punctuation": [],
    }
    for point in chain.from_iterable(range(first, last + 1) for first, last in KNOWN_RANGES):
        category = unicodedata.category(chr(point))
        if category[0] in "LMN":
            kinds["digit" if category[0] == "N" else "letter"].append(point)
        elif category[0] in "PS" or category == "Cf":
            kinds["punctuation"].append(point)
        elif category == "Zs" and point != ord(" "):
            kinds["space"].append(point)
    return kinds


def _character_class(points: Iterable[int]) -> str:
    """The inside of [...] for these characters, as ranges."""
    ranges: list[list[int]] = []
    for point in sorted(points):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


def _make_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """One that finds characters left to the library, and one that splits words as WORD_PATTERN in training.py does."""
    kinds = {name: _character_class(points) for name, points in _classify_characters().items()}
    letters = f"[{kinds['letter']}]{{1,64}}"
    space = f"[{kinds['space']}]"
    word = (
        f" ?{letters}(?:['’]{letters})?| ?[{kinds['digit']}]| ?[{kinds['punctuation']}]{{1,64}}"
        f"|{space}{{1,64}}(?![^{kinds['space']}])|{space}{{1,64}}"
    )
    return re.compile(f"[^{''.join(kinds.values())}]"), re.compile(word)


class WordCache(dict[str, tuple[int, ...]]):
    """The ids of each word, computed by the library's model when it is first looked up. When it is full it begins anew:
    frequent words are back at once, and what was looked up only once is gone."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        self.model = library.model
        self.letter_of_byte = {byte: letter for letter, byte in byte_alphabet().items()}

    def __missing__(self, word: str) -> tuple[int, ...]:
        letters = "".join(self.letter_of_byte[byte] for byte in word.encode())
        ids = tuple(token.id for token in self.model.tokenize(letters))
        if len(ids) <= MAX_WORD_IDS:
            if len(self) >= MAX_CACHED_WORDS:
                self.clear()
            self[word] = ids
        return ids


class CachedEncoder:
    """Encodes text as a tokenizer with WORD_PATTERN does, with a space before it."""

    uncertain: re.Pattern[str] | None = None  # compiled once for all instances
    word: re.Pattern[str] | None = None

    def __init__(self, library: Any) -> None:
        if CachedEncoder.word is None:
            CachedEncoder.uncertain, CachedEncoder.word = _make_patterns()
        self.cache = WordCache(library)

    def encode(self, text: str) -> list[int] | None:
        """The ids of a text; None for a text that must be left to the library."""
        assert self.uncertain is not None and self.word is not None
        if not text:
            return []
        if self.uncertain.search(text):
            return None
        return list(chain.from_iterable(map(self.cache.__getitem__, self.word.findall(f" {text}"))))
