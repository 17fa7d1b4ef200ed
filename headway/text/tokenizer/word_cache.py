"""The library's result, sooner: most words have been met before, and are looked up instead of being split again.

The `tokenizers` library spends most of its time not on merging but on cutting text into words and keeping track of
where each came from. Here a word is cut off by Python's regular expressions, which is only done for text whose every
character they are sure to judge as the library does; all other text is left to the library."""

import re
import sys
import unicodedata
from collections.abc import Iterable
from itertools import chain
from typing import Any

from headway.text.tokenizer.vocabulary import byte_letters

LAST = 0x2E7F  # behind it come scripts that are written without spaces, where looking words up gains nothing
WORDS_AT_MOST = 500_000  # remembered; about 150 bytes each
SPACE = " \t\n\r\f\v"


def _kinds() -> dict[str, list[int]]:
    """Characters by what the pattern asks: letter or mark, digit, space, sign. Controls and gaps are not among them."""
    kinds: dict[str, list[int]] = {"letter": [], "digit": [], "space": [ord(c) for c in SPACE], "sign": []}
    for point in range(LAST + 1):
        category = unicodedata.category(chr(point))
        if category[0] in "LMN":
            kinds["digit" if category[0] == "N" else "letter"].append(point)
        elif category[0] in "PS" or category == "Cf":
            kinds["sign"].append(point)
        elif category == "Zs" and point != ord(" "):
            kinds["space"].append(point)
    return kinds


def _class(points: Iterable[int]) -> str:
    """The inside of [...] for these characters, as ranges."""
    ranges: list[list[int]] = []
    for point in sorted(points):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What finds a character to be careful with, and what cuts off words, as WORD in training.py does."""
    kinds = {name: _class(points) for name, points in _kinds().items()}
    letters, space = f"[{kinds['letter']}]{{1,64}}", f"[{kinds['space']}]"
    word = (
        f" ?{letters}(?:['’]{letters})?| ?[{kinds['digit']}]| ?[{kinds['sign']}]{{1,64}}"
        f"|{space}{{1,64}}(?![^{kinds['space']}])|{space}{{1,64}}"
    )
    return re.compile(f"[^{''.join(kinds.values())}]"), re.compile(word)


class Words(dict[str, tuple[int, ...]]):
    """The ids of each word, worked out by the library's model when it is first met."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        self.model = library.model
        self.letters = {byte: letter for letter, byte in byte_letters().items()}

    def __missing__(self, word: str) -> tuple[int, ...]:
        spelled = "".join(self.letters[byte] for byte in word.encode())
        ids = tuple(token.id for token in self.model.tokenize(spelled))
        if len(self) < WORDS_AT_MOST:
            self[sys.intern(word)] = ids
        return ids


class QuickEncoder:
    """Encodes lines of text as a tokenizer with the pattern WORD would, a space put before each."""

    careful: re.Pattern[str] | None = None
    cut: re.Pattern[str] | None = None

    def __init__(self, library: Any) -> None:
        if QuickEncoder.cut is None:
            QuickEncoder.careful, QuickEncoder.cut = _patterns()
        self.words = Words(library)

    def encode(self, text: str) -> list[int] | None:
        """The ids of a text; None for one that only the library can judge."""
        assert self.careful is not None and self.cut is not None
        if not text:
            return []
        if self.careful.search(text):
            return None
        return list(chain.from_iterable(map(self.words.__getitem__, self.cut.findall(f" {text}"))))
