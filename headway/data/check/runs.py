"""Lines in a row that do not belong together, where each alone would not be proof enough."""

import math
from collections.abc import Sequence
from typing import NamedTuple

ENTER, LEAVE = 8.0, 2.0  # nats against a run's beginning here, and its ending
SHORTEST = 3
CLIP = 6.0  # nats that one line can give


class Run(NamedTuple):
    start: int
    stop: int  # one behind its last line


def find_runs(evidence: Sequence[float], shortest: int = SHORTEST) -> list[Run]:
    """The likeliest division into good and moved lines (Viterbi's algorithm with two states).

    `evidence`: nats by which a line looks moved rather than good."""
    good, moved = 0.0, -math.inf
    begins, ends = bytearray(len(evidence)), bytearray(len(evidence))
    for number, value in enumerate(evidence):
        value = max(-CLIP, min(CLIP, value))
        ends[number] = moved - LEAVE > good
        begins[number] = good - ENTER > moved
        good, moved = max(good, moved - LEAVE), max(moved, good - ENTER) + value
    runs: list[Run] = []
    stop = len(evidence)
    inside = moved > good
    for number in range(len(evidence) - 1, -1, -1):
        if inside and begins[number]:
            if stop - number >= shortest:
                runs.append(Run(number, stop))
            inside = False
        elif not inside and ends[number]:
            inside, stop = True, number
    return runs[::-1]
