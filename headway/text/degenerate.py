"""Degenerate translations: outputs that repeat themselves (loops), or copy the source."""

import re
from collections.abc import Sequence

MAX_UNIT_TOKENS = 8
MIN_REPEATS = 4  # "New York, New York" and "ha ha ha" are legitimate
MIN_LOOP_TOKENS = 16  # "no, no, no, no, no!" is legitimate, too
MIN_LOOP_SHARE = 0.5
MIN_STUTTER_REPEATS = 3  # for measuring, not for searching
MIN_COPIED_WORDS = 5
ADDRESS_MARKERS = ("/", "\\", "@", "www.")  # any of these makes a word an address or a path
UNSPACED_CHARACTER = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")


def is_repetitive(tokens: Sequence[int | str]) -> bool:
    """Whether a repeated unit of one to eight tokens makes up at least half of an output.

    A source may be repetitive for good reason: check both.
    """
    longest = max((_longest_run(tokens, unit) for unit in range(1, MAX_UNIT_TOKENS + 1)), default=0)
    return longest >= MIN_LOOP_TOKENS and longest >= MIN_LOOP_SHARE * len(tokens)


def _longest_run(tokens: Sequence[int | str], unit: int) -> int:
    """The length of the longest run that repeats the same `unit` tokens at least MIN_REPEATS times; else 0."""
    longest = run = 0
    for i in range(unit, len(tokens)):
        run = run + 1 if tokens[i] == tokens[i - unit] else 0
        longest = max(longest, run)
    covered = longest + unit
    return covered if covered >= MIN_REPEATS * unit else 0


def is_stuttering(source: str, output: str) -> bool:
    """Whether the output repeats one to eight words at least three times in a row, and more often than the source.

    Stricter than `is_repetitive`, for statistics: many outputs counted here are still translations."""
    repeats = _max_repeats(_split_words(output))
    return repeats >= MIN_STUTTER_REPEATS and repeats > _max_repeats(_split_words(source))


def _max_repeats(words: Sequence[str]) -> int:
    """How many times in a row the same words occur, at most."""
    repeats = 1
    for unit in range(1, MAX_UNIT_TOKENS + 1):
        run = 0
        for i in range(unit, len(words)):
            run = run + 1 if words[i] == words[i - unit] else 0
            repeats = max(repeats, run // unit + 1)
    return repeats


def is_copy(source: str, output: str) -> bool:
    """Whether the output is the untranslated source, although it should differ.

    Names, numbers, addresses and a word or two are the same in many languages; five lowercase words are not.
    """
    return _split_words(source) == _split_words(output) and _count_translatable(source) >= MIN_COPIED_WORDS


def _split_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _count_translatable(text: str) -> int:
    """How many words begin in lower case, so that they are no names. Without spaces two characters count as a word."""
    plain = " ".join(word for word in text.split() if not any(marker in word for marker in ADDRESS_MARKERS))
    words = re.findall(r"[^\W\d_]+", plain)
    lowercase = [
        word for word in words if len(word) > 1 and not word[0].isupper() and not UNSPACED_CHARACTER.search(word)
    ]
    return len(lowercase) + len(UNSPACED_CHARACTER.findall(text)) // 2
