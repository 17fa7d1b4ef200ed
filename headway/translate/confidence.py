"""Confidence of a translation, from 0 to 1: how likely it is good, by features of the search's own output.

The features go into the logistic regression that `headway calibrate` has fitted: see headway.storage.calibration for
its file and headway.workflows.calibration for the fit. Nothing here imports torch."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.errors import HeadwayError
from headway.storage.calibration import Calibration

if TYPE_CHECKING:
    from headway.translate.translator import Translator

DOUBTFUL_LOGP = math.log(0.2)  # a token with less was one of many choices
NUMBER = re.compile(r"\d+")


def score_confidence(
    calibration: Calibration, source: str, source_tokens: int, output: str, logps: Sequence[float]
) -> float:
    """Of a line. 1.0 for a line without tokens: nothing was translated."""
    return calibration.score(features(source, source_tokens, output, logps, calibration.usual)) if logps else 1.0


def features(
    source: str, source_tokens: int, output: str, logps: Sequence[float], usual_ratio: float = 0.0
) -> list[float]:
    """The values of storage.calibration.FEATURES:

    mean      mean log-probability of a token
    worst     the lowest of them
    doubtful  the share of tokens that were unlikely
    ratio     how far the lengths in tokens are from their usual ratio, as a logarithm
    length    of the source, as a logarithm
    numbers   the share of the source's numbers that are in the output

    logps: of the output's tokens, its ends counted; usual_ratio: log(output / source)
    """
    count = max(len(logps), 1)
    source_numbers = Counter(NUMBER.findall(source))
    output_numbers = Counter(NUMBER.findall(output))
    kept = (source_numbers & output_numbers).total() / source_numbers.total() if source_numbers else 1.0
    return [
        sum(logps) / count,
        min(logps, default=0.0),
        sum(logp < DOUBTFUL_LOGP for logp in logps) / count,
        abs(length_ratio(source_tokens, logps) - usual_ratio),
        math.log(max(source_tokens, 1)),
        kept,
    ]


def length_ratio(source_tokens: int, logps: Sequence[float]) -> float:
    """log(output / source), in tokens."""
    return math.log(max(len(logps), 1) / max(source_tokens, 1))


def check_min_confidence(min_confidence: float, translator: "Translator", target: str) -> None:
    """Raise HeadwayError if a minimum is given for a model that has no confidence."""
    if not min_confidence or translator.calibration(target) is not None:
        return
    paths = translator.engines.paths
    if len(paths) > 1:
        raise HeadwayError("--min-confidence is not available for ensembles: give one model.")
    folder = paths[0] if paths else "DIR"
    raise HeadwayError(
        f"{folder} is not calibrated, so its translations have no confidence score. Calibrate it with text that it "
        f"was not trained on: headway calibrate --model {folder} --source valid.en --target valid.de"
    )
