"""Cutting a sentence that is too long, where it hurts least, without losing a character of it."""

import math
import re
import unicodedata
from collections.abc import Callable, Container, Iterator

from headway.errors import HeadwayError
from headway.text.segment.sentences import Segment, segments

# Where to cut, best first: after a clause, after a comma, between words.
PLACES = (
    re.compile(r"[;:–—…](?=\s)|[。｡！？；：।]|[.!?](?=\s)"),
    re.compile(r"[,،](?=\s)|[、，]"),
    re.compile(r"(?=\s)"),
)
# What stands for a protected span, with the signs at it: cut, it would stand for nothing.
SPAN = re.compile(r"[^\w\s⟦⟧]{0,3}⟦\d{1,9}⟧[^\w\s⟦⟧]{0,3}")
JOINER = "\u200d"
VIRAMA = 9  # the combining class of the signs that tie two Indic consonants together


def split_long(text: str, limit: int, length: Callable[[str], int]) -> list[Segment]:
    """Pieces of a text, none longer than `limit` as `length` measures it. Joined they are the text again.

    Cut after clauses, else after commas, else between words, else between characters: never before a combining mark
    or within an emoji, unless that one is too long itself. A single character that is too long stays, and so does the
    placeholder of a span.
    """
    if limit < 1:
        raise HeadwayError(f"a piece of text cannot be at most {limit} long. Give 1 or more.")
    if length(text.strip()) <= limit:
        return segments([text])
    chunks, start = [], 0
    for span in SPAN.finditer(text):
        if length(span[0]) > limit:
            chunks += [*_chunks(text[start : span.start()], limit, length), span[0]]
            start = span.end()
    return segments([*chunks, *_chunks(text[start:], limit, length)])


def _chunks(text: str, limit: int, length: Callable[[str], int]) -> Iterator[str]:
    def fits(start: int, end: int) -> bool:
        return length(text[start:end].strip()) <= limit

    total, start = length(text.strip()), 0
    inside = {place for span in SPAN.finditer(text) for place in range(span.start() + 1, span.end())}
    while start < len(text):
        left = len(text) - start
        pieces = math.ceil(total * left / len(text) / limit)  # were it all equally dense
        aim = start + left // max(pieces, 1)
        end = _cut(text, start, aim, _reach(start, aim, len(text), fits), fits, inside)
        yield text[start:end]
        start = end


def _reach(start: int, aim: int, end: int, fits: Callable[[int, int], bool]) -> int:
    """The furthest place up to which a piece from `start` fits, found from a guess; at least one character on."""
    low, high = start + 1, max(aim, start + 2)
    while high < end and fits(start, high):
        low, high = high, start + 2 * (high - start)
    high = min(high, end)
    if fits(start, high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(start, middle) else (low, middle)
    return low


def _cut(
    text: str, start: int, aim: int, reach: int, fits: Callable[[int, int], bool], inside: Container[int]
) -> int:  # fmt: skip
    """The best place to end a piece, between half the way to `aim` and `reach`; none that is `inside` a span."""
    if reach == len(text):
        return reach
    for place in PLACES:
        ends = [found.end() for found in place.finditer(text, (start + aim) // 2 + 1, reach + 1)]
        for end in sorted(ends, key=lambda end: abs(end - aim)):
            if end <= reach and end not in inside and fits(start, end):
                return end
    for end in _between_characters(text, start, reach):
        if end not in inside and fits(start, end):
            return end
    while reach in inside:  # half a placeholder may be longer than what it stands for
        reach += 1
    return reach


def _between_characters(text: str, start: int, reach: int) -> Iterator[int]:
    return (end for end in range(reach, start, -1) if not _inside_character(text, end))


def _inside_character(text: str, place: int) -> bool:
    """Whether a reader would take the code points on both sides of this place for one character."""
    last, following = text[place - 1], text[place]
    return (
        unicodedata.category(following).startswith("M")
        or unicodedata.combining(last) == VIRAMA
        or JOINER in (last, following)
        or "\U0001f3fb" <= following <= "\U0001f3ff"  # skin colours
        or "\U000e0020" <= following <= "\U000e007f"  # tags, in some flags
        or "\u1160" <= following <= "\u11ff"  # Korean vowels and finals
        or all("\U0001f1e6" <= side <= "\U0001f1ff" for side in (last, following))  # flags
        or ("\ud800" <= last <= "\udbff" and "\udc00" <= following <= "\udfff")
        or last + following == "\r\n"
    )
