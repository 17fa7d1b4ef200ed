"""Scripts that are written without spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese, Tibetan.

Their text is counted in characters, its sentences are joined without spaces, and tokenizers learn their characters.
Korean has spaces. Punctuation is not among them: it says nothing about the script of a text.
"""

import re

from headway.text.scripts import SCRIPT_RANGES, UNSPACED_SCRIPTS, parse_ranges

UNSPACED_CLASS = "".join(
    f"\\U{first:08x}-\\U{last:08x}"
    for script in UNSPACED_SCRIPTS
    for first, last in parse_ranges(SCRIPT_RANGES[script])
)
UNSPACED_PATTERN = re.compile(f"[{UNSPACED_CLASS}]")
CHARACTERS_PER_WORD = 1.6  # of Chinese text, as translators count it


def is_unspaced(character: str) -> bool:
    return bool(UNSPACED_PATTERN.match(character))


def count_words(text: str) -> float:
    """What stands between spaces, and one word for 1.6 characters of a script without spaces."""
    if text.isascii():
        return len(text.split())
    spaced, characters = UNSPACED_PATTERN.subn(" ", text)
    if not characters:
        return len(text.split())
    others = sum(any(map(str.isalnum, word)) for word in spaced.split())
    return others + characters / CHARACTERS_PER_WORD
