"""Inline tags and their positions: in the plain text of a segment, and in its translation."""

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headway.text.align.words import WORD

SPACED_SCRIPT_LETTER = r"[^\W\u2e80-\U0010ffff]"  # of a script that separates words by spaces
Span = tuple[int, int]  # start and end, in characters


@dataclass(frozen=True)
class InlineTag:
    """A tag, or a pair of tags, at its position in the plain text of a segment."""

    kind: Literal["pair", "standalone", "verbatim"]  # verbatim: text that is written unchanged, with its tags
    opening: Any  # markup.Piece; only its name is read here
    start: int
    end: int
    closing: Any = None
    children: Sequence["InlineTag"] = ()
    spaced: bool = False  # of a standalone tag: there was space on both sides of it

    def standalone_if_empty(self, plain: str) -> "InlineTag":
        """A pair around nothing becomes a standalone tag."""
        if plain[self.start : self.end].strip():
            return self
        return InlineTag("standalone", self.opening, self.end, self.end, self.closing, self.children)

    def pieces(self) -> Iterator[Any]:
        """Of a standalone or verbatim tag: all pieces to write."""
        yield self.opening
        for child in self.children:
            yield from child.pieces()
        if self.closing is not None:
            yield self.closing


@dataclass
class PlacedTag:
    """A tag and its span in the translation."""

    tag: InlineTag
    start: int
    end: int
    children: "list[PlacedTag]" = field(default_factory=list)


class WordSpans:
    """The words of a text, as word alignments count them, and their spans."""

    def __init__(self, text: str) -> None:
        self.spans = [match.span() for match in WORD.finditer(text)]
        self.starts = [start for start, _ in self.spans]
        self.ends = [end for _, end in self.spans]

    def __len__(self) -> int:
        return len(self.spans)

    def __getitem__(self, number: int) -> Span:
        return self.spans[number]

    def overlapping(self, start: int, end: int) -> range:
        """The words that have characters from start to end."""
        return range(bisect_right(self.ends, start), bisect_left(self.starts, end)) if start < end else range(0)

    def count_before(self, position: int) -> int:
        """How many words start before a position."""
        return bisect_left(self.starts, position)


class VerbatimMatches:
    """Exact occurrences of source text in a translation. Each is searched for once and given away once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.free: dict[str, list[Span]] = {}  # by text, in order
        self.taken: list[Span] = []  # in order

    def take(self, text: str, expected: float) -> Span | None:
        """The free occurrence nearest to the expected position; of two, the first."""
        if text not in self.free:
            self.free[text] = self.find_all(text)
        free = self.free[text]
        while free:
            nearest = bisect_left(free, expected, key=lambda span: span[0])
            if nearest == len(free) or (nearest > 0 and expected - free[nearest - 1][0] <= free[nearest][0] - expected):
                nearest -= 1
            span = free.pop(nearest)
            neighbour = bisect_left(self.taken, span)
            if not overlaps(span, self.taken[max(neighbour - 1, 0) : neighbour + 1]):
                insort(self.taken, span)
                return span
        return None

    def find_all(self, text: str) -> list[Span]:
        before, after = (text[index].isalnum() for index in (0, -1))
        pattern = f"(?<!{SPACED_SCRIPT_LETTER})" * before + re.escape(text) + f"(?!{SPACED_SCRIPT_LETTER})" * after
        return [match.span() for match in re.finditer(pattern, self.text)]


def iter_verbatim(tags: Sequence[InlineTag]) -> Iterator[InlineTag]:
    for tag in tags:
        if tag.kind == "verbatim":
            yield tag
        yield from iter_verbatim(tag.children)


def overlaps(span: Span, others: Sequence[Span]) -> bool:
    """Whether a span shares a character with one of the others."""
    return any(max(span[0], start) < min(span[1], end) for start, end in others)


def move_outside(position: int, taken: Sequence[PlacedTag]) -> int:
    """A position, moved to the end of the placed tag that it lies in."""
    return max([position, *(placed.end for placed in taken if placed.start < position < placed.end)])
