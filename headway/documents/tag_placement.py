"""Place inline tags around the right words of a translation, by word alignment.

A pair of tags goes around the span of the translation that is aligned with what it surrounded; a standalone tag goes to
the word that it touched. Every tag is written exactly once, and nested pairs stay nested."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headway.documents.inline_tags import (
    InlineTag,
    PlacedTag,
    Span,
    VerbatimMatches,
    WordSpans,
    iter_verbatim,
    move_outside,
    overlaps,
)

PUNCTUATION = ".,;:!?…\"'“”„‚‘’«»‹›()[]{}¿¡。、，！？；：（）「」"  # not part of the word that it touches
UNRELATED_WORD_COST = 0.4  # of a word in a span that is aligned elsewhere; low enough to bridge one between two aligned


def place_tags(plain: str, tags: Sequence[InlineTag], target: str, links: Sequence[Sequence[int]] | None) -> list[Any]:
    """The translation as text and pieces, in order."""
    if not tags:
        return [target]
    placer = TagPlacer(plain, tags, target, links)
    placed = placer.place_siblings(tags, 0, len(target))
    items = placer.write(placed, 0, len(target))
    if placeholders := [re.escape(plain[tag.start : tag.end]) for tag in iter_verbatim(tags)]:
        leftover = re.compile(rf"\s?(?:{'|'.join(placeholders)})")  # said twice, or where its pair does not reach
        items = (leftover.sub("", item) if isinstance(item, str) else item for item in items)
    return [item for item in items if item != ""]


def diagonal_links(source_count: int, target_count: int) -> list[tuple[int, int]]:
    """A word alignment by relative position, for want of a better one."""
    if not source_count or not target_count:
        return []
    forward = [(i, i * target_count // source_count) for i in range(source_count)]
    return forward + [(j * source_count // target_count, j) for j in range(target_count)]


def best_span(gains: Sequence[float | None]) -> Span | None:
    """The first and last word of the span with the largest total gain, without gainless words at its ends.

    None cannot be part of a span. Of equals the first, and the shorter."""
    best = 0.0
    best_ends = None
    total = 0.0
    start = 0
    for index, gain in enumerate(gains):
        if gain is None or total <= 0:
            total = 0.0
            start = index + (gain is None)
        if gain is not None:
            total += gain
            if total > best + 1e-9:
                best = total
                best_ends = (start, index)
    return best_ends


class TagPlacer:
    """A segment, its translation, and their word alignment. Source words are called i, target words j."""

    def __init__(
        self, plain: str, tags: Sequence[InlineTag], target: str, links: Sequence[Sequence[int]] | None
    ) -> None:
        self.plain = plain
        self.target = target
        self.source_words = WordSpans(plain)
        self.target_words = WordSpans(target)
        self.sources_of: list[set[int]] = [set() for _ in range(len(self.target_words))]  # aligned with each j
        for i, j in links or diagonal_links(len(self.source_words), len(self.target_words)):
            if i < len(self.source_words) and j < len(self.target_words):
                self.sources_of[j].add(i)
        self.targets_of: list[list[int]] = [[] for _ in range(len(self.source_words))]  # aligned with each i
        for j, sources in enumerate(self.sources_of):
            for i in sources:
                self.targets_of[i].append(j)
        self.copied: dict[int, Span] = {}  # where verbatim tags are found in the translation, by their start
        self.matches = VerbatimMatches(target)
        for tag in iter_verbatim(tags):
            self.find_copy(tag)

    def find_copy(self, tag: InlineTag) -> None:
        """Look for verbatim text in the translation: there it belongs, whatever the alignment says."""
        expected = tag.start / max(len(self.plain), 1) * len(self.target)
        span = self.matches.take(self.plain[tag.start : tag.end].strip(), expected)
        if span is None:
            return
        self.copied[tag.start] = span
        own = set(self.words_in(tag))
        for j in {j for i in own for j in self.targets_of[i]}:
            self.sources_of[j] -= own
        for i in own:
            self.targets_of[i] = list(self.target_words.overlapping(*span))
        for j in self.target_words.overlapping(*span):
            self.sources_of[j] |= own

    def words_in(self, tag: InlineTag) -> range:
        """The source words of a tag."""
        return self.source_words.overlapping(tag.start, tag.end)

    def place_siblings(self, tags: Sequence[InlineTag], low: int, high: int) -> list[PlacedTag]:
        """Place tags that stand side by side, within a span of the translation, without overlap."""
        taken: list[PlacedTag] = []
        free = set(self.target_words.overlapping(low, high))  # words that no other tag has taken
        for tag in sorted(tags, key=lambda tag: tag.start not in self.copied):
            if tag.kind != "standalone":
                placed = self.place(tag, low, high, taken, free)
                free.difference_update(self.target_words.overlapping(placed.start, placed.end))
        position = low
        standalone = []
        placed_at = {placed.tag.start: placed for placed in taken}
        for index, tag in enumerate(tags):
            if tag.kind == "standalone":
                beside = self.position_beside(tag, tags[index - 1 : index], tags[index + 1 : index + 2], placed_at)
                wanted = self.standalone_position(tag) if beside is None else beside
                if tag.opening.nested is None:
                    wanted = max(wanted, position)  # in order, as footnotes must be
                own = move_outside(min(max(wanted, low), high), taken)
                standalone.append(PlacedTag(tag, own, own))
                position = position if tag.opening.nested is not None else own
        return sorted(standalone + taken, key=lambda placed: (placed.start, placed.end))

    def place(self, tag: InlineTag, low: int, high: int, taken: list[PlacedTag], free: set[int]) -> PlacedTag:
        """Place a pair or a verbatim tag, and add it to what is taken. One that has no word of its own is empty."""
        used = [(other.start, other.end) for other in taken]
        span = self.copied.get(tag.start) if tag.kind == "verbatim" else self.copied_span(tag)
        if span is None or span[0] < low or span[1] > high or overlaps(span, used):
            span = (low, low) if tag.kind == "verbatim" else self.aligned_span(tag, low, high, free)
        placed = PlacedTag(tag, *span)
        if placed.start == placed.end or overlaps(span, used):
            position = max(min(self.standalone_position(tag), high), low)
            for other in taken:  # beside a sibling whose word it shares, in the order of the source
                if other.start <= position <= other.end:
                    position = other.end if other.tag.start < tag.start else other.start
            placed.start = placed.end = move_outside(position, taken)
        if tag.kind == "pair":
            placed.children = self.place_siblings(tag.children, placed.start, placed.end)
        taken.append(placed)
        return placed

    def position_beside(
        self,
        tag: InlineTag,
        before: Sequence[InlineTag],
        after: Sequence[InlineTag],
        placed_at: Mapping[int, PlacedTag],
    ) -> int | None:
        """Where a standalone tag goes that stood next to a pair, as a deletion stands next to what replaces it: to the
        same side of that pair. None if it stood next to words."""
        is_deletion = tag.opening.nested is not None
        if before and before[0].kind == "pair":
            gap = self.plain[before[0].end : tag.start]
            if not gap or (is_deletion and not gap.strip() and not (after and after[0].start == tag.start)):
                return placed_at[before[0].start].end
        touches_word = tag.start > 0 and not self.plain[tag.start - 1].isspace()
        if after and after[0].kind == "pair" and after[0].start == tag.start and not touches_word:
            return placed_at[after[0].start].start
        return None

    def aligned_span(self, tag: InlineTag, low: int, high: int, free: set[int]) -> Span:
        """The characters that are aligned with a pair's words; an empty span if there are none."""
        own = self.words_in(tag)
        linked = sorted({j for i in own for j in self.targets_of[i]})
        first = linked[0] if linked else 0
        words = best_span(
            [self.gain(own, j) if j in free else None for j in range(first, linked[-1] + 1 if linked else 0)]
        )
        if words is None:
            candidates = [j for j in linked if j in free]
            if not linked and free:
                expected = self.expected_word(own)
                candidates = [min(free, key=lambda j: (abs(j - expected), j))]
            if not candidates:
                return low, low
            first = max(candidates, key=lambda j: self.share(own, j))
            words = (0, 0)
        start, end = self.characters_of(tag, (first + words[0], first + words[1]))
        start, end = max(start, low), min(end, high)
        return start, max(start, end)

    def share(self, own: range, j: int) -> float:
        """The share of a target word's links that go to these source words."""
        return sum(i in own for i in self.sources_of[j]) / max(len(self.sources_of[j]), 1)

    def gain(self, own: range, j: int) -> float:
        return self.share(own, j) ** 2 - UNRELATED_WORD_COST if self.sources_of[j] else 0.0

    def expected_word(self, own: range) -> float:
        """The target word at the relative position of some source words."""
        middle = sum(own) / len(own) if own else 0.0
        return middle * len(self.target_words) / max(len(self.source_words), 1)

    def characters_of(self, tag: InlineTag, words: Span) -> Span:
        """From words to characters: punctuation that touches a word belongs to the pair if it did in the source."""
        start, end = self.target_words[words[0]][0], self.target_words[words[1]][1]
        inside = self.plain[tag.start : tag.end].strip()
        text = self.target[start:end]
        if inside[0] not in PUNCTUATION and text.lstrip(PUNCTUATION):
            start = end - len(text.lstrip(PUNCTUATION))
        if inside[-1] not in PUNCTUATION and text.rstrip(PUNCTUATION):
            end = self.target_words[words[0]][0] + len(text.rstrip(PUNCTUATION))
        return start, end

    def copied_span(self, tag: InlineTag) -> Span | None:
        """The span of a tag that starts and ends in words which the translation has copied."""
        own = self.words_in(tag)
        inside = self.plain[tag.start : tag.end]
        start = tag.start + len(inside) - len(inside.lstrip())
        end = start + len(inside.strip())
        for first in self.targets_of[own[0]]:
            for last in self.targets_of[own[-1]]:
                if first <= last and all(self.share(own, j) == 1 for j in range(first + 1, last)):
                    left = self.copied_position(start, own[0], first)
                    right = self.copied_position(end, own[-1], last)
                    if left is not None and right is not None:
                        return left, right
        return None

    def copied_position(self, position: int, i: int, j: int) -> int | None:
        """A position inside a word, as in H2O, in a target word that differs at most in case and punctuation."""
        (first, last), (start, end) = self.source_words[i], self.target_words[j]
        source = self.plain[first:last]
        target = self.target[start:end]
        for old, new in ((source, target), (source.strip(PUNCTUATION), target.strip(PUNCTUATION))):
            old_start = first + source.index(old)
            same = old and len(old) == len(new) and old.casefold() == new.casefold()
            if same and old_start <= position <= old_start + len(old):
                return start + target.index(new) + position - old_start
        return None

    def standalone_position(self, tag: InlineTag) -> int:
        """Where a standalone tag goes: after the word that it touches, else before the next one."""
        following = self.source_words.count_before(tag.start)
        touches = following > 0 and tag.start <= self.source_words[following - 1][1]
        if not touches and following < len(self.source_words) and self.targets_of[following]:
            return self.target_words[self.targets_of[following][0]][0]
        for i in range(following - 1, -1, -1):
            if self.targets_of[i]:
                start, end = self.target_words[self.targets_of[i][-1]]
                if (copy := self.copied_position(tag.start, i, self.targets_of[i][-1])) is not None:
                    return copy
                word = self.target[start:end].rstrip(PUNCTUATION)
                before = self.plain[tag.start - 1]
                return start + len(word) if word and before not in PUNCTUATION and not before.isspace() else end
        return 0

    def write(self, placed_tags: Sequence[PlacedTag], low: int, high: int) -> Iterator[Any]:
        """The translation from low to high, with the tags in it."""
        position = low
        for placed in placed_tags:
            tag = placed.tag
            yield self.target[position : placed.start]
            if tag.kind == "pair":
                yield tag.opening
                yield from self.write(placed.children, placed.start, placed.end)
                yield tag.closing
            else:
                replaces_nothing = tag.kind == "verbatim" and placed.start == placed.end  # so it needs spaces around it
                needs_spaces = tag.spaced or replaces_nothing
                if needs_spaces and placed.start and not self.target[placed.start - 1].isspace():
                    yield " "
                yield from tag.pieces()
                if needs_spaces and not self.target[placed.end : placed.end + 1].isspace() and placed.end < high:
                    yield " "
            position = max(position, placed.end)
        yield self.target[position:high]
