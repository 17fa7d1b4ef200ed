"""What a model cannot say: words in scripts that it does not know, and characters beyond its vocabulary.

protected  Иванов, ᚠᚢᚦ, x̄, Nguyễn, ⌘, private use: a model would spell them in bytes, and often wrongly
folded     𝐛𝐨𝐥𝐝, Ｂｏｌｄ, u and a combining ¨: the model reads bold, Bold and ü
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from headway.text.scripts import SCRIPT_RANGES, parse_ranges, scripts_of

LAST_EUROPEAN_LATIN = 0x17F  # letters beyond it are foreign if the vocabulary lacks them
WORD_SEPARATOR = "[ ،、。·'’\u3000-]{0,2}"  # between words of one span
LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x2060, 0xFEFF), "")  # soft hyphen, zero-width space, word joiner, BOM
CONTROLS = dict.fromkeys((*range(0x09), *range(0x0E, 0x1B), 0x7F, *range(0x80, 0x85), *range(0x86, 0xA0)), "")
TYPOGRAPHIC = LIGATURES | INVISIBLE
NORMALISED = TYPOGRAPHIC | CONTROLS
# As hexadecimal ranges, like those of scripts:
COMMON_CHARACTERS = "0-FF 2010-2015 2018-201F 2022 2026 2039-203A 20AC"  # known to all who were trained on real text
COMMON_SYMBOLS = "2000-2BFF 3000-303F"  # taken for known by a vocabulary of bytes, which knows no character
COMBINING_MARKS = "300-36F 1AB0-1AFF 1DC0-1DFF 20D0-20FF FE00-FE0F FE20-FE2F"
PRIVATE_USE = "E000-F8FF F0000-10FFFF"
JOINERS = "200C-200D"  # part of words in many scripts
# Letters in another style, whose plain form says the same: mathematical, full-width, circled; and Roman numerals.
FIRST_ROMAN_NUMERAL = 0x2160
STYLED_CHARACTERS = "2102-2138 2145-2149 2160-217F 24B6-24E9 FF01-FF5E 1D400-1D7FF"


def normalise_typography(text: str) -> str:
    """Replace ligatures and remove invisible and control characters, which come from text copied out of a PDF or a
    terminal and mislead a model."""
    return text if text.isascii() and text.isprintable() else text.translate(NORMALISED)


@dataclass(frozen=True, eq=False)
class CharacterRepertoire:
    """Which characters a model can read and write, and what becomes of the others."""

    others: re.Pattern[str]  # one of the others
    spans: re.Pattern[str]  # that are protected
    folded: Mapping[int, str]  # plain forms, by code point

    def find_spans(self, text: str, start: int, end: int) -> Iterator[re.Match[str]]:
        """Words and symbols from start to end that the model cannot say, however they are written: not ü in two
        characters."""
        if self.others.search(text, start, end):
            for match in self.spans.finditer(text, start, end):
                composed = unicodedata.normalize("NFC", match[0])
                if composed == match[0] or self.spans.search(composed):
                    yield match

    def fold(self, text: str) -> str:
        """The text with plain forms for styled letters, and letters and their marks composed."""
        if not self.others.search(text):
            return text
        return unicodedata.normalize("NFC", text).translate(self.folded)


@lru_cache(maxsize=16)
def make_repertoire(languages: frozenset[str], known: frozenset[str]) -> CharacterRepertoire:
    """Of a model of these languages, whose vocabulary has these characters. If its languages are not known, it can say
    everything except private-use characters."""
    if not languages:
        private_use = f"[{_character_class(PRIVATE_USE, known)}]"
        return CharacterRepertoire(re.compile(private_use), re.compile(f"{private_use}+"), {})
    own = {script for language in languages for script in scripts_of(language.split("-")[0].lower())}
    sayable = [COMMON_CHARACTERS, *(SCRIPT_RANGES[script] for script in own - {"Latin"})]
    sayable += [JOINERS] if own != {"Latin"} else []
    sayable += [] if any(not character.isascii() for character in known) else [COMMON_SYMBOLS]
    foreign = "".join(_character_class(ranges) for script, ranges in SCRIPT_RANGES.items() if script not in own)
    is_foreign = re.compile(f"[{foreign}]") if foreign else re.compile("(?!)")
    latin = [point for first, last in parse_ranges(SCRIPT_RANGES["Latin"]) for point in range(first, last + 1)]
    allowed = "".join(map(_character_class, sayable))
    allowed += "".join(re.escape(character) for character in sorted(known) if not is_foreign.match(character))
    if "Latin" in own:
        allowed += "".join(chr(point) for point in latin if 0xFF < point <= LAST_EUROPEAN_LATIN)
    allowed += "".join(map(chr, TYPOGRAPHIC))
    folded = _plain_forms(known)
    styled = "".join(map(re.escape, map(chr, folded)))
    letter = rf"(?:[^\W{allowed}{styled}]|[{foreign}{_character_class(COMBINING_MARKS, known)}])"
    word = rf"(?<!\w)\w*?{letter}(?:\w|{letter})*+"  # tried once per word, not at each letter
    symbols = rf"[^\w\s{allowed}{styled}]++"
    unit = f"(?:{word}|{symbols})"
    variable = "(?!)"
    if styled:  # 𝑥 is no word, unless there are more of its style
        variable = rf"(?<![\w{styled}])(?<![{styled}] )[{styled}](?<!\d)(?![\w{styled}])(?! [{styled}])"
    return CharacterRepertoire(
        re.compile(rf"[^\s{allowed}]"), re.compile(rf"{unit}(?:{WORD_SEPARATOR}{unit})*+|{variable}"), folded
    )


def _plain_forms(known: frozenset[str]) -> dict[int, str]:
    """Of the styled characters that a vocabulary lacks, those with a plain form in ASCII."""
    forms = {}
    for first, last in parse_ranges(STYLED_CHARACTERS):
        for point in range(first, last + 1):
            plain = unicodedata.normalize("NFKC", chr(point))
            is_letter = len(plain) == 1 or first == FIRST_ROMAN_NUMERAL  # not ™
            if chr(point) not in known and plain.isascii() and is_letter:
                forms[point] = plain
    return forms


def _character_class(ranges: str, known: frozenset[str] = frozenset()) -> str:
    """The inside of [...] for these ranges, without the ranges that a vocabulary has a character of."""
    return "".join(
        f"\\U{first:08x}-\\U{last:08x}"
        for first, last in parse_ranges(ranges)
        if not any(first <= ord(character) <= last for character in known)
    )
