"""Words in scripts that a model does not know, and characters that only typesetting needs.

Words of foreign scripts, and of rare letters that the tokenizer spells in bytes, are beyond a model: names, quotations,
symbols of physics. They need no translation, so they are protected.
"""

import re
from functools import lru_cache

from headway.text.scripts import SCRIPT_RANGES, parse_ranges, scripts_of

LAST_EUROPEAN_LATIN = 0x17F  # letters beyond it are foreign if the vocabulary lacks them
WORD_SEPARATOR = "[ ،、。·'’\u3000-]{1,2}"  # between words of one span
LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x2060, 0xFEFF), "")  # soft hyphen, zero-width space, word joiner, BOM
CONTROLS = dict.fromkeys((*range(0x09), *range(0x0E, 0x1B), 0x7F, *range(0x80, 0x85), *range(0x86, 0xA0)), "")
TYPOGRAPHIC = LIGATURES | INVISIBLE
NORMALISED = TYPOGRAPHIC | CONTROLS


def normalise_typography(text: str) -> str:
    """Replace ligatures and remove invisible and control characters, which come from text copied out of a PDF or a
    terminal and mislead a model."""
    return text if text.isascii() and text.isprintable() else text.translate(NORMALISED)


@lru_cache(maxsize=16)
def make_unknown_script_pattern(languages: frozenset[str], known: frozenset[str]) -> re.Pattern[str] | None:
    """A pattern that finds such words, for a model of these languages whose vocabulary has these characters; None if
    its languages are not known."""
    if not languages:
        return None
    own = {script for language in languages for script in scripts_of(language.split("-")[0].lower())}
    foreign = "".join(_character_class(ranges) for script, ranges in SCRIPT_RANGES.items() if script not in own)
    points = [
        point
        for first, last in parse_ranges(SCRIPT_RANGES["Latin"])
        for point in range(max(first, LAST_EUROPEAN_LATIN + 1), last + 1)
    ]
    rare = "".join(re.escape(chr(point)) for point in points if chr(point) not in known and point not in TYPOGRAPHIC)
    letters = foreign + (rare if "Latin" in own else "")
    word = rf"(?<!\w)\w*?[{letters}][\w{letters}]*+"  # tried once per word, not at each letter
    return re.compile(rf"{word}(?:{WORD_SEPARATOR}{word})*")


def _character_class(ranges: str) -> str:
    """The inside of [...] for these ranges."""
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in parse_ranges(ranges))
