"""A statistical word aligner, trained by expectation maximisation: IBM model 1, then an HMM.

Both directions are trained together: p(target word | source word) and the reverse, first without regard to order (IBM
model 1), then with it (HMM). Each direction uses the average of both expected counts, so that they agree.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from headway.text.align.hmm import compute_posteriors, uniform_jumps
from headway.text.align.words import split_units

# A cell is a source unit and a target unit of one pair.
MAX_PAIRS = 100_000  # to train on
MAX_CELLS = 20_000_000  # to train on: bounds time and memory
MAX_TRAINING_UNITS = 100  # per side; longer pairs say little
MAX_ALIGNED_UNITS = 1000  # per side; longer pairs get no links
CELLS_PER_GROUP = 200_000  # computed together
CELLS_PER_COUNT = 4_000_000  # counted together: each count touches the complete table
UNSEEN_PROBABILITY = 0.001
IBM1_ROUNDS = 3
HMM_ROUNDS = 3
DIRICHLET_PRIOR = 0.01  # a prior count: so far below 1, it removes chance links of rare units

Pair = tuple[str, str]
UnitIds = dict[str, int]  # 0 is NULL


class PairGroup(NamedTuple):
    """Pairs with the same number of units on each side."""

    rows: np.ndarray  # (N,)
    source: np.ndarray  # (N, 1 + S) unit ids, NULL first
    target: np.ndarray  # (N, 1 + T)

    def codes(self, width: int) -> np.ndarray:
        """(N, 1 + T, 1 + S) source id · width + target id of each cell."""
        codes: np.ndarray = self.target[:, :, None] + width * self.source[:, None, :]
        return codes


@dataclass(frozen=True)
class Aligner:
    """A trained aligner. `align` gives (source word, target word) links; words are counted between spaces."""

    source: UnitIds
    target: UnitIds
    codes: np.ndarray  # sorted: PairGroup.codes of the units that occur together
    forward: np.ndarray  # p(target unit | source unit)
    backward: np.ndarray  # p(source unit | target unit)
    jumps: tuple[np.ndarray, np.ndarray]

    def align(self, pairs: Sequence[Pair]) -> list[np.ndarray]:
        """(n, 2) uint16 links of each pair, in order; none if a side is empty or longer than MAX_ALIGNED_UNITS."""
        links = [np.zeros((0, 2), dtype=np.uint16)] * len(pairs)
        split = [[split_units(text) for text in pair] for pair in pairs]
        rows = [_unit_ids([units for units, _ in pair], (self.source, self.target), add=False) for pair in split]
        for group in group_by_length(rows, MAX_ALIGNED_UNITS):
            symmetric = grow_diag_final_and(*self._best(group))  # (N, T, S)
            member, target, source = np.nonzero(symmetric)
            source_words = np.array([split[row][0][1] for row in group.rows])
            target_words = np.array([split[row][1][1] for row in group.rows])
            word_links = np.stack([member, source_words[member, source], target_words[member, target]], axis=1)
            word_links = np.unique(word_links, axis=0)
            ends = np.searchsorted(word_links[:, 0], np.arange(1, len(group.rows)))
            for row, row_links in zip(group.rows, np.split(word_links[:, 1:].astype(np.uint16), ends)):
                links[row] = row_links
        return links

    def _best(self, group: PairGroup) -> tuple[np.ndarray, np.ndarray]:
        """(N, T, S) twice: the most likely source unit of each target unit, and the reverse."""
        codes = group.codes(len(self.target))
        index = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        known = self.codes[index] == codes
        # Two units that were never seen are likelier to translate each other than one that was seen with others.
        unseen = np.where((group.target[:, :, None] < 0) & (group.source[:, None, :] < 0), UNSEEN_PROBABILITY, 0.0)
        by_source, by_target = (np.where(known, table[index], unseen) for table in (self.forward, self.backward))
        forward, _ = compute_posteriors(by_source[:, 1:], self.jumps[0])
        backward, _ = compute_posteriors(by_target[:, :, 1:].transpose(0, 2, 1), self.jumps[1])  # (N, S, 1 + T)
        return select_most_likely(forward), select_most_likely(backward).transpose(0, 2, 1)


def train_aligner(pairs: Iterable[Pair], *, max_pairs: int = MAX_PAIRS) -> Aligner:
    """Train on the first `max_pairs` pairs, or fewer if they are long. The same pairs give the same aligner."""
    unit_ids: tuple[UnitIds, UnitIds] = ({"": 0}, {"": 0})
    rows = []
    cell_count = 0
    for pair in islice(pairs, max_pairs):
        row = _unit_ids([split_units(text)[0] for text in pair], unit_ids, add=True)
        rows.append(row)
        cell_count += len(row[0]) * len(row[1]) if max(map(len, row)) <= MAX_TRAINING_UNITS else 0
        if cell_count > MAX_CELLS:
            break
    groups = list(group_by_length(rows, MAX_TRAINING_UNITS))
    width = len(unit_ids[1])
    codes = np.unique(np.concatenate([np.zeros(1, np.int64), *(np.unique(g.codes(width)) for g in groups)]))
    cells = [np.searchsorted(codes, group.codes(width)).astype(np.int32) for group in groups]
    return _train_em(unit_ids, codes, cells)


def _train_em(unit_ids: tuple[UnitIds, UnitIds], codes: np.ndarray, cells: list[np.ndarray]) -> Aligner:
    """Expectation maximisation. `cells`: the index into `codes` of each cell of each group."""
    source, target = np.divmod(codes, len(unit_ids[1]))
    transposed = [group.transpose(0, 2, 1) for group in cells]
    forward, backward = np.ones((2, len(codes)))
    jumps = (uniform_jumps(), uniform_jumps())
    for round_number in range(IBM1_ROUNDS + HMM_ROUNDS):
        is_hmm = round_number >= IBM1_ROUNDS
        by_source, forward_jumps = _expected_counts(cells, forward, jumps[0] if is_hmm else None)
        by_target, backward_jumps = _expected_counts(transposed, backward, jumps[1] if is_hmm else None)
        mean = np.where((source > 0) & (target > 0), (by_source + by_target) / 2, 0.0)
        normalise = _normalise_variational if is_hmm else _normalise
        forward = normalise(np.where(source > 0, mean, by_source), source)
        backward = normalise(np.where(target > 0, mean, by_target), target)
        if is_hmm:
            jumps = (
                forward_jumps / max(forward_jumps.sum(), 1e-9) + 1e-4,
                backward_jumps / max(backward_jumps.sum(), 1e-9) + 1e-4,
            )
    return Aligner(*unit_ids, codes, forward, backward, jumps)


def _expected_counts(
    cells: list[np.ndarray], probabilities: np.ndarray, jumps: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The expectation step: how often each two units are linked, and each jump occurs. Without jumps (IBM model 1)
    order does not matter. Each word of the first axis, NULL excepted, comes from one of the second."""
    counts = np.zeros(len(probabilities))
    jump_counts = uniform_jumps() * 0
    for groups in _batch_groups([group[:, 1:] for group in cells]):
        weights = []
        for group in groups:
            emissions = probabilities[group]
            if jumps is None:
                posteriors = emissions / emissions.sum(2, keepdims=True)
            else:
                posteriors, group_jumps = compute_posteriors(emissions, jumps)
                jump_counts += group_jumps
            weights.append(posteriors.ravel())
        indices = np.concatenate([group.ravel() for group in groups])
        counts += np.bincount(indices, np.concatenate(weights), minlength=len(counts))
    return counts, jump_counts


def _batch_groups(groups: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Batches of up to CELLS_PER_COUNT cells, or of one group."""
    batch: list[np.ndarray] = []
    for group in groups:
        if batch and sum(each.size for each in batch) + group.size > CELLS_PER_COUNT:
            yield batch
            batch = []
        batch.append(group)
    if batch:
        yield batch


def _unit_ids(sides: Sequence[Sequence[str]], unit_ids: tuple[UnitIds, UnitIds], add: bool) -> tuple[list[int], ...]:
    """The ids of the units on each side. Unknown units get the next id if `add`, else -1."""
    if add:
        return tuple([known.setdefault(unit, len(known)) for unit in side] for side, known in zip(sides, unit_ids))
    return tuple([known.get(unit, -1) for unit in side] for side, known in zip(sides, unit_ids))


def group_by_length(rows: Sequence[tuple[list[int], ...]], max_units: int) -> Iterator[PairGroup]:
    """Group pairs of equal lengths on both sides; without those that are empty or longer than `max_units`."""
    by_size: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, (source, target) in enumerate(rows):
        if source and target and max(len(source), len(target)) <= max_units:
            by_size[len(source), len(target)].append(index)
    for (source_units, target_units), members in by_size.items():
        size = max(CELLS_PER_GROUP // (source_units * target_units), 1)
        for start in range(0, len(members), size):
            group = members[start : start + size]
            sides = [np.array([[0, *rows[index][side]] for index in group], dtype=np.int64) for side in (0, 1)]
            yield PairGroup(np.array(group), *sides)


def _normalise(counts: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The maximisation step: each count divided by the sum of its owner's counts."""
    shares: np.ndarray = counts / np.maximum(np.bincount(owner, counts), 1e-12)[owner]
    return shares


def _normalise_variational(counts: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The same by variational Bayes with a Dirichlet prior α: exp(ψ(c + α)) / exp(ψ(Σc + n · α)). A count below 1 loses
    almost everything."""
    seen = counts > 0
    totals = np.bincount(owner, counts)
    kinds = np.maximum(np.bincount(owner, seen), 1)
    shares = np.exp(digamma(counts + DIRICHLET_PRIOR) - digamma(totals + DIRICHLET_PRIOR * kinds)[owner])
    result: np.ndarray = np.where(seen, shares, 0.0)
    return result


def digamma(x: np.ndarray) -> np.ndarray:
    """ψ(x) for x > 0: ψ(x) = ψ(x + 6) - Σ 1/(x + k), and the asymptotic series there."""
    low = sum((1 / (x + k) for k in range(6)), np.zeros_like(x))
    x = x + 6
    inverse = 1 / (x * x)
    high = np.log(x) - 0.5 / x - inverse * (1 / 12 - inverse * (1 / 120 - inverse / 252))
    result: np.ndarray = high - low
    return result


def select_most_likely(posteriors: np.ndarray) -> np.ndarray:
    """(N, T, 1 + S) posteriors -> (N, T, S), true for the best source unit of a target unit unless NULL is likelier."""
    best = posteriors.argmax(2)[:, :, None]
    selected: np.ndarray = (best == np.arange(1, posteriors.shape[2])) & (best > 0)
    return selected


def grow_diag_final_and(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """Symmetrise (N, T, S) links: those of both directions; then, repeatedly, neighbouring links of one direction for a
    word that has none; finally links of one direction between two words that both have none."""
    joined = forward & backward
    either = forward | backward
    while True:
        neighbours = np.zeros_like(joined)
        padded = np.pad(joined, ((0, 0), (1, 1), (1, 1)))
        for down in range(3):
            for right in range(3):
                neighbours |= padded[:, down : down + joined.shape[1], right : right + joined.shape[2]]
        new = either & neighbours & ~(joined.any(2, keepdims=True) & joined.any(1, keepdims=True))
        if not new.any():
            break
        joined |= new
    for one in (forward, backward):
        joined |= one & ~(joined.any(2, keepdims=True) | joined.any(1, keepdims=True))
    result: np.ndarray = joined
    return result
