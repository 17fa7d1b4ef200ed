"""Spans put back into a translation that was made without them, where the words that stood around them have gone.

A pair of tags goes around what became of the words between them; anything else after what became of the word before it,
or before what became of the word behind it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from headway.text.protect import PLACEHOLDER, Hidden, pairs_of
from headway.text.words import WORD

# A placeholder, with the signs that would be left around nothing, or at the beginning.
CHUNK = re.compile(r"[(\[\"'„“«‹]+(?:⟦\d+⟧)[)\]\"'”“»›]+|^⟦\d+⟧[.,;:!?…]+(?=\s)|⟦\d+⟧")
CORE = re.compile(r"\w(?:.*\w)?")
INVENTED = re.compile(r"⟦\d*⟧?|⟧")
STOPS = ".,;:!?…)"

Links = Sequence[tuple[int, int]]  # (source word, target word)


class Anchor(NamedTuple):
    """Where a span stood."""

    offset: int  # in the text without spans
    spelled: str
    glued: tuple[bool, bool]  # whether something touches it, before and behind
    stopped: bool  # whether a stop or a comma does, behind
    number: int


class Spot(NamedTuple):
    """Where it goes."""

    offset: int
    anchor: Anchor
    sure: bool  # that no alignment had to be asked


def bare(hidden: Hidden) -> tuple[str, list[Anchor]]:
    """The sentence without its spans, and where they stood. A space that would be left twice is left once."""
    text, kept, anchors, end = hidden.text, "", [], 0
    for chunk in CHUNK.finditer(text):
        kept += text[end : chunk.start()]
        end = chunk.end()
        before, behind = text[: chunk.start()][-1:], text[end:][:1]
        if kept[-1:].isspace() or not kept:
            if behind.isspace():
                end += 1
            elif not behind or behind in STOPS:
                kept = kept.rstrip()
        number = PLACEHOLDER.search(chunk[0])
        assert number is not None
        stopped = bool(behind) and behind in STOPS
        glued = (bool(before.strip()), bool(behind.strip()) and not stopped)
        anchors.append(Anchor(len(kept), chunk[0], glued, stopped, int(number[1])))
    return kept + text[end:], anchors


def put_back(hidden: Hidden, output: str, links: Links) -> tuple[str, list[str]]:
    """An output of the bare sentence with the spans in it, and those whose place an alignment decided."""
    if INVENTED.search(output):  # by a model that has learned them
        output, links = INVENTED.sub("", output), ()
    source, anchors = bare(hidden)
    page = Page(source, output, links)
    spots = {anchor.number: page.spot(anchor) for anchor in anchors}
    for opening, closing in pairs_of(hidden.spans):
        if opening in spots and closing in spots:
            spots[opening], spots[closing] = page.around(spots[opening], spots[closing])
    text = output
    for spot in sorted(spots.values(), key=lambda spot: (spot.offset, spot.anchor.number), reverse=True):
        text = _inserted(text, spot, any(o.offset == spot.offset and o.anchor.number > n for n, o in spots.items()))
    placed = PLACEHOLDER.sub(lambda found: hidden.spans[int(found[1])], text)
    return placed, [hidden.spans[number] for number, spot in spots.items() if not spot.sure]


def _inserted(text: str, spot: Spot, followed: bool) -> str:
    """With a space where one stood, and where it would else run into a word. followed: by another span."""
    left, right = text[: spot.offset], text[spot.offset :]
    before = "" if not left or left[-1].isspace() or spot.anchor.glued[0] else " "
    touches = right[:1].isalnum() or (followed and right[:1] not in STOPS and not right[:1].isspace())
    behind = " " if touches and not spot.anchor.glued[1] else ""
    return left + before + spot.anchor.spelled + behind + right


class Page:
    """Both sides and which word says which."""

    def __init__(self, source: str, output: str, links: Links) -> None:
        self.source, self.output = [w.start() for w in WORD.finditer(source)], output
        self.length = max(len(source), 1)
        self.words = [_core(word) for word in WORD.finditer(output)]
        self.said: dict[int, list[int]] = {}
        for i, j in links:
            if j < len(self.words):
                self.said.setdefault(i, []).append(j)

    def spot(self, anchor: Anchor) -> Spot:
        """For a span by itself."""
        behind = sum(start < anchor.offset for start in self.source)  # the word before it is one less
        if not behind:
            return Spot(0, anchor, True)
        if behind == len(self.source):
            inside = anchor.stopped or not anchor.glued[0]
            return Spot(len(self.output.rstrip(STOPS) if inside else self.output), anchor, True)
        after = [self.words[max(self.said[word])][1] for word in (behind - 1,) if word in self.said]
        before = [self.words[min(self.said[word])][0] for word in (behind,) if word in self.said]
        opens = anchor.glued[1] and not anchor.glued[0]
        for found in (before, after) if opens else (after, before):
            if found:
                return Spot(found[0], anchor, False)
        return Spot(self._by_share(anchor.offset), anchor, False)

    def around(self, opening: Spot, closing: Spot) -> tuple[Spot, Spot]:
        """For two tags. Where nothing is known of what stood between them, a word is taken that is as far in."""
        if not self.words or (opening.sure and closing.sure):
            return opening, closing
        first = sum(start < opening.anchor.offset for start in self.source)
        last = sum(start < closing.anchor.offset for start in self.source)
        said = [j for word in range(first, last) for j in self.said.get(word, ())]
        said = said or [min(first * len(self.words) // max(len(self.source), 1), len(self.words) - 1)]
        start = 0 if opening.sure else self.words[min(said)][0]
        end = closing.offset if closing.sure else self.words[max(said)][1]
        return opening._replace(offset=start), closing._replace(offset=max(start, end))

    def _by_share(self, offset: int) -> int:
        """Where nothing is linked: as far into the output as it was into the source, between two words."""
        aim = offset / self.length * len(self.output)
        return min((end for _, end in self.words), key=lambda end: abs(end - aim), default=0)


def _core(word: re.Match[str]) -> tuple[int, int]:
    """A word without the signs around it."""
    core = CORE.search(word[0])
    first, last = core.span() if core else (0, len(word[0]))
    return word.start() + first, word.start() + last
