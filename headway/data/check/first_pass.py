"""The first pass over a corpus: count its lines, refuse files of different lengths, draw a sample to fit on."""

import random
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headway.data.check.length_model import LineShift, find_line_shift
from headway.data.check.pair_classifier import BLOCK_LINES
from headway.data.check.raw_lines import LineGroup, is_by_line, read_raw_lines
from headway.data.parallel_files import ParallelFiles
from headway.errors import HeadwayError

MAX_SAMPLED_BLOCKS = 1600  # about 100,000 lines, 30 MB of usual text
MAX_SAMPLED_LINE_BYTES = 4000  # longer lines are left out of the sample


class FirstPass(NamedTuple):
    lines: list[int]  # of each corpus
    sample: list[LineGroup]  # random blocks of lines, in their order


class LineCountError(HeadwayError):
    """The two files of a corpus have different numbers of lines."""

    def __init__(self, files: ParallelFiles, counts: tuple[int, int], shift: LineShift | None) -> None:
        self.files = files
        self.counts = counts
        self.shift = shift
        super().__init__(
            f"{files.source} has {counts[0]:,} lines and {files.target} has {counts[1]:,}: line n of one must be the "
            f"translation of line n of the other. {describe_shift(shift, min(counts))}"
        )


def describe_shift(shift: LineShift | None, common: int) -> str:
    if shift is None:
        return f"The line lengths show no gap: look after line {common:,}, where the shorter file ends."
    start = f"The line lengths stop matching at about line {shift.line + 1:,}"
    if not shift.offset:
        return f"{start}, and no shift of a few lines makes them match again."
    lines = f"{abs(shift.offset)} line{'s' * (abs(shift.offset) > 1)}"
    return f"{start}: from there on the target is {lines} {'late' if shift.offset > 0 else 'early'}."


def read_first_pass(corpora: Sequence[ParallelFiles]) -> FirstPass:
    """Every block of lines is sampled with the same probability; the same corpus gives the same sample."""
    generator = random.Random(0)
    lines: list[int] = []
    sample: list[LineGroup] = []
    blocks = 0
    for number, files in enumerate(corpora):
        sides = len(files.paths) if is_by_line(files) else 2
        lengths = [array("I") for _ in range(sides)]
        counts = [0] * sides
        block: list[tuple[bytes, ...]] = []
        for line in read_raw_lines(files):
            for side, text in enumerate(line):
                if text is not None:
                    counts[side] += 1
                    lengths[side].append(len(text))
            if None not in line:
                block.append(tuple(text if text and len(text) <= MAX_SAMPLED_LINE_BYTES else b"" for text in line))
            if len(block) == BLOCK_LINES:
                blocks += 1
                _add_to_reservoir(sample, LineGroup(number, counts[0] - BLOCK_LINES, block), blocks, generator)
                block = []
        if len(set(counts)) > 1:
            shift = find_line_shift(*(np.array(side, np.uint32) for side in lengths))
            raise LineCountError(files, (counts[0], counts[1]), shift)
        if block:
            blocks += 1
            _add_to_reservoir(sample, LineGroup(number, counts[0] - len(block), block), blocks, generator)
        lines.append(counts[0])
    return FirstPass(lines, sorted(sample, key=lambda group: (group.corpus, group.first)))


def _add_to_reservoir(sample: list[LineGroup], block: LineGroup, seen: int, generator: random.Random) -> None:
    if len(sample) < MAX_SAMPLED_BLOCKS:
        sample.append(block)
    elif (index := generator.randrange(seen)) < MAX_SAMPLED_BLOCKS:
        sample[index] = block
