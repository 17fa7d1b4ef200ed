"""Translators that need no model, and say exactly which word says which."""

import re
from collections.abc import Sequence

from headway.documents import SegmentRequest, SegmentResult, TranslateSegments
from headway.text.align.words import split_words


def same(asked: Sequence[SegmentRequest]) -> list[SegmentResult]:
    return [SegmentResult(one.text) for one in asked]


def louder(asked: Sequence[SegmentRequest]) -> list[SegmentResult]:
    """IN CAPITALS."""
    return [SegmentResult(one.text.upper(), [(i, i) for i in range(len(split_words(one.text)))]) for one in asked]


def backwards(asked: Sequence[SegmentRequest]) -> list[SegmentResult]:
    """The last word first, in capitals."""
    said = []
    for one in asked:
        given = split_words(one.text)
        links = [(i, len(given) - 1 - i) for i in range(len(given))]
        said.append(SegmentResult(" ".join(word.upper() for word in reversed(given)), links))
    return said


def ending(asked: Sequence[SegmentRequest]) -> list[SegmentResult]:
    """Every word with another ending, so that none is as it was."""
    return [
        SegmentResult(re.sub(r"[^\W\d_]+", r"\g<0>en", one.text), [(i, i) for i in range(len(split_words(one.text)))])
        for one in asked
    ]


def without_links(asked: Sequence[SegmentRequest]) -> list[SegmentResult]:
    return [SegmentResult(one.text.upper()) for one in asked]


def silent(asked: Sequence[SegmentRequest]) -> list[SegmentResult]:
    return [SegmentResult(" ") for _ in asked]


def copying(*kept: str) -> TranslateSegments:
    """The last word first, in capitals, but these words as they are."""

    def translate(asked: Sequence[SegmentRequest]) -> list[SegmentResult]:
        said = []
        for one in asked:
            given = [word if word.strip(".") in kept else word.upper() for word in split_words(one.text)]
            links = [(i, len(given) - 1 - i) for i in range(len(given))]
            said.append(SegmentResult(" ".join(reversed(given)), links))
        return said

    return translate


def fixed(text: str, *links: tuple[int, int]) -> TranslateSegments:
    """Always the same answer."""
    return lambda asked: [SegmentResult(text, links or None) for _ in asked]
