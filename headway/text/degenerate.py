"""Signs that a translation went wrong: it says the same again and again, or it says what the source says."""

import re
from collections.abc import Sequence

LONGEST_UNIT = 8
TIMES = 4  # "New York, New York" and "ha ha ha" are speech
LEAST_LOOPED = 16  # tokens; "no, no, no, no, no!" is speech too
LEAST_SHARE = 0.5
STUTTER = 3  # times, in a measure and not in a search
LEAST_COPIED = 5  # words
ADDRESS = ("/", "\\", "@", "www.")  # any of these makes a word an address or a path
WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")


def repeated(tokens: Sequence[int | str]) -> bool:
    """Whether one to eight tokens, over and over, make up half or more of an output.

    A source may do the same with good reason; ask this of both.
    """
    most = max((_longest_run(tokens, unit) for unit in range(1, LONGEST_UNIT + 1)), default=0)
    return most >= LEAST_LOOPED and most >= LEAST_SHARE * len(tokens)


def _longest_run(tokens: Sequence[int | str], unit: int) -> int:
    """The most tokens in a row that say the same `unit` tokens at least so many times."""
    longest = run = 0
    for place in range(unit, len(tokens)):
        run = run + 1 if tokens[place] == tokens[place - unit] else 0
        longest = max(longest, run)
    covered = longest + unit
    return covered if covered >= TIMES * unit else 0


def stutters(source: str, output: str) -> bool:
    """Whether the output says one to eight words three times in a row or more, and more often than the source does.

    Stricter than `repeated`, for counting: much that is counted here is still a translation."""
    most = _times(_words(output))
    return most >= STUTTER and most > _times(_words(source))


def _times(words: Sequence[str]) -> int:
    """How often the same words are said in a row, at most."""
    most = 1
    for unit in range(1, LONGEST_UNIT + 1):
        run = 0
        for place in range(unit, len(words)):
            run = run + 1 if words[place] == words[place - unit] else 0
            most = max(most, run // unit + 1)
    return most


def copied(source: str, output: str) -> bool:
    """Whether the output is the source, untranslated, in a text that should have changed.

    Names, numbers, addresses and a word or two are the same in many languages; five words in small letters are not.
    """
    return _words(source) == _words(output) and _translatable(source) >= LEAST_COPIED


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _translatable(text: str) -> int:
    """How many words are no names: no capital at their start. Without spaces two characters count as a word."""
    plain = " ".join(word for word in text.split() if not any(mark in word for mark in ADDRESS))
    words = re.findall(r"[^\W\d_]+", plain)
    small = [word for word in words if len(word) > 1 and not word[0].isupper() and not WITHOUT_SPACES.search(word)]
    return len(small) + len(WITHOUT_SPACES.findall(text)) // 2
