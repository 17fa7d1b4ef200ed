"""Spans put back into a translation that was made without them, where the words that stood around them have gone.

A pair of tags goes around what became of the words between them; anything else after what became of the word before it,
or before what became of the word behind it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from headway.text.align.words import WORD
from headway.text.spans.protect import CLOSING_TAG, OPENING_TAG, PLACEHOLDER, Hidden, pairs_of

# A placeholder, with the signs that would be left around nothing, or at the beginning.
CHUNK = re.compile(r"[(\[\"'„“«‹]+(?:⟦\d+⟧)[)\]\"'”“»›]+|^⟦\d+⟧[.,;:!?…]+(?=\s)|⟦\d+⟧")
CORE = re.compile(r"\w(?:.*\w)?")
INVENTED = re.compile(r"⟦\d*⟧?|⟧")
STOPS, OPENERS = ".,;:!?…)", "([{„‚¿¡"
AT_END, AT_START = re.compile(r"(?:⟦\d+⟧)+$"), re.compile(r"(?:⟦\d+⟧)+")

Links = Sequence[tuple[int, int]]  # (source word, target word)


class Anchor(NamedTuple):
    """Where a span stood."""

    offset: int  # in the text without spans
    spelled: str
    glued: tuple[bool, bool]  # whether something touches it, before and behind
    stopped: bool  # whether a stop or a comma does, behind
    number: int
    neighbours: tuple[str, str]  # the characters there, other spans left out
    tag: str  # "opens", "closes" or ""

    def sticks(self, side: int) -> bool:
        """Whether a word may touch it: where one did. A tag is as close to a word as it was to the signs around it."""
        if self.tag == ("closes", "opens")[side]:
            return self.glued[side]
        return self.neighbours[side].isalnum()


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
        around = AT_END.sub("", text[: chunk.start()])[-1:], text[_past_spans(text, chunk.end()) :][:1]
        tag = _tag(hidden.spans[int(number[1])])
        anchors.append(Anchor(len(kept), chunk[0], glued, stopped, int(number[1]), around, tag))
    return kept + text[end:], anchors


def _past_spans(text: str, place: int) -> int:
    spans = AT_START.match(text, place)
    return spans.end() if spans else place


def _tag(span: str) -> str:
    if re.fullmatch(OPENING_TAG, span):
        return "opens"
    return "closes" if re.fullmatch(CLOSING_TAG, span) else ""


def put_back(hidden: Hidden, output: str, links: Links) -> tuple[str, list[str]]:
    """An output of the bare sentence with the spans in it, and those whose place an alignment decided."""
    if INVENTED.search(output):  # by a model that has learned them
        output, links = INVENTED.sub("", output), ()
    source, anchors = bare(hidden)
    page = Page(source, output, links)
    spots = {anchor.number: page.spot(anchor) for anchor in anchors}
    pairs = [(a, b) for a, b in pairs_of(hidden.spans) if a in spots and b in spots]
    for opening, closing in pairs:
        spots[opening], spots[closing] = page.around(spots[opening], spots[closing])
    nest(spots, pairs)
    text, order = output, in_order(spots, pairs)
    offsets = [-1, *(spot.offset for spot in order), -1]
    for number, spot in reversed(list(enumerate(order, start=1))):
        text = _inserted(text, spot, offsets[number - 1] == spot.offset, offsets[number + 1] == spot.offset)
    placed = PLACEHOLDER.sub(lambda found: hidden.spans[int(found[1])], text)
    return placed, [hidden.spans[number] for number, spot in spots.items() if not spot.sure]


def nest(spots: dict[int, Spot], pairs: Sequence[tuple[int, int]]) -> None:
    """Tags that would cross others, since words have changed places, reach as far as these."""
    opened: list[tuple[int, int]] = []
    for pair in sorted(pairs, key=lambda pair: (spots[pair[0]].offset, -spots[pair[1]].offset, pair[0])):
        start, end = (spots[number].offset for number in pair)
        opened = [outer for outer in opened if spots[outer[1]].offset > start]
        for _, closing in opened:
            spots[closing] = spots[closing]._replace(offset=max(end, spots[closing].offset))
        opened.append(pair)


def in_order(spots: dict[int, Spot], pairs: Sequence[tuple[int, int]]) -> list[Spot]:
    """By their places. What goes to one place stands there as it stood, but of tags those that were opened last are closed
    first, and before others are opened."""
    closed = {opening: closing for opening, closing in pairs if spots[opening].offset < spots[closing].offset}
    ranks: dict[int, tuple[int, int, int]] = {}
    for opening, closing in closed.items():
        ranks[closing] = 0, -spots[opening].offset, -opening
        ranks[opening] = 1, -spots[closing].offset, opening
    found: list[Spot] = []
    for offset in sorted({spot.offset for spot in spots.values()}):
        here = sorted(number for number, spot in spots.items() if spot.offset == offset)
        tags = iter(sorted((number for number in here if number in ranks), key=ranks.__getitem__))
        found += [spots[next(tags) if number in ranks else number] for number in here]
    return found


def _inserted(text: str, spot: Spot, led: bool, followed: bool) -> str:
    """With a space where one stood, and where it would else run into a word. led, followed: by another span there."""
    left, right, anchor = text[: spot.offset], text[spot.offset :], spot.anchor
    word = left[-1:].isalnum() and not led
    close = not left or left[-1].isspace() or left[-1] in OPENERS or (anchor.sticks(0) if word else anchor.glued[0])
    if followed:
        touches = right[:1] not in STOPS and not right[:1].isspace() and not anchor.glued[1]
    else:
        touches = right[:1].isalnum() and not anchor.sticks(1)
    return left + ("" if close else " ") + anchor.spelled + (" " if touches else "") + right


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
            end = len(self.output.rstrip(STOPS) if inside else self.output)
            return Spot(self._past_sign(end, anchor), anchor, True)
        after = [self.words[max(self.said[word])][1] for word in (behind - 1,) if word in self.said]
        before = [self.words[min(self.said[word])][0] for word in (behind,) if word in self.said]
        first, last = anchor.neighbours
        opens = bool(last.strip()) and last not in STOPS and not first.strip()
        for found in (before, after) if opens else (after, before):
            if found:
                return Spot(self._past_sign(found[0], anchor), anchor, False)
        return Spot(self._by_share(anchor.offset), anchor, False)

    def _past_sign(self, offset: int, anchor: Anchor) -> int:
        """On the other side of a sign that touched it, if the output has that sign there."""
        first, last = anchor.neighbours
        if first.strip() and not first.isalnum() and self.output[offset : offset + 1] == first:
            return offset + 1
        if anchor.glued[1] and last.strip() and not last.isalnum() and offset and self.output[offset - 1] == last:
            return offset - 1
        return offset

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
