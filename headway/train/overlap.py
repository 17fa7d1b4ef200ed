"""Validation text that is in the training text, too: scores on it say nothing about other text."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from headway.data.corpora import ParallelCorpus, SwappedPairs, TextCorpus
from headway.data.parallel_files import Pair
from headway.files.cache import fingerprint, load_or_build

MAX_COMPARED_PAIRS = 100_000  # of the validation text, held in memory
MIN_SIDE_WORDS = 6  # shorter sentences are on one side of two pairs by chance


class Overlap(NamedTuple):
    """Validation pairs by what of them is in the training text."""

    pairs: int  # compared
    both_sides: int
    one_side: int  # and not both, of sentences of MIN_SIDE_WORDS or more


def describe_pair_overlap(training: Sequence[ParallelCorpus], valid: Sequence[ParallelCorpus]) -> str:
    """A warning; "" if nothing of the validation text is trained on. The training text is read once, then cached."""
    training, valid = ([part for part in parts if not is_repeated(part, parts)] for parts in (training, valid))
    overlap = _load_or_count(
        [*(part.identity for part in training), "valid", *(part.identity for part in valid)],
        lambda: count_pair_overlap((p for part in training for p in part.read()), (p for v in valid for p in v.read())),
    )
    return describe_overlap(overlap, "pair")


def describe_text_overlap(training: TextCorpus, valid: TextCorpus) -> str:
    """The same for running text, by lines."""

    def count() -> Overlap:
        lines = (line.strip() for line in training.read())
        valid_lines = (line.strip() for line in valid.read())
        long_lines = ((line, line) for line in valid_lines if len(line.split()) >= MIN_SIDE_WORDS)
        return count_pair_overlap(((line, line) for line in lines), long_lines)

    return describe_overlap(_load_or_count([training.identity, "valid text", valid.identity], count), "line")


def is_repeated(corpus: ParallelCorpus, corpora: Iterable[ParallelCorpus]) -> bool:
    """Whether this is another corpus with its sides swapped."""
    return isinstance(corpus.origin, SwappedPairs) and any(other.origin == corpus.origin.base for other in corpora)


def count_pair_overlap(training: Iterable[Pair], valid: Iterable[Pair]) -> Overlap:
    numbers_by_side: dict[str, set[int]] = defaultdict(set)
    long_sides = set()
    count = 0
    for number, pair in enumerate(islice((pair for pair in valid if all(pair)), MAX_COMPARED_PAIRS)):
        count += 1
        for side in pair:
            numbers_by_side[side].add(number)
            if len(side.split()) >= MIN_SIDE_WORDS:
                long_sides.add(side)
    both: set[int] = set()
    one: set[int] = set()
    for source, target in training:
        if source not in numbers_by_side and target not in numbers_by_side:
            continue
        found = [numbers_by_side.get(side, set()) for side in (source, target)]
        both |= found[0] & found[1]
        one |= set().union(*(numbers for side, numbers in zip((source, target), found) if side in long_sides))
    return Overlap(count, len(both), len(one - both))


def describe_overlap(overlap: Overlap, unit: str) -> str:
    if not overlap.both_sides and not overlap.one_side:
        return ""
    parts = []
    for found, how in ((overlap.both_sides, ""), (overlap.one_side, " with one side")):
        if found:
            parts.append(f"{found:,} ({found / overlap.pairs:.1%}){how}")
    return (
        f"of {overlap.pairs:,} validation {unit}s, {' and '.join(parts)} are in the training text too: validation is "
        "too good by that. Leave them out of the one or the other; headway check --valid-pairs or --valid-source finds "
        "them"
    )


def _load_or_count(identity: list[str], count: Callable[[], Overlap]) -> Overlap:
    def build(folder: Path) -> None:
        (folder / "overlap.json").write_text(json.dumps(count()))

    def load(folder: Path) -> Overlap:
        return Overlap(*json.loads((folder / "overlap.json").read_text()))

    return load_or_build("overlap", fingerprint(identity), build, load)
