"""Tags at their places: in the text of a segment, and in its translation."""

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headway.text.align.words import WORD

LETTER = r"[^\W\u2e80-\U0010ffff]"  # of a script that has spaces
Range = tuple[int, int]


@dataclass(frozen=True)
class Mark:
    """A tag, or a pair of them, at its place in the plain text of a segment."""

    kind: Literal["pair", "point", "kept"]  # kept: text that is written as it was, with its tags
    opening: Any  # pieces: only their names are looked at here
    start: int
    end: int
    closing: Any = None
    inner: Sequence["Mark"] = ()
    spaced: bool = False  # of a point: space stood on both sides of it

    def or_point(self, plain: str) -> "Mark":
        """Around nothing a pair is a point."""
        if plain[self.start : self.end].strip():
            return self
        return Mark("point", self.opening, self.end, self.end, self.closing, self.inner)

    def items(self) -> Iterator[Any]:
        """Of a point or a kept piece: all that it is written with."""
        yield self.opening
        for mark in self.inner:
            yield from mark.items()
        if self.closing is not None:
            yield self.closing


@dataclass
class Spot:
    """Where a mark goes: characters of the translation."""

    mark: Mark
    start: int
    end: int
    inner: "list[Spot]" = field(default_factory=list)


class Words:
    """The words of a text, as alignments count them, and where they stand."""

    def __init__(self, text: str) -> None:
        self.spans = [match.span() for match in WORD.finditer(text)]
        self.starts, self.ends = [start for start, _ in self.spans], [end for _, end in self.spans]

    def __len__(self) -> int:
        return len(self.spans)

    def __getitem__(self, number: int) -> Range:
        return self.spans[number]

    def over(self, start: int, end: int) -> range:
        """Those that have characters from start to end."""
        return range(bisect_right(self.ends, start), bisect_left(self.starts, end)) if start < end else range(0)

    def before(self, position: int) -> int:
        """How many begin before a position."""
        return bisect_left(self.starts, position)


class Copies:
    """Where a translation says something letter by letter. A place is given away once, and searched for once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.free: dict[str, list[Range]] = {}  # by what is said there, in order
        self.taken: list[Range] = []  # in order

    def take(self, said: str, aim: float) -> Range | None:
        """The free place that is nearest to a position; of two the first."""
        if said not in self.free:
            self.free[said] = self.places(said)
        free = self.free[said]
        while free:
            at = bisect_left(free, aim, key=lambda place: place[0])
            if at == len(free) or (at > 0 and aim - free[at - 1][0] <= free[at][0] - aim):
                at -= 1
            where = free.pop(at)
            near = bisect_left(self.taken, where)
            if not meets(where, self.taken[max(near - 1, 0) : near + 1]):
                insort(self.taken, where)
                return where
        return None

    def places(self, said: str) -> list[Range]:
        before, after = (said[place].isalnum() for place in (0, -1))
        pattern = f"(?<!{LETTER})" * before + re.escape(said) + f"(?!{LETTER})" * after
        return [match.span() for match in re.finditer(pattern, self.text)]


def kept(marks: Sequence[Mark]) -> Iterator[Mark]:
    for mark in marks:
        if mark.kind == "kept":
            yield mark
        yield from kept(mark.inner)


def meets(span: Range, others: Sequence[Range]) -> bool:
    """Whether two ranges share a character."""
    return any(max(span[0], start) < min(span[1], end) for start, end in others)


def outside(position: int, taken: Sequence[Spot]) -> int:
    """A position, moved to the end of the spot that it lies in."""
    return max([position, *(spot.end for spot in taken if spot.start < position < spot.end)])
