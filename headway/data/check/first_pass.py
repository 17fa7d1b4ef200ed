"""The first reading of a corpus: how many lines it has, whether its files fit together, and a sample to learn from."""

import random
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headway.data.check.length_model import Slip, find_slip
from headway.data.check.pair_classifier import BLOCK
from headway.data.check.raw_lines import Group, raw_lines
from headway.data.parallel_files import ParallelFiles
from headway.errors import HeadwayError

MOST_BLOCKS = 1600  # about 100,000 lines, 30 MB of usual text
LONGEST = 4000  # bytes of a line that teaches anything


class Survey(NamedTuple):
    lines: list[int]  # of each corpus
    sample: list[Group]  # blocks of lines from everywhere, in their order


class UnequalError(HeadwayError):
    """Two files of a pair have not equally many lines."""

    def __init__(self, files: ParallelFiles, counts: tuple[int, int], slip: Slip | None) -> None:
        self.files, self.counts, self.slip = files, counts, slip
        super().__init__(
            f"{files.source} has {counts[0]:,} lines and {files.target} has {counts[1]:,}: line n of the one must be "
            f"the translation of line n of the other. {where(slip, min(counts))}"
        )


def where(slip: Slip | None, both: int) -> str:
    if slip is None:
        return f"Their lengths give no sign of a gap: look behind line {both:,}, where the shorter file ends."
    from_there = f"Their lengths stop corresponding at about line {slip.line + 1:,}"
    if not slip.offset:
        return f"{from_there}, and no shift of a few lines makes them fit again."
    lines = f"{abs(slip.offset)} line{'s' * (abs(slip.offset) > 1)}"
    return f"{from_there}: from there on the target is {lines} {'late' if slip.offset > 0 else 'early'}."


def survey(corpora: Sequence[ParallelFiles]) -> Survey:
    """Every block of lines has the same chance to be in the sample, and the same corpus gives the same sample."""
    chance = random.Random(0)
    lines: list[int] = []
    sample: list[Group] = []
    blocks = 0
    for number, files in enumerate(corpora):
        lengths = [array("I") for _ in files.paths]
        counts = [0] * len(files.paths)
        block: list[tuple[bytes, ...]] = []
        for line in raw_lines(files):
            for side, text in enumerate(line):
                if text is not None:
                    counts[side] += 1
                    lengths[side].append(len(text))
            if None not in line:
                block.append(tuple(text if text and len(text) <= LONGEST else b"" for text in line))
            if len(block) == BLOCK:
                blocks += 1
                _keep(sample, Group(number, counts[0] - BLOCK, block), blocks, chance)
                block = []
        if len(set(counts)) > 1:
            slip = find_slip(*(np.array(side, np.uint32) for side in lengths))
            raise UnequalError(files, (counts[0], counts[1]), slip)
        if block:
            blocks += 1
            _keep(sample, Group(number, counts[0] - len(block), block), blocks, chance)
        lines.append(counts[0])
    return Survey(lines, sorted(sample, key=lambda group: (group.corpus, group.first)))


def _keep(sample: list[Group], block: Group, seen: int, chance: random.Random) -> None:
    if len(sample) < MOST_BLOCKS:
        sample.append(block)
    elif (place := chance.randrange(seen)) < MOST_BLOCKS:
        sample[place] = block
