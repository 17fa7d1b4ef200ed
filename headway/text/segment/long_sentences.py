"""Split a sentence that is too long for a model, where it does least harm, without losing a character."""

import math
import re
import unicodedata
from collections.abc import Callable, Container, Iterator

from headway.errors import HeadwayError
from headway.text.segment.sentences import Segment, make_segments

# Where to cut, best first: after a clause, after a comma, between words.
CUT_PATTERNS = (
    re.compile(r"[;:–—…](?=\s)|[。｡！？；：।]|[.!?](?=\s)"),
    re.compile(r"[,،](?=\s)|[、，]"),
    re.compile(r"(?=\s)"),
)
# A placeholder of a protected span, with the punctuation around it: never cut, or it would stand for nothing.
PLACEHOLDER_RUN = re.compile(r"[^\w\s⟦⟧]{0,3}⟦\d{1,9}⟧[^\w\s⟦⟧]{0,3}")
ZERO_WIDTH_JOINER = "\u200d"
VIRAMA_CLASS = 9  # the combining class of the signs that join two Indic consonants


def split_long_sentence(text: str, limit: int, length: Callable[[str], int]) -> list[Segment]:
    """Pieces of a text, none longer than `limit` as `length` measures it. Joined they are the text again.

    Cut after clauses, else after commas, else between words, else between characters: never before a combining mark or
    within an emoji, unless that one is too long itself. A single character that is too long stays, and so does the
    placeholder of a span.
    """
    if limit < 1:
        raise HeadwayError(f"the limit is {limit}: it must be at least 1.")
    if length(text.strip()) <= limit:
        return make_segments([text])
    chunks = []
    start = 0
    for run in PLACEHOLDER_RUN.finditer(text):
        if length(run[0]) > limit:
            chunks += [*_split_chunks(text[start : run.start()], limit, length), run[0]]
            start = run.end()
    return make_segments([*chunks, *_split_chunks(text[start:], limit, length)])


def _split_chunks(text: str, limit: int, length: Callable[[str], int]) -> Iterator[str]:
    def fits(start: int, end: int) -> bool:
        return length(text[start:end].strip()) <= limit

    total = length(text.strip())
    start = 0
    forbidden = {offset for run in PLACEHOLDER_RUN.finditer(text) for offset in range(run.start() + 1, run.end())}
    while start < len(text):
        remaining = len(text) - start
        pieces = math.ceil(total * remaining / len(text) / limit)  # assuming that tokens are evenly distributed
        target = start + remaining // max(pieces, 1)
        reach = _find_reach(start, target, len(text), fits)
        end = _find_cut(text, start, target, reach, fits, forbidden)
        yield text[start:end]
        start = end


def _find_reach(start: int, target: int, end: int, fits: Callable[[int, int], bool]) -> int:
    """The furthest end at which a piece from `start` fits, by bisection from a guess; at least one character on."""
    low, high = start + 1, max(target, start + 2)
    while high < end and fits(start, high):
        low, high = high, start + 2 * (high - start)
    high = min(high, end)
    if fits(start, high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(start, middle) else (low, middle)
    return low


def _find_cut(
    text: str, start: int, target: int, reach: int, fits: Callable[[int, int], bool], forbidden: Container[int]
) -> int:  # fmt: skip
    """The best offset to end a piece at, between halfway to `target` and `reach`; never one that is `forbidden`."""
    if reach == len(text):
        return reach
    for pattern in CUT_PATTERNS:
        ends = [match.end() for match in pattern.finditer(text, (start + target) // 2 + 1, reach + 1)]
        for end in sorted(ends, key=lambda end: abs(end - target)):
            if end <= reach and end not in forbidden and fits(start, end):
                return end
    for end in _character_boundaries(text, start, reach):
        if end not in forbidden and fits(start, end):
            return end
    while reach in forbidden:  # half a placeholder may be longer than a whole one
        reach += 1
    return reach


def _character_boundaries(text: str, start: int, reach: int) -> Iterator[int]:
    return (end for end in range(reach, start, -1) if not _is_inside_character(text, end))


def _is_inside_character(text: str, offset: int) -> bool:
    """Whether a reader takes the code points on both sides of this offset for one character (grapheme)."""
    last, following = text[offset - 1], text[offset]
    return (
        unicodedata.category(following).startswith("M")
        or unicodedata.combining(last) == VIRAMA_CLASS
        or ZERO_WIDTH_JOINER in (last, following)
        or "\U0001f3fb" <= following <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= following <= "\U000e007f"  # tags, in some flags
        or "\u1160" <= following <= "\u11ff"  # Korean vowels and finals
        or all("\U0001f1e6" <= side <= "\U0001f1ff" for side in (last, following))  # flags
        or ("\ud800" <= last <= "\udbff" and "\udc00" <= following <= "\udfff")
        or last + following == "\r\n"
    )
