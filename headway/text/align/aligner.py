"""A statistical word aligner: which word says which, learned from many pairs by counting alone. No torch here.

Both directions are learned at once: p(target word | source word) and the reverse, first without regard to order (IBM
model 1), then as a walk over the other side (an HMM). Each direction counts what both have found, so that they agree.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from headway.text.align.hmm import even_jumps, posterior
from headway.text.align.words import units

PAIRS_AT_MOST = 100_000  # to learn from
CELLS_AT_MOST = 20_000_000  # likewise, a source word times a target word each: bounds time and memory
LONGEST_LEARNED = 100  # units on a side; longer pairs say little
LONGEST = 1000  # longer pairs get no links
AT_ONCE = 200_000  # cells worked on together
SUMMED = 4_000_000  # cells counted together: each count touches the whole table
UNSEEN = 0.001
WITHOUT_ORDER, WITH_ORDER = 3, 3  # rounds
RARE = 0.01  # a prior count: so far below 1, it takes from rare units the links that they got by chance

Pair = tuple[str, str]
Numbers = dict[str, int]  # of each unit; 0 is nobody


class Group(NamedTuple):
    """Pairs with the same number of units on each side."""

    rows: np.ndarray  # (N,)
    source: np.ndarray  # (N, 1 + S) numbers of units, nobody first
    target: np.ndarray  # (N, 1 + T)

    def codes(self, width: int) -> np.ndarray:
        codes: np.ndarray = self.target[:, :, None] + width * self.source[:, None, :]  # (N, 1 + T, 1 + S)
        return codes


@dataclass(frozen=True)
class Aligner:
    """What was learned. `align` gives (source word, target word) links, words counted between spaces."""

    source: Numbers
    target: Numbers
    codes: np.ndarray  # source unit · target units + target unit, sorted: those that have met
    forward: np.ndarray  # p(target unit | source unit)
    backward: np.ndarray  # p(source unit | target unit)
    jumps: tuple[np.ndarray, np.ndarray]

    def align(self, pairs: Sequence[Pair]) -> list[np.ndarray]:
        """For each pair, (n, 2) links in order, as uint16. None where a side is empty or longer than 1,000 words."""
        links = [np.zeros((0, 2), dtype=np.uint16)] * len(pairs)
        read = [[units(text) for text in pair] for pair in pairs]
        rows = [_numbered([spelled for spelled, _ in pair], (self.source, self.target), add=False) for pair in read]
        for group in groups_of(rows, LONGEST):
            joined = grow_diagonal(*self._best(group))  # (N, T, S)
            which, target, source = np.nonzero(joined)
            to_source = np.array([read[row][0][1] for row in group.rows])
            to_target = np.array([read[row][1][1] for row in group.rows])
            found = np.stack([which, to_source[which, source], to_target[which, target]], axis=1)
            found = np.unique(found, axis=0)
            ends = np.searchsorted(found[:, 0], np.arange(1, len(group.rows)))
            for row, own in zip(group.rows, np.split(found[:, 1:].astype(np.uint16), ends)):
                links[row] = own
        return links

    def _best(self, group: Group) -> tuple[np.ndarray, np.ndarray]:
        """(N, T, S) The likeliest source unit of each target unit, and the likeliest target unit of each source unit."""
        codes = group.codes(len(self.target))
        place = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        known = self.codes[place] == codes
        # Two units that were never seen are likelier to mean each other than one that was seen with others.
        unseen = np.where((group.target[:, :, None] < 0) & (group.source[:, None, :] < 0), UNSEEN, 0.0)
        by_source, by_target = (np.where(known, table[place], unseen) for table in (self.forward, self.backward))
        forward, _ = posterior(by_source[:, 1:], self.jumps[0])
        backward, _ = posterior(by_target[:, :, 1:].transpose(0, 2, 1), self.jumps[1])  # (N, S, 1 + T)
        return likeliest(forward), likeliest(backward).transpose(0, 2, 1)


def learn_aligner(pairs: Iterable[Pair], *, at_most: int = PAIRS_AT_MOST) -> Aligner:
    """From the first `at_most` pairs, or fewer if they are long. The same pairs give the same aligner."""
    numbers: tuple[Numbers, Numbers] = ({"": 0}, {"": 0})
    rows, size = [], 0
    for pair in islice(pairs, at_most):
        row = _numbered([units(text)[0] for text in pair], numbers, add=True)
        rows.append(row)
        size += len(row[0]) * len(row[1]) if max(map(len, row)) <= LONGEST_LEARNED else 0
        if size > CELLS_AT_MOST:
            break
    groups = list(groups_of(rows, LONGEST_LEARNED))
    width = len(numbers[1])
    codes = np.unique(np.concatenate([np.zeros(1, np.int64), *(np.unique(g.codes(width)) for g in groups)]))
    cells = [np.searchsorted(codes, group.codes(width)).astype(np.int32) for group in groups]
    return _trained(numbers, codes, cells)


def _trained(numbers: tuple[Numbers, Numbers], codes: np.ndarray, cells: list[np.ndarray]) -> Aligner:
    """Rounds of expectation and maximisation. `cells`: where in `codes` each cell of each group stands."""
    source, target = np.divmod(codes, len(numbers[1]))
    turned = [group.transpose(0, 2, 1) for group in cells]
    forward, backward = np.ones((2, len(codes)))
    jumps = (even_jumps(), even_jumps())
    for number in range(WITHOUT_ORDER + WITH_ORDER):
        ordered = number >= WITHOUT_ORDER
        by_source, made = _expected(cells, forward, jumps[0] if ordered else None)
        by_target, back = _expected(turned, backward, jumps[1] if ordered else None)
        both = np.where((source > 0) & (target > 0), (by_source + by_target) / 2, 0.0)
        shares = _doubted if ordered else _shares
        forward = shares(np.where(source > 0, both, by_source), source)
        backward = shares(np.where(target > 0, both, by_target), target)
        if ordered:
            jumps = (made / max(made.sum(), 1e-9) + 1e-4, back / max(back.sum(), 1e-9) + 1e-4)
    return Aligner(*numbers, codes, forward, backward, jumps)


def _expected(cells: list[np.ndarray], chances: np.ndarray, jumps: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """How often each two units are linked, and each jump is made, by what is known so far. Without jumps, order does
    not matter. The words of the first axis, less nobody, each come from one of the second."""
    counts, made = np.zeros(len(chances)), even_jumps() * 0
    for groups in _portions([group[:, 1:] for group in cells]):
        weights = []
        for group in groups:
            said = chances[group]
            found, leaps = (said / said.sum(2, keepdims=True), 0) if jumps is None else posterior(said, jumps)
            made += leaps
            weights.append(found.ravel())
        places = np.concatenate([group.ravel() for group in groups])
        counts += np.bincount(places, np.concatenate(weights), minlength=len(counts))
    return counts, made


def _portions(groups: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """SUMMED cells each, or one group."""
    portion: list[np.ndarray] = []
    for group in groups:
        if portion and sum(each.size for each in portion) + group.size > SUMMED:
            yield portion
            portion = []
        portion.append(group)
    if portion:
        yield portion


def _numbered(sides: Sequence[Sequence[str]], numbers: tuple[Numbers, Numbers], add: bool) -> tuple[list[int], ...]:
    """The numbers of the units on each side. Unknown ones get the next, or, unless they are to be added, none: -1."""
    if add:
        return tuple([known.setdefault(unit, len(known)) for unit in side] for side, known in zip(sides, numbers))
    return tuple([known.get(unit, -1) for unit in side] for side, known in zip(sides, numbers))


def groups_of(rows: Sequence[tuple[list[int], ...]], longest: int) -> Iterator[Group]:
    by_size: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, (source, target) in enumerate(rows):
        if source and target and max(len(source), len(target)) <= longest:
            by_size[len(source), len(target)].append(index)
    for (wide, high), members in by_size.items():
        size = max(AT_ONCE // (wide * high), 1)
        for start in range(0, len(members), size):
            some = members[start : start + size]
            sides = [np.array([[0, *rows[index][side]] for index in some], dtype=np.int64) for side in (0, 1)]
            yield Group(np.array(some), *sides)


def _shares(counts: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Each count's share of its owner's."""
    shares: np.ndarray = counts / np.maximum(np.bincount(owner, counts), 1e-12)[owner]
    return shares


def _doubted(counts: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The same by variational Bayes, exp(ψ(c + RARE)) / exp(ψ(Σc + n · RARE)): a count below 1 loses almost all."""
    seen = counts > 0
    totals, kinds = np.bincount(owner, counts), np.bincount(owner, seen)
    shares = np.exp(digamma(counts + RARE) - digamma(totals + RARE * np.maximum(kinds, 1))[owner])
    kept: np.ndarray = np.where(seen, shares, 0.0)
    return kept


def digamma(x: np.ndarray) -> np.ndarray:
    """ψ(x) for x > 0: ψ(x) = ψ(x + 6) - Σ 1/(x + k), and the asymptotic series there."""
    low = sum((1 / (x + k) for k in range(6)), np.zeros_like(x))
    x = x + 6
    inverse = 1 / (x * x)
    high = np.log(x) - 0.5 / x - inverse * (1 / 12 - inverse * (1 / 120 - inverse / 252))
    result: np.ndarray = high - low
    return result


def likeliest(found: np.ndarray) -> np.ndarray:
    """(N, T, 1 + S) posteriors -> (N, T, S), true for the best source of each row unless nobody is likelier."""
    best = found.argmax(2)[:, :, None]
    chosen: np.ndarray = (best == np.arange(1, found.shape[2])) & (best > 0)
    return chosen


def grow_diagonal(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """grow-diag-final-and, on (N, T, S): what both say; then, again and again, neighbours that one says of a word
    that has no link; at last what one says of two words that both have none."""
    joined, either = forward & backward, forward | backward
    while True:
        beside = np.zeros_like(joined)
        padded = np.pad(joined, ((0, 0), (1, 1), (1, 1)))
        for down in range(3):
            for right in range(3):
                beside |= padded[:, down : down + joined.shape[1], right : right + joined.shape[2]]
        new = either & beside & ~(joined.any(2, keepdims=True) & joined.any(1, keepdims=True))
        if not new.any():
            break
        joined |= new
    for one in (forward, backward):
        joined |= one & ~(joined.any(2, keepdims=True) | joined.any(1, keepdims=True))
    result: np.ndarray = joined
    return result
