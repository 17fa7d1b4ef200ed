"""Where the lines of two files stop matching, found from the lengths of the lines alone."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.uint32]
Floats = NDArray[np.float64]

MIN_SHIFT_NATS = 20.0  # evidence needed to report a shift
MAX_LINE_NATS = 3.0  # at most from one line: a few odd lines in a row prove nothing
SEARCH_RADII = (25, 100, 400)  # lines on either side of a suspected shift, tried in this order
MAX_SHIFT = 50  # lines by which one file may be shifted against the other
MIN_LINES = 30  # needed to fit a model of lengths


class LineShift(NamedTuple):
    line: int  # the first that does not fit, counted from 0
    offset: int  # its translation is this many lines further down; 0 if no offset fits


class LengthModel(NamedTuple):
    """Centre and spread of the log length ratio, of translations and of random pairs of lines."""

    centre: float
    spread: float
    chance_centre: float
    chance_spread: float

    def evidence(self, source: Lengths, target: Lengths) -> Floats:
        """Log-likelihood ratio, in nats, of a translation against a random pair, for each line."""
        ratio = _log_ratio(source, target)
        fits = ((ratio - self.centre) / self.spread) ** 2
        chance = ((ratio - self.chance_centre) / self.chance_spread) ** 2
        nats: Floats = (chance - fits) / 2 + np.log(self.chance_spread / self.spread)
        return np.clip(nats, -MAX_LINE_NATS, MAX_LINE_NATS)


def find_line_shift(source: Lengths, target: Lengths) -> LineShift | None:
    """The first line where lengths stop matching; None if they match, or if there are too few lines to tell."""
    common = min(len(source), len(target))
    if common < MIN_LINES:
        return None
    model = fit_length_model(source, target)
    if model is None:
        return LineShift(0, 0)
    evidence = model.evidence(source[:common], target[:common])
    total = np.concatenate([[0.0], np.cumsum(evidence)])
    maximum = np.maximum.accumulate(total)
    drops = np.flatnonzero(maximum - total > MIN_SHIFT_NATS)
    if not len(drops):
        return None
    about = int(np.argmax(total[: drops[0]]))
    shifts = (_refine_shift(model, source, target, about, radius) for radius in SEARCH_RADII)
    return next((shift for shift in shifts if shift.offset), LineShift(about, 0))


def fit_length_model(source: Lengths, target: Lengths) -> LengthModel | None:
    """Fitted at the offset where the sides match best, as the shift may come early. None if they never match."""
    common = min(len(source), len(target))
    difference = len(target) - len(source)
    offsets = sorted({0, difference, *range(-3, 4)}, key=abs)
    best = min(
        (_centre_and_spread(*_shift_lines(source, target, offset)) for offset in offsets), key=lambda fit: fit[1]
    )
    by_chance = _centre_and_spread(source[:common], np.roll(target[:common], common // 3))
    if best[1] > 0.8 * by_chance[1]:
        return None
    return LengthModel(*best, *by_chance)


def _shift_lines(source: Lengths, target: Lengths, offset: int) -> tuple[Lengths, Lengths]:
    """Source lines beside the target lines that are `offset` further down."""
    source = source[max(0, -offset) :]
    target = target[max(0, offset) :]
    common = min(len(source), len(target))
    return source[:common], target[:common]


def _centre_and_spread(source: Lengths, target: Lengths) -> tuple[float, float]:
    """Median, and 1.48 times the median absolute deviation: robust against a few wrong lines."""
    ratio = _log_ratio(source, target)
    if not len(ratio):
        return 0.0, np.inf
    centre = float(np.median(ratio))
    return centre, max(0.02, 1.48 * float(np.median(np.abs(ratio - centre))))


def _log_ratio(source: Lengths, target: Lengths) -> Floats:
    # 8 added on both sides: ratios of short lines vary much.
    return np.log((target + 8.0) / (source + 8.0))


def _refine_shift(model: LengthModel, source: Lengths, target: Lengths, about: int, radius: int) -> LineShift:
    """The line within `radius` of `about`, and the offset from it on, that explain the lines around it best."""
    low = max(0, about - radius)
    high = min(len(source), len(target), about + radius)
    before = np.concatenate([[0.0], np.cumsum(model.evidence(source[low:high], target[low:high]))])
    best = MIN_SHIFT_NATS / 2
    shift = LineShift(about, 0)
    for offset in sorted(set(range(-MAX_SHIFT, MAX_SHIFT + 1)) - {0}, key=abs):
        lines = np.arange(low, high)
        exists = (lines + offset >= 0) & (lines + offset < len(target))
        evidence = np.zeros(high - low)
        evidence[exists] = model.evidence(source[lines[exists]], target[lines[exists] + offset])
        after = np.concatenate([np.cumsum(evidence[::-1])[::-1], [0.0]])
        # A shift by one line needs less evidence than one by many.
        gain = before + after - before[about - low] - np.log1p(abs(offset))
        if gain.max() > best:
            best = float(gain.max())
            shift = LineShift(low + int(np.argmax(gain)), offset)
    return shift
