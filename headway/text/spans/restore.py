"""Restore protected spans by word alignment, in a translation that was made without them.

A pair of tags goes around the translation of the words between them; any other span goes after the translation of the
word before it, or before the translation of the word after it.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from headway.text.align.words import WORD
from headway.text.spans.protect import CLOSING_TAG, OPENING_TAG, PLACEHOLDER, MaskedText, fill_placeholders, pair_tags

# A placeholder with the punctuation that would be left around nothing, or at the beginning.
SPAN_CHUNK = re.compile(r"[(\[\"'„“«‹]+(?:⟦\d+⟧)[)\]\"'”“»›]+|^⟦\d+⟧[.,;:!?…]+(?=\s)|⟦\d+⟧")
WORD_CORE = re.compile(r"\w(?:.*\w)?")
STRAY_PLACEHOLDER = re.compile(r"⟦\d*⟧?|⟧")
STOPS = ".,;:!?…)"
OPENERS = "([{„‚¿¡"
TRAILING_PLACEHOLDERS = re.compile(r"(?:⟦\d+⟧)+$")
LEADING_PLACEHOLDERS = re.compile(r"(?:⟦\d+⟧)+")

Links = Sequence[tuple[int, int]]  # (source word, target word)


class Anchor(NamedTuple):
    """Where a span stood in the source."""

    offset: int  # in the text without spans
    text: str  # the placeholder and the punctuation that goes with it
    touched: tuple[bool, bool]  # whether something touches it, before and after
    before_stop: bool  # whether a full stop, a comma or the like follows at once
    number: int
    neighbours: tuple[str, str]  # the characters before and after, other spans skipped
    tag: str  # "opens", "closes" or ""

    def may_touch_word(self, side: int) -> bool:
        """Whether a word may touch it on side 0 (before) or 1 (after): where one did. On its outer side, a tag is as
        close to a word as it was to the punctuation there."""
        if self.tag == ("closes", "opens")[side]:
            return self.touched[side]
        return self.neighbours[side].isalnum()


class Insertion(NamedTuple):
    """Where a span goes in the output."""

    offset: int
    anchor: Anchor
    is_certain: bool  # that it did not depend on an alignment


def remove_spans(masked: MaskedText) -> tuple[str, list[Anchor]]:
    """The sentence without its spans, and where they stood. Of two spaces that would be left, one is."""
    text = masked.text
    bare = ""
    anchors = []
    end = 0
    for chunk in SPAN_CHUNK.finditer(text):
        bare += text[end : chunk.start()]
        end = chunk.end()
        before, after = text[: chunk.start()][-1:], text[end:][:1]
        if bare[-1:].isspace() or not bare:
            if after.isspace():
                end += 1
            elif not after or after in STOPS:
                bare = bare.rstrip()
        placeholder = PLACEHOLDER.search(chunk[0])
        assert placeholder is not None
        number = int(placeholder[1])
        before_stop = bool(after) and after in STOPS
        touched = (bool(before.strip()), bool(after.strip()) and not before_stop)
        neighbours = (
            TRAILING_PLACEHOLDERS.sub("", text[: chunk.start()])[-1:],
            text[_skip_placeholders(text, chunk.end()) :][:1],
        )
        tag = _tag_side(masked.spans[number])
        anchors.append(Anchor(len(bare), chunk[0], touched, before_stop, number, neighbours, tag))
    return bare + text[end:], anchors


def _skip_placeholders(text: str, offset: int) -> int:
    placeholders = LEADING_PLACEHOLDERS.match(text, offset)
    return placeholders.end() if placeholders else offset


def _tag_side(span: str) -> str:
    if OPENING_TAG.fullmatch(span):
        return "opens"
    return "closes" if CLOSING_TAG.fullmatch(span) else ""


def restore_spans(masked: MaskedText, output: str, links: Links) -> tuple[str, list[str]]:
    """An output of the sentence without spans, with the spans in it; and those placed by an alignment."""
    if STRAY_PLACEHOLDER.search(output):  # made up by a model that has learned placeholders
        output = STRAY_PLACEHOLDER.sub("", output)
        links = ()
    source, anchors = remove_spans(masked)
    aligned = AlignedOutput(source, output, links)
    insertions = {anchor.number: aligned.place(anchor) for anchor in anchors}
    pairs = [(a, b) for a, b in pair_tags(masked.spans) if a in insertions and b in insertions]
    for opening, closing in pairs:
        insertions[opening], insertions[closing] = aligned.place_pair(insertions[opening], insertions[closing])
    nest_tags(insertions, pairs)
    text = output
    ordered = order_insertions(insertions, pairs)
    offsets = [-1, *(insertion.offset for insertion in ordered), -1]
    for index, insertion in reversed(list(enumerate(ordered, start=1))):
        follows_span = offsets[index - 1] == insertion.offset
        precedes_span = offsets[index + 1] == insertion.offset
        text = _insert(text, insertion, follows_span, precedes_span)
    restored = fill_placeholders(text, masked.spans)
    return restored, [masked.spans[number] for number, insertion in insertions.items() if not insertion.is_certain]


def nest_tags(insertions: dict[int, Insertion], pairs: Sequence[tuple[int, int]]) -> None:
    """Extend tags that would cross others, because words have changed places, to the end of these."""
    unclosed: list[tuple[int, int]] = []
    for pair in sorted(pairs, key=lambda pair: (insertions[pair[0]].offset, -insertions[pair[1]].offset, pair[0])):
        start, end = (insertions[number].offset for number in pair)
        unclosed = [outer for outer in unclosed if insertions[outer[1]].offset > start]
        for _, closing in unclosed:
            insertions[closing] = insertions[closing]._replace(offset=max(end, insertions[closing].offset))
        unclosed.append(pair)


def order_insertions(insertions: dict[int, Insertion], pairs: Sequence[tuple[int, int]]) -> list[Insertion]:
    """By offset. Spans at the same offset keep their order, except that of tags the last opened is closed first, and
    tags are closed before others are opened."""
    nonempty = {a: b for a, b in pairs if insertions[a].offset < insertions[b].offset}
    ranks: dict[int, tuple[int, int, int]] = {}
    for opening, closing in nonempty.items():
        ranks[closing] = 0, -insertions[opening].offset, -opening
        ranks[opening] = 1, -insertions[closing].offset, opening
    ordered: list[Insertion] = []
    for offset in sorted({insertion.offset for insertion in insertions.values()}):
        here = sorted(number for number, insertion in insertions.items() if insertion.offset == offset)
        tags = iter(sorted((number for number in here if number in ranks), key=ranks.__getitem__))
        ordered += [insertions[next(tags) if number in ranks else number] for number in here]
    return ordered


def _insert(text: str, insertion: Insertion, follows_span: bool, precedes_span: bool) -> str:
    """Insert a span, with a space where one stood and where it would otherwise touch a word."""
    left, right = text[: insertion.offset], text[insertion.offset :]
    anchor = insertion.anchor
    after_word = left[-1:].isalnum() and not follows_span
    no_space_before = (
        not left
        or left[-1].isspace()
        or left[-1] in OPENERS
        or (anchor.may_touch_word(0) if after_word else anchor.touched[0])
    )
    if precedes_span:
        space_after = right[:1] not in STOPS and not right[:1].isspace() and not anchor.touched[1]
    else:
        space_after = right[:1].isalnum() and not anchor.may_touch_word(1)
    return left + ("" if no_space_before else " ") + anchor.text + (" " if space_after else "") + right


class AlignedOutput:
    """An output, and which of its words translate which source words."""

    def __init__(self, source: str, output: str, links: Links) -> None:
        self.source_starts = [word.start() for word in WORD.finditer(source)]
        self.source_length = max(len(source), 1)
        self.output = output
        self.words = [_core_span(word) for word in WORD.finditer(output)]  # (start, end)
        self.targets: dict[int, list[int]] = {}  # source word -> output words
        for i, j in links:
            if j < len(self.words):
                self.targets.setdefault(i, []).append(j)

    def place(self, anchor: Anchor) -> Insertion:
        """Place a single span."""
        next_word = sum(start < anchor.offset for start in self.source_starts)
        if not next_word:
            return Insertion(0, anchor, True)
        if next_word == len(self.source_starts):
            before_final_stop = anchor.before_stop or not anchor.touched[0]
            end = len(self.output.rstrip(STOPS) if before_final_stop else self.output)
            return Insertion(self._skip_punctuation(end, anchor), anchor, True)
        after = [self.words[max(self.targets[word])][1] for word in (next_word - 1,) if word in self.targets]
        before = [self.words[min(self.targets[word])][0] for word in (next_word,) if word in self.targets]
        left, right = anchor.neighbours
        belongs_to_next = bool(right.strip()) and right not in STOPS and not left.strip()
        for offsets in (before, after) if belongs_to_next else (after, before):
            if offsets:
                return Insertion(self._skip_punctuation(offsets[0], anchor), anchor, False)
        return Insertion(self._place_by_share(anchor.offset), anchor, False)

    def _skip_punctuation(self, offset: int, anchor: Anchor) -> int:
        """To the other side of a punctuation mark that touched the span, if the output has that mark there."""
        left, right = anchor.neighbours
        if left.strip() and not left.isalnum() and self.output[offset : offset + 1] == left:
            return offset + 1
        if anchor.touched[1] and right.strip() and not right.isalnum() and offset and self.output[offset - 1] == right:
            return offset - 1
        return offset

    def place_pair(self, opening: Insertion, closing: Insertion) -> tuple[Insertion, Insertion]:
        """Place two tags around the translation of the words between them. If none of these has a link, around a word
        that is as far into the output."""
        if not self.words or (opening.is_certain and closing.is_certain):
            return opening, closing
        first = sum(start < opening.anchor.offset for start in self.source_starts)
        last = sum(start < closing.anchor.offset for start in self.source_starts)
        inside = [j for word in range(first, last) for j in self.targets.get(word, ())]
        if not inside:
            inside = [min(first * len(self.words) // max(len(self.source_starts), 1), len(self.words) - 1)]
        start = 0 if opening.is_certain else self.words[min(inside)][0]
        end = closing.offset if closing.is_certain else self.words[max(inside)][1]
        return opening._replace(offset=start), closing._replace(offset=max(start, end))

    def _place_by_share(self, offset: int) -> int:
        """Without a link: between two words, as far into the output as it was into the source."""
        target = offset / self.source_length * len(self.output)
        return min((end for _, end in self.words), key=lambda end: abs(end - target), default=0)


def _core_span(word: re.Match[str]) -> tuple[int, int]:
    """(start, end) of a word without the punctuation around it."""
    core = WORD_CORE.search(word[0])
    first, last = core.span() if core else (0, len(word[0]))
    return word.start() + first, word.start() + last
