"""Traditional and simplified Chinese: which of the two a text is written in, and traditional text in simplified
characters, one for one.

    find_script("這個軟體很好")    "traditional"        to_simplified("這個軟體很好")    这个软体很好
    find_script("这个软件很好")    "simplified"

The table is derived from the Unihan database of Unicode (see its first lines). Words are not exchanged: 軟體 becomes
软体, not 软件."""

from functools import cache
from pathlib import Path
from typing import Literal

TABLE = Path(__file__).parent / "tables" / "traditional.tsv"
MIN_KNOWN_SHARE = 0.5  # of FREQUENT that a vocabulary has: a model with so many has learned traditional text
# Traditional characters that hardly any text does without.
FREQUENT = "這個們來時國說會為對學過發後經實見開關樣點現動從長機還進種義問頭體間門電話業親應萬無與讓數條書車幾"


@cache
def simplified_forms() -> dict[int, str]:
    """By the code point of a traditional character; for str.translate."""
    forms: dict[int, str] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            traditional, _, simplified = line.partition("\t")
            forms |= {ord(old): new for old, new in zip(traditional, simplified, strict=True)}
    return forms


@cache
def _simplified_only() -> frozenset[str]:
    forms = simplified_forms()
    return frozenset(form for form in forms.values() if ord(form) not in forms) - set("里台余干了征借后面只才")


def find_script(text: str) -> Literal["traditional", "simplified", ""]:
    """By the characters that only one of the two has; "" if there are none, or as many of each."""
    forms, simplified = simplified_forms(), _simplified_only()
    difference = sum((ord(character) in forms) - (character in simplified) for character in text)
    return "traditional" if difference > 0 else "simplified" if difference < 0 else ""


def to_simplified(text: str) -> str:
    """Traditional text in simplified characters; any other text as it is."""
    return text.translate(simplified_forms()) if not text.isascii() and find_script(text) == "traditional" else text


def reads_simplified_alone(characters: frozenset[str]) -> bool:
    """Whether a vocabulary has the simplified forms of frequent characters, and hardly the traditional ones."""
    known = sum(character in characters for character in FREQUENT)
    forms = sum(form in characters for form in FREQUENT.translate(simplified_forms()))
    return known < MIN_KNOWN_SHARE * len(FREQUENT) <= forms
