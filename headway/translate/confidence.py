"""A score between 0 and 1 for a translation: how likely it is good, by what `headway calibrate` has learned.

A logistic regression over what the search says of its own output. Nothing here imports torch."""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.errors import ConfigError, HeadwayError

if TYPE_CHECKING:
    from headway.translate.translator import Translator

CALIBRATION = "calibration.json"
CALIBRATIONS = "calibration*.json"  # one for each target language, where a model has several: calibration.de.json
FORMAT_VERSION = 1
FEATURES = ("mean", "worst", "doubtful", "ratio", "length", "numbers")
DOUBTFUL = math.log(0.2)  # a token with less was one of many choices
NUMBER = re.compile(r"\d+")


def features(source: str, read: int, output: str, logps: Sequence[float], usual: float = 0.0) -> list[float]:
    """mean      log-probability of a token
    worst     the least of them
    doubtful  the share of tokens that were unlikely
    ratio     how far the lengths in tokens are from their usual ratio, as a logarithm
    length    of the source, as a logarithm
    numbers   the share of the source's numbers that are in the output

    read: tokens of the source; logps: of the output's, its ends counted; usual: log(output / source)
    """
    count = max(len(logps), 1)
    wanted, said = (Counter(NUMBER.findall(side)) for side in (source, output))
    kept = sum((wanted & said).values()) / sum(wanted.values()) if wanted else 1.0
    return [
        sum(logps) / count,
        min(logps, default=0.0),
        sum(logp < DOUBTFUL for logp in logps) / count,
        abs(length_ratio(read, logps) - usual),
        math.log(max(read, 1)),
        kept,
    ]


def length_ratio(read: int, logps: Sequence[float]) -> float:
    return math.log(max(len(logps), 1) / max(read, 1))


@dataclass(frozen=True)
class Calibration:
    """What was learned. Each feature counts as (value - mean) / scale."""

    means: list[float]
    scales: list[float]
    weights: list[float]
    bias: float
    usual: float  # log(output / source), in tokens
    about: dict[str, Any]  # what it was learned from, and how good it is: for people

    def _is_sound(self) -> bool:
        """Whether it can be reckoned with: a number for each feature, and none of them a strange one."""
        tables = (self.means, self.scales, self.weights)
        numbers = [*self.means, *self.scales, *self.weights, self.bias, self.usual]
        return (
            all(isinstance(table, list) and len(table) == len(FEATURES) for table in tables)
            and all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
            and min(self.scales) > 0
            and isinstance(self.about, dict)
        )

    def score(self, values: Sequence[float]) -> float:
        total = self.bias + sum(
            weight * (value - mean) / scale
            for weight, value, mean, scale in zip(self.weights, values, self.means, self.scales)
        )
        return 1 / (1 + math.exp(-max(min(total, 500.0), -500.0)))

    def confidence(self, source: str, read: int, output: str, logps: Sequence[float]) -> float:
        """Of a line. One without tokens says what it said: nothing was translated."""
        return self.score(features(source, read, output, logps, self.usual)) if logps else 1.0

    def save(self, folder: Path, tag: str = "") -> Path:
        """Where it went. `tag`: the target language of a model that has several."""
        table = {"format_version": FORMAT_VERSION, "features": list(FEATURES), **asdict(self)}
        path = folder / named(tag)
        partial = folder / f".{path.name}.partial"
        partial.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        return partial.replace(path)

    @classmethod
    def load(cls, folder: Path, tag: str = "") -> "Calibration | None":
        """That of a model directory, if it has one."""
        path = folder / named(tag)
        if not path.exists():
            return None
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            version, names = table.pop("format_version"), table.pop("features")
            if version == FORMAT_VERSION and names == list(FEATURES):
                made = cls(**table)
                if made._is_sound():
                    return made
                told = "is damaged"
            else:
                told = f"has format_version {version} or other features than this Headway knows"
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            told = "is damaged"
        raise HeadwayError(f"{path} {told}. Make it anew: headway calibrate --model {folder} …")


def named(tag: str) -> str:
    return f"calibration.{tag}.json" if tag else CALIBRATION


def keep_calibration(origin: str | Path, folder: Path) -> None:
    """For a model made from another, whose weights are about the same."""
    for path in Path(origin).glob(CALIBRATIONS):
        (folder / path.name).write_bytes(path.read_bytes())


def forget_calibration(folder: Path) -> None:
    """It was learned from other weights."""
    for path in folder.glob(CALIBRATIONS):
        path.unlink()


def refuse_min_score(min_score: float, translator: "Translator", to: str) -> None:
    if not 0 <= min_score <= 1:
        raise ConfigError(f"a score lies between 0 and 1, and this is {min_score}.", "min_score")
    if not min_score or translator.calibration(to) is not None:
        return
    paths = translator.engines.paths
    if len(paths) > 1:
        raise HeadwayError(
            "several models that vote have no score between 0 and 1. Give one, or leave --min-score out."
        )
    folder = paths[0] if paths else "DIR"
    raise HeadwayError(
        f"{folder} has not been calibrated, so that its translations have no score between 0 and 1. Type: headway "
        f"calibrate --model {folder} --source valid.en --target valid.de, with text that it was not trained on."
    )
