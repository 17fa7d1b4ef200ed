"""Two files whose lines no longer belong together: where that begins, told by the lengths of their lines alone."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.uint32]
Floats = NDArray[np.float64]

SURE = 20.0  # nats of evidence before it is believed that lines have come apart
CLIP = 3.0  # nats that one line can give: a few odd lines in a row prove nothing
NEAR = (25, 100, 400)  # lines on either side of the place that are looked at closely, until they tell
FURTHEST = 50  # lines by which one file may have slipped against the other
FEWEST = 30  # lines that say something about lengths


class Slip(NamedTuple):
    line: int  # the first that does not fit, counted from 0
    offset: int  # so many lines further down stands its translation; 0 where none fits


class LengthModel(NamedTuple):
    """How the logarithm of the ratio of two lengths spreads, for translations and for lines that met by chance."""

    centre: float
    spread: float
    chance_centre: float
    chance_spread: float

    def evidence(self, source: Lengths, target: Lengths) -> Floats:
        """Nats by which each pair of lines looks like a translation rather than like chance."""
        ratio = _log_ratio(source, target)
        fits = ((ratio - self.centre) / self.spread) ** 2
        chance = ((ratio - self.chance_centre) / self.chance_spread) ** 2
        nats: Floats = (chance - fits) / 2 + np.log(self.chance_spread / self.spread)
        return np.clip(nats, -CLIP, CLIP)


def find_slip(source: Lengths, target: Lengths) -> Slip | None:
    """The first place where lengths stop corresponding; None where they never stop, or too few lines can tell."""
    both = min(len(source), len(target))
    if both < FEWEST:
        return None
    model = learn_lengths(source, target)
    if model is None:
        return Slip(0, 0)
    evidence = model.evidence(source[:both], target[:both])
    total = np.concatenate([[0.0], np.cumsum(evidence)])
    highest = np.maximum.accumulate(total)
    fallen = np.flatnonzero(highest - total > SURE)
    if not len(fallen):
        return None
    about = int(np.argmax(total[: fallen[0]]))
    slips = (_closely(model, source, target, about, near) for near in NEAR)
    return next((slip for slip in slips if slip.offset), Slip(about, 0))


def learn_lengths(source: Lengths, target: Lengths) -> LengthModel | None:
    """From the offset at which the two sides agree best: lines may have come apart early. None if they never agree."""
    both = min(len(source), len(target))
    apart = len(target) - len(source)
    offsets = sorted({0, apart, *range(-3, 4)}, key=abs)
    found = min((_centre_and_spread(*_at(source, target, offset)) for offset in offsets), key=lambda two: two[1])
    by_chance = _centre_and_spread(source[:both], np.roll(target[:both], both // 3))
    if found[1] > 0.8 * by_chance[1]:
        return None
    return LengthModel(*found, *by_chance)


def _at(source: Lengths, target: Lengths, offset: int) -> tuple[Lengths, Lengths]:
    """Source lines beside the target lines that stand `offset` further down."""
    source, target = source[max(0, -offset) :], target[max(0, offset) :]
    both = min(len(source), len(target))
    return source[:both], target[:both]


def _centre_and_spread(source: Lengths, target: Lengths) -> tuple[float, float]:
    """Median, and 1.48 times the median distance from it: what a few wrong lines cannot move."""
    ratio = _log_ratio(source, target)
    if not len(ratio):
        return 0.0, np.inf
    centre = float(np.median(ratio))
    return centre, max(0.02, 1.48 * float(np.median(np.abs(ratio - centre))))


def _log_ratio(source: Lengths, target: Lengths) -> Floats:
    # A few letters more matter less in a long line, and more in a short one, than a ratio says.
    return np.log((target + 8.0) / (source + 8.0))


def _closely(model: LengthModel, source: Lengths, target: Lengths, about: int, near: int) -> Slip:
    """The line near `about` and the offset behind it that explain the lines around best."""
    low, high = max(0, about - near), min(len(source), len(target), about + near)
    before = np.concatenate([[0.0], np.cumsum(model.evidence(source[low:high], target[low:high]))])
    best, slip = SURE / 2, Slip(about, 0)
    for offset in sorted(set(range(-FURTHEST, FURTHEST + 1)) - {0}, key=abs):
        lines = np.arange(low, high)
        there = (lines + offset >= 0) & (lines + offset < len(target))
        evidence = np.zeros(high - low)
        evidence[there] = model.evidence(source[lines[there]], target[lines[there] + offset])
        after = np.concatenate([np.cumsum(evidence[::-1])[::-1], [0.0]])
        # A shift of one line needs less proof than one of many.
        gain = before + after - before[about - low] - np.log1p(abs(offset))
        if gain.max() > best:
            best, slip = float(gain.max()), Slip(low + int(np.argmax(gain)), offset)
    return slip
