"""Words in letters that a model has hardly met: those of other scripts, and rare ones that its tokenizer spells in bytes. It
cannot say them, and they need no translation: names, quotations, symbols of physics."""

import re
from functools import lru_cache

from headway.text.scripts import RANGES, scripts_of, spans

PLAIN = 0x17F  # the last of the Latin letters that European languages write; those behind are for tokenizers to judge
BETWEEN = "[ ،、。·'’\u3000-]{1,2}"  # words of one span
LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
UNSEEN = dict.fromkeys((0xAD, 0x200B, 0x2060, 0xFEFF), "")  # where a word may be broken, and may not
CONTROLS = dict.fromkeys((*range(0x09), *range(0x0E, 0x1B), 0x7F, *range(0x80, 0x85), *range(0x86, 0xA0)), "")
TYPESET = LIGATURES | UNSEEN
NEEDLESS = TYPESET | CONTROLS


def untypeset(text: str) -> str:
    """Words as they are typed: text that was copied from a printed page or a terminal has signs in them that only these
    need, and that say nothing to a model, or something else."""
    return text if text.isascii() and text.isprintable() else text.translate(NEEDLESS)


@lru_cache(maxsize=16)
def strange_words(languages: frozenset[str], known: frozenset[str]) -> re.Pattern[str] | None:
    """What finds them, in the text of a model of these languages whose vocabulary has these characters; None where nobody
    knows its languages."""
    if not languages:
        return None
    own = {script for language in languages for script in scripts_of(language.split("-")[0].lower())}
    foreign = "".join(_class(ranges) for script, ranges in RANGES.items() if script not in own)
    points = [point for first, last in spans(RANGES["Latin"]) for point in range(max(first, PLAIN + 1), last + 1)]
    rare = "".join(re.escape(chr(point)) for point in points if chr(point) not in known and point not in TYPESET)
    letters = foreign + (rare if "Latin" in own else "")
    word = rf"(?<!\w)\w*?[{letters}][\w{letters}]*+"  # looked for once a word, and not at each of its letters
    return re.compile(rf"{word}(?:{BETWEEN}{word})*")


def _class(ranges: str) -> str:
    """The inside of [...]."""
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in spans(ranges))
