"""Tags carried to the right words of a translation, by which source word says which target word.

A pair of tags goes around the stretch of the translation that says what it stood around; what stands at one place
goes to the word that it touched. Every tag is written exactly once, and pairs that were inside others stay inside."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from headway.documents.marks import Mark, Range, Spot, kept, meets, outside
from headway.text.words import WORD

SIGNS = ".,;:!?…\"'“”„‚‘’«»‹›()[]{}¿¡。、，！？；：（）「」"  # not part of the word that they touch
FOREIGN = 0.4  # what a word that says something else costs a stretch; one between two that belong to it is taken in


def placed(plain: str, marks: Sequence[Mark], target: str, links: Sequence[Sequence[int]] | None) -> list[Any]:
    """The translation as text and pieces, in order."""
    if not marks:
        return [target]
    sentence = Sentence(plain, marks, target, links)
    return [item for item in sentence.written(sentence.spots(marks, 0, len(target)), 0, len(target)) if item != ""]


def diagonal(sources: int, targets: int) -> list[tuple[int, int]]:
    """Links for want of better ones: what stands in the middle says what stands in the middle."""
    if not sources or not targets:
        return []
    return [(i, i * targets // sources) for i in range(sources)] + [(j * sources // targets, j) for j in range(targets)]


def best_stretch(gains: Sequence[float | None]) -> Range | None:
    """The first and the last word of the stretch that gains most, without words at its ends that gain nothing.

    None cannot be part of one. Of equals the first, and the shorter."""
    best, found = 0.0, None
    total, start = 0.0, 0
    for place, gain in enumerate(gains):
        if gain is None or total <= 0:
            total, start = 0.0, place + (gain is None)
        if gain is not None:
            total += gain
            if total > best + 1e-9:
                best, found = total, (start, place)
    return found


class Sentence:
    """A segment, its translation, and what is linked with what."""

    def __init__(self, plain: str, marks: Sequence[Mark], target: str, links: Sequence[Sequence[int]] | None) -> None:
        self.plain, self.target = plain, target
        self.sources = [match.span() for match in WORD.finditer(plain)]
        self.targets = [match.span() for match in WORD.finditer(target)]
        self.says: list[set[int]] = [set() for _ in self.targets]  # the source words that each target word says
        for i, j in links or diagonal(len(self.sources), len(self.targets)):
            if i < len(self.sources) and j < len(self.targets):
                self.says[j].add(i)
        self.found: dict[int, Range] = {}  # kept pieces that are there letter by letter, by where they start
        for mark in kept(marks):
            self.find(mark)
        self.said_by: list[list[int]] = [[] for _ in self.sources]  # the same, the other way round
        for j, says in enumerate(self.says):
            for i in says:
                self.said_by[i].append(j)

    def find(self, mark: Mark) -> None:
        """A kept piece that the translation has copied: there it belongs, whatever the links say."""
        said = self.plain[mark.start : mark.end].strip()
        pattern = (
            (r"(?<!\w)" if said[0].isalnum() else "") + re.escape(said) + (r"(?!\w)" if said[-1].isalnum() else "")
        )
        used = list(self.found.values())
        free = [match.span() for match in re.finditer(pattern, self.target) if not meets(match.span(), used)]
        if not free:
            return
        aim = mark.start / max(len(self.plain), 1) * len(self.target)
        where = self.found[mark.start] = min(free, key=lambda span: abs(span[0] - aim))
        own = self.words_of(mark)
        for j, span in enumerate(self.targets):
            self.says[j] = self.says[j] | own if meets(span, [where]) else self.says[j] - own

    def words_of(self, mark: Mark) -> set[int]:
        return {i for i, span in enumerate(self.sources) if meets(span, [(mark.start, mark.end)])}

    def spots(self, marks: Sequence[Mark], low: int, high: int) -> list[Spot]:
        """Where marks go that stand side by side, within a part of the translation. They do not overlap."""
        taken: list[Spot] = []
        free = [meets(span, [(low, high)]) for span in self.targets]  # words that no other has taken
        for mark in sorted(marks, key=lambda mark: mark.start not in self.found):
            if mark.kind != "point":
                spot = self.spot(mark, low, high, taken, free)
                free = [ok and not meets(span, [(spot.start, spot.end)]) for ok, span in zip(free, self.targets)]
        position = low
        points = []
        for mark in marks:
            if mark.kind == "point":
                position = outside(min(max(self.position(mark), position), high), taken)  # in order, as notes must be
                points.append(Spot(mark, position, position))
        return sorted(points + taken, key=lambda spot: (spot.start, spot.end))

    def spot(self, mark: Mark, low: int, high: int, taken: list[Spot], free: list[bool]) -> Spot:
        """Where a pair or a kept piece goes; it is added to what is taken."""
        used = [(one.start, one.end) for one in taken]
        where = self.found.get(mark.start) if mark.kind == "kept" else None
        where = where or self.in_its_word(mark)
        if where is None or where[0] < low or where[1] > high or meets(where, used):
            where = self.stretch(mark, low, high, free)
        spot = Spot(mark, *where)
        if spot.start == spot.end or meets(where, used):
            own = self.words_of(mark)
            for place, other in enumerate(taken):  # one word says what two pairs stood around: it gets both
                if self.wraps(mark, own, other):
                    taken[place] = Spot(mark, other.start, other.end, [other])
                    return taken[place]
            spot.start = spot.end = outside(max(min(self.position(mark), high), low), taken)
        if mark.kind == "pair":
            spot.inner = self.spots(mark.inner, spot.start, spot.end)
        taken.append(spot)
        return spot

    def wraps(self, mark: Mark, own: set[int], other: Spot) -> bool:
        """Whether a pair that found no word of its own can stand around another. A link has no link inside."""
        if (
            mark.kind != "pair"
            or other.mark.kind != "pair"
            or mark.inner
            or mark.opening.name == other.mark.opening.name
        ):
            return False
        said = {j for i in own for j in self.said_by[i]}
        return any(meets(self.targets[j], [(other.start, other.end)]) for j in said)

    def stretch(self, mark: Mark, low: int, high: int, free: list[bool]) -> Range:
        """The characters that say what a mark stands around; none if there are none."""
        own = self.words_of(mark)
        shares = [len(own & says) / len(says) if says else None for says in self.says]
        if mark.kind == "kept":  # it takes the place of words: only of those that say it and nothing else
            whole = all(self.is_whole(mark, i) for i in own)
            free = [ok and share == 1 and whole for ok, share in zip(free, shares)]
        gains = [(0.0 if s is None else s * s - FOREIGN) if ok else None for s, ok in zip(shares, free)]
        words = best_stretch(gains)
        if words is None:
            some = [j for j, share in enumerate(shares) if share and free[j]]
            if not some and not any(self.said_by[i] for i in own):
                aim = self.guess(own)
                some = sorted((j for j, ok in enumerate(free) if ok), key=lambda j: abs(j - aim))[:1]
            if not some:
                return low, low
            j = max(some, key=lambda j: shares[j] or 0.0)
            words = (j, j)
        start, end = self.exact(mark, own, words)
        start, end = max(start, low), min(end, high)
        return start, max(start, end)

    def is_whole(self, mark: Mark, i: int) -> bool:
        """Whether a mark stands around all of a word but signs."""
        first, last = self.sources[i]
        return not (self.plain[first : max(mark.start, first)] + self.plain[mark.end : last]).strip(SIGNS)

    def guess(self, own: set[int]) -> float:
        middle = sum(own) / len(own) if own else 0.0
        return middle * len(self.targets) / max(len(self.sources), 1)

    def exact(self, mark: Mark, own: set[int], words: Range) -> Range:
        """From words to characters: a sign that touches a word belongs to the pair if it did so in the source."""
        start, end = self.targets[words[0]][0], self.targets[words[1]][1]
        inside = self.plain[mark.start : mark.end].strip()
        said = self.target[start:end]
        if inside[0] not in SIGNS and said.lstrip(SIGNS):
            start = end - len(said.lstrip(SIGNS))
        if inside[-1] not in SIGNS and said.rstrip(SIGNS):
            end = self.targets[words[0]][0] + len(said.rstrip(SIGNS))
        first, last = min(own), max(own)
        if mark.start > self.sources[first][0] and words[0] in self.said_by[first]:
            start = (self.copied(mark.start, mark.start, first, self.targets[words[0]]) or (start,))[0]
        if mark.end < self.sources[last][1] and words[1] in self.said_by[last]:
            end = (self.copied(mark.end, mark.end, last, self.targets[words[1]]) or (end,))[0]
        return start, end

    def in_its_word(self, mark: Mark) -> Range | None:
        """Where something goes that stands around a word, or a part of one, which the translation has as it was."""
        own = self.words_of(mark)
        inside = self.plain[mark.start : mark.end]
        start = mark.start + len(inside) - len(inside.lstrip())
        end = start + len(inside.strip())
        copies = (self.copied(start, end, i, self.targets[j]) for i in own for j in self.said_by[i])
        return next(filter(None, copies), None) if len(own) == 1 else None

    def copied(self, start: int, end: int, i: int, where: Range) -> Range | None:
        """A part of a word, such as the figure in H2O, in a word that is the same but for signs and capitals."""
        first, last = self.sources[i]
        word, said = self.plain[first:last], self.target[slice(*where)]
        for old, new in ((word, said), (word.strip(SIGNS), said.strip(SIGNS))):
            if old and len(old) == len(new) and old.casefold() == new.casefold():
                begin = first + word.index(old)
                shift = where[0] + said.index(new) - begin
                if begin <= start and end <= begin + len(old):
                    return start + shift, end + shift
        return None

    def position(self, mark: Mark) -> int:
        """Where a point goes: behind the word that it touches, else before the one that follows."""
        touched = [i for i, (first, last) in enumerate(self.sources) if first < mark.start <= last]
        following = bisect_left(self.sources, mark.start, key=lambda span: span[0])
        if not touched and following < len(self.sources) and self.said_by[following]:
            return self.targets[self.said_by[following][0]][0]
        for i in range(touched[0] if touched else following - 1, -1, -1):
            if self.said_by[i]:
                start, end = self.targets[self.said_by[i][-1]]
                if copy := self.copied(mark.start, mark.start, i, (start, end)):
                    return copy[0]
                word = self.target[start:end].rstrip(SIGNS)
                before = self.plain[mark.start - 1]
                return start + len(word) if word and before not in SIGNS and not before.isspace() else end
        return 0

    def written(self, spots: Sequence[Spot], low: int, high: int) -> Iterator[Any]:
        """What stands between two characters, with the marks in it."""
        at = low
        for spot in spots:
            yield self.target[at : spot.start]
            if spot.mark.kind == "pair":
                yield spot.mark.opening
                yield from self.written(spot.inner, spot.start, spot.end)
                yield spot.mark.closing
            else:
                alone = spot.mark.kind == "kept" and spot.start == spot.end  # no word to stand for: a word by itself
                if alone and not self.target[spot.start - 1 : spot.start].isspace() and spot.start:
                    yield " "
                yield from spot.mark.items()
                if spot.mark.spaced or (alone and self.target[spot.end : spot.end + 1].strip()):
                    yield " "
            at = max(at, spot.end)
        yield self.target[at:high]
