"""The calibration file of a model directory: a logistic regression that turns features of an output into a confidence.

`headway calibrate` writes calibration.json, or calibration.de.json for one of several target languages. The features
are computed in headway.translate.confidence. Nothing here imports torch."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically

CALIBRATION_FILE = "calibration.json"
CALIBRATION_GLOB = "calibration*.json"  # one for each target language, where a model has several
FORMAT_VERSION = 1
FEATURES = ("mean", "worst", "doubtful", "ratio", "length", "numbers")  # see headway.translate.confidence.features


@dataclass(frozen=True)
class Calibration:
    """A logistic regression over FEATURES, each of which counts as (value - mean) / scale."""

    means: list[float]
    scales: list[float]
    weights: list[float]
    bias: float
    usual: float  # the usual log(output / source) of lengths in tokens
    about: dict[str, Any]  # what it was fitted to, and how good it is: for people

    def _is_valid(self) -> bool:
        """A finite number for each feature, and positive scales."""
        tables = (self.means, self.scales, self.weights)
        numbers = [*self.means, *self.scales, *self.weights, self.bias, self.usual]
        return (
            all(isinstance(table, list) and len(table) == len(FEATURES) for table in tables)
            and all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
            and min(self.scales) > 0
            and isinstance(self.about, dict)
        )

    def score(self, values: Sequence[float]) -> float:
        """The confidence, from 0 to 1, for the values of FEATURES."""
        total = self.bias + sum(
            weight * (value - mean) / scale
            for weight, value, mean, scale in zip(self.weights, values, self.means, self.scales)
        )
        return 1 / (1 + math.exp(-max(min(total, 500.0), -500.0)))

    def save(self, folder: Path, tag: str = "") -> Path:
        """Write it to a model directory; returns the file. `tag`: the target language of a model that has several."""
        table = {"format_version": FORMAT_VERSION, "features": list(FEATURES), **asdict(self)}
        path = folder / calibration_name(tag)
        write_text_atomically(path, json.dumps(table, indent=1) + "\n")
        return path

    @classmethod
    def load(cls, folder: Path, tag: str = "") -> "Calibration | None":
        """That of a model directory; None if it has none."""
        path = folder / calibration_name(tag)
        if not path.exists():
            return None
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            version = table.pop("format_version")
            names = table.pop("features")
            if version == FORMAT_VERSION and names == list(FEATURES):
                calibration = cls(**table)
                if calibration._is_valid():
                    return calibration
                reason = "is damaged"
            else:
                reason = f"has format_version {version} or other features than this Headway knows"
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            reason = "is damaged"
        raise HeadwayError(f"{path} {reason}. Calibrate the model again: headway calibrate --model {folder} …")


def calibration_name(tag: str) -> str:
    """The file's name for this target language, or for the only one."""
    return f"calibration.{tag}.json" if tag else CALIBRATION_FILE


def copy_calibrations(origin: str | Path, folder: Path) -> None:
    """For a model made from another, whose weights are about the same."""
    for path in Path(origin).glob(CALIBRATION_GLOB):
        (folder / path.name).write_bytes(path.read_bytes())


def delete_calibrations(folder: Path) -> None:
    """They were fitted to other weights."""
    for path in folder.glob(CALIBRATION_GLOB):
        path.unlink()
