"""Tags carried to the right words of a translation, by which source word says which target word.

A pair of tags goes around the stretch of the translation that says what it stood around; what stands at one place
goes to the word that it touched. Every tag is written exactly once, and pairs that were inside others stay inside."""

from collections.abc import Iterator, Sequence
from typing import Any

from headway.documents.inline_tags import Copies, Mark, Range, Spot, Words, kept, meets, outside

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
        self.sources, self.targets = Words(plain), Words(target)
        self.says: list[set[int]] = [
            set() for _ in range(len(self.targets))
        ]  # the source words that each target word says
        for i, j in links or diagonal(len(self.sources), len(self.targets)):
            if i < len(self.sources) and j < len(self.targets):
                self.says[j].add(i)
        self.said_by: list[list[int]] = [[] for _ in range(len(self.sources))]  # the same, the other way round
        for j, says in enumerate(self.says):
            for i in says:
                self.said_by[i].append(j)
        self.found: dict[int, Range] = {}  # kept pieces that are there letter by letter, by where they start
        self.copies = Copies(target)
        for mark in kept(marks):
            self.find(mark)

    def find(self, mark: Mark) -> None:
        """A kept piece that the translation has copied: there it belongs, whatever the links say."""
        aim = mark.start / max(len(self.plain), 1) * len(self.target)
        where = self.copies.take(self.plain[mark.start : mark.end].strip(), aim)
        if where is None:
            return
        self.found[mark.start] = where
        own = set(self.words_of(mark))
        for j in {j for i in own for j in self.said_by[i]}:
            self.says[j] -= own
        for i in own:
            self.said_by[i] = list(self.targets.over(*where))
        for j in self.targets.over(*where):
            self.says[j] |= own

    def words_of(self, mark: Mark) -> range:
        return self.sources.over(mark.start, mark.end)

    def spots(self, marks: Sequence[Mark], low: int, high: int) -> list[Spot]:
        """Where marks go that stand side by side, within a part of the translation. They do not overlap."""
        taken: list[Spot] = []
        free = set(self.targets.over(low, high))  # words that no other has taken
        for mark in sorted(marks, key=lambda mark: mark.start not in self.found):
            if mark.kind != "point":
                spot = self.spot(mark, low, high, taken, free)
                free.difference_update(self.targets.over(spot.start, spot.end))
        position = low
        points = []
        for mark in marks:
            if mark.kind == "point":
                position = outside(min(max(self.position(mark), position), high), taken)  # in order, as notes must be
                points.append(Spot(mark, position, position))
        return sorted(points + taken, key=lambda spot: (spot.start, spot.end))

    def spot(self, mark: Mark, low: int, high: int, taken: list[Spot], free: set[int]) -> Spot:
        """Where a pair or a kept piece goes; it is added to what is taken."""
        used = [(one.start, one.end) for one in taken]
        where = self.found.get(mark.start) if mark.kind == "kept" else None
        where = where or self.as_it_was(mark)
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

    def wraps(self, mark: Mark, own: range, other: Spot) -> bool:
        """Whether a pair that found no word of its own can stand around another. A link has no link inside."""
        if (
            mark.kind != "pair"
            or other.mark.kind != "pair"
            or mark.inner
            or mark.opening.name == other.mark.opening.name
        ):
            return False
        shared = self.targets.over(other.start, other.end)
        return any(j in shared for i in own for j in self.said_by[i])

    def stretch(self, mark: Mark, low: int, high: int, free: set[int]) -> Range:
        """The characters that say what a mark stands around; none if there are none."""
        own = self.words_of(mark)
        linked = sorted({j for i in own for j in self.said_by[i]})
        if mark.kind == "kept":  # it takes the place of words: only of those that say it and nothing else
            whole = all(self.is_whole(mark, i) for i in own)
            free = {j for j in linked if j in free and whole and self.share(own, j) == 1}
        first = linked[0] if linked else 0
        words = best_stretch(
            [self.gain(own, j) if j in free else None for j in range(first, linked[-1] + 1 if linked else 0)]
        )
        if words is None:
            some = [j for j in linked if j in free]
            if not linked and free:
                aim = self.guess(own)
                some = [min(free, key=lambda j: (abs(j - aim), j))]
            if not some:
                return low, low
            first, words = max(some, key=lambda j: self.share(own, j)), (0, 0)
        words = first + words[0], first + words[1]
        start, end = self.exact(mark, words)
        start, end = max(start, low), min(end, high)
        return start, max(start, end)

    def share(self, own: range, j: int) -> float:
        """How much of what a target word says belongs to some source words."""
        return sum(i in own for i in self.says[j]) / max(len(self.says[j]), 1)

    def gain(self, own: range, j: int) -> float:
        return self.share(own, j) ** 2 - FOREIGN if self.says[j] else 0.0

    def is_whole(self, mark: Mark, i: int) -> bool:
        """Whether a mark stands around all of a word but signs."""
        first, last = self.sources[i]
        return not (self.plain[first : max(mark.start, first)] + self.plain[mark.end : last]).strip(SIGNS)

    def guess(self, own: range) -> float:
        middle = sum(own) / len(own) if own else 0.0
        return middle * len(self.targets) / max(len(self.sources), 1)

    def exact(self, mark: Mark, words: Range) -> Range:
        """From words to characters: a sign that touches a word belongs to the pair if it did so in the source."""
        start, end = self.targets[words[0]][0], self.targets[words[1]][1]
        inside = self.plain[mark.start : mark.end].strip()
        said = self.target[start:end]
        if inside[0] not in SIGNS and said.lstrip(SIGNS):
            start = end - len(said.lstrip(SIGNS))
        if inside[-1] not in SIGNS and said.rstrip(SIGNS):
            end = self.targets[words[0]][0] + len(said.rstrip(SIGNS))
        return start, end

    def as_it_was(self, mark: Mark) -> Range | None:
        """Where a mark goes that begins and ends in words which the translation has as they were, to the letter."""
        own = self.words_of(mark)
        inside = self.plain[mark.start : mark.end]
        start = mark.start + len(inside) - len(inside.lstrip())
        end = start + len(inside.strip())
        for first in self.said_by[own[0]]:
            for last in self.said_by[own[-1]]:
                if first <= last and all(self.share(own, j) == 1 for j in range(first + 1, last)):
                    left = self.copied(start, own[0], first)
                    right = self.copied(end, own[-1], last)
                    if left is not None and right is not None:
                        return left, right
        return None

    def copied(self, position: int, i: int, j: int) -> int | None:
        """A place in a word, as in H2O, in one that is the same but for signs and capitals."""
        (first, last), (start, end) = self.sources[i], self.targets[j]
        word, said = self.plain[first:last], self.target[start:end]
        for old, new in ((word, said), (word.strip(SIGNS), said.strip(SIGNS))):
            begin = first + word.index(old)
            same = old and len(old) == len(new) and old.casefold() == new.casefold()
            if same and begin <= position <= begin + len(old):
                return start + said.index(new) + position - begin
        return None

    def position(self, mark: Mark) -> int:
        """Where a point goes: behind the word that it touches, else before the one that follows."""
        following = self.sources.before(mark.start)
        touches = following > 0 and mark.start <= self.sources[following - 1][1]
        if not touches and following < len(self.sources) and self.said_by[following]:
            return self.targets[self.said_by[following][0]][0]
        for i in range(following - 1, -1, -1):
            if self.said_by[i]:
                start, end = self.targets[self.said_by[i][-1]]
                if (copy := self.copied(mark.start, i, self.said_by[i][-1])) is not None:
                    return copy
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
