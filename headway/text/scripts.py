"""Unicode scripts: which script a character belongs to, and which scripts a language is written in.

NumPy is imported only where arrays are needed, because importing it takes time.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Letters and their combining marks, as hexadecimal ranges. Digits and punctuation belong to no script.
SCRIPT_RANGES = {
    "Latin": "41-5A 61-7A AA BA C0-D6 D8-F6 F8-2AF 1D00-1D25 1D62-1D65 1D6B-1D77 1D79-1DBF 1E00-1EFF 2071 207F "
    "2090-209C 2184 2C60-2C7F A722-A787 A78B-A7FF AB30-AB5A AB60-AB64 AB66-AB69 FB00-FB06 FF21-FF3A FF41-FF5A",
    "Greek": "370-373 376-377 37A-37D 37F 386 388-3E1 3F0-3FF 1D26-1D2A 1D66-1D6A 1F00-1FFF AB65",
    "Coptic": "3E2-3EF 2C80-2CFF",
    "Cyrillic": "400-52F 1D2B 1D78 1C80-1C8F 2DE0-2DFF A640-A69F",
    "Armenian": "531-556 560-588 FB13-FB17",
    "Hebrew": "591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 5D0-5EA 5EF-5F2 FB1D-FB4F",
    "Arabic": "610-61A 620-63F 641-65F 66E-6D3 6D5-6DC 6DF-6E8 6EA-6EF 6FA-6FF 750-77F 870-8FF FB50-FDFF FE70-FEFC",
    "Syriac": "700-74F 860-86F",
    "Thaana": "780-7BF",
    "N'Ko": "7C0-7FF",
    "Devanagari": "900-963 970-97F A8E0-A8FF",
    "Bengali": "980-9E3 9F0-9FE",
    "Gurmukhi": "A00-A65 A70-A7F",
    "Gujarati": "A80-AE5 AF0-AFF",
    "Odia": "B00-B65 B70-B7F",
    "Tamil": "B80-BE5 BF0-BFF",
    "Telugu": "C00-C65 C70-C7F",
    "Kannada": "C80-CE5 CF0-CFF",
    "Malayalam": "D00-D65 D70-D7F",
    "Sinhala": "D80-DE5 DF0-DFF",
    "Thai": "E01-E3A E40-E4E",
    "Lao": "E80-ECF EDC-EFF",
    "Tibetan": "F00 F35-F84 F86-FBC",
    "Myanmar": "1000-103F 104C-108F 109A-109F A9E0-A9EF A9FA-A9FF AA60-AA7F",
    "Georgian": "10A0-10FF 1C90-1CBF 2D00-2D2F",
    "Hangul": "1100-11FF 3131-318E A960-A97F AC00-D7FF FFA0-FFDC",
    "Ethiopic": "1200-135F 1380-139F 2D80-2DDF AB00-AB2F",
    "Cherokee": "13A0-13FF AB70-ABBF",
    "Canadian Aboriginal": "1400-167F 18B0-18FF",
    "Khmer": "1780-17D3 17D7 17DC-17DD",
    "Mongolian": "1820-18AF",
    "Javanese": "A980-A9C0 A9CF",
    "Tifinagh": "2D30-2D7F",
    "Ol Chiki": "1C5A-1C7F",
    "Yi": "A000-A4CF",
    "Hiragana": "3041-309F",
    "Katakana": "30A1-30FA 30FC-30FF 31F0-31FF FF66-FF9F",
    "Bopomofo": "3105-312F 31A0-31BF",
    "Han": "2E80-2FDF 3005 3007 3021-3029 3400-4DBF 4E00-9FFF F900-FAFF 20000-323AF",
}
SCRIPT_NAMES = ("", *SCRIPT_RANGES)  # by script number; 0 is no script
UNSPACED_SCRIPTS = (
    "Han",
    "Hiragana",
    "Katakana",
    "Thai",
    "Lao",
    "Khmer",
    "Myanmar",
    "Tibetan",
)  # no space between words

# Primary subtags of the languages that are not written in the Latin script, or not in it alone.
LANGUAGES_BY_SCRIPT = {
    "Arabic": "ar arc ary arz fa ps ur ug sd sdh ckb pnb azb",
    "Armenian": "hy hyw",
    "Bengali": "bn as",
    "Cyrillic": "ab ba be bg ce cv kk ky mk mn os ru tg tt udm uk uzs",
    "Cyrillic Latin": "sr bs crh uz",
    "Devanagari": "hi mr ne sa gom bho mai new",
    "Ethiopic": "am ti",
    "Georgian": "ka xmf",
    "Greek": "el grc",
    "Gujarati": "gu",
    "Gurmukhi": "pa",
    "Han Bopomofo": "zh wuu yue nan lzh",
    "Han Hiragana Katakana": "ja",
    "Hangul Han": "ko",
    "Hebrew": "he hbo yi",
    "Kannada": "kn",
    "Khmer": "km",
    "Lao": "lo",
    "Latin Arabic": "ku",
    "Malayalam": "ml",
    "Myanmar": "my",
    "Odia": "or",
    "Sinhala": "si",
    "Tamil": "ta",
    "Telugu": "te",
    "Thai": "th",
    "Thaana": "dv",
    "Tibetan": "bo dz",
}


def parse_ranges(ranges: str) -> Iterator[tuple[int, int]]:
    """(first, last) of each range."""
    for part in ranges.split():
        first, _, last = part.partition("-")
        yield int(first, 16), int(last or first, 16)


@cache
def script_table() -> "NDArray[np.uint8]":
    """The script number of every code point: SCRIPT_NAMES[script_table()[ord("ß")]] is "Latin"."""
    import numpy as np

    table = np.zeros(0x110000, np.uint8)
    for number, ranges in enumerate(SCRIPT_RANGES.values(), start=1):
        for first, last in parse_ranges(ranges):
            table[first : last + 1] = number
    return table


def count_scripts(text: str) -> dict[str, int]:
    """The number of letters of each script in a text, the most frequent first."""
    import numpy as np

    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    counts = np.bincount(script_table()[codes], minlength=len(SCRIPT_NAMES))
    by_script = {SCRIPT_NAMES[number]: int(counts[number]) for number in np.flatnonzero(counts) if number}
    return dict(sorted(by_script.items(), key=lambda item: -item[1]))


@cache
def _scripts_by_language() -> Mapping[str, frozenset[str]]:
    return {
        code: frozenset(name for name in SCRIPT_RANGES if name in names.split())
        for names, codes in LANGUAGES_BY_SCRIPT.items()
        for code in codes.split()
    }


def scripts_of(language: str) -> frozenset[str]:
    """The scripts that a language is written in, by its primary subtag; Latin if it is not listed."""
    return _scripts_by_language().get(language, frozenset({"Latin"}))
