"""A study: the text, the settings that all variants share, what varies, the budget and the seeds.

name = "mixers on Multi30k"

[text]                       # paths are relative to this file
source = "train.en"
target = "train.de"
valid_source = "val.en"
valid_target = "val.de"

[vary]                       # every combination, or `sample` of them
mixer = ["attention(4)", "retention(4)"]
position = ["sinusoidal", "rope"]

[budget]
for = "3m"                   # or steps = 1000, or tokens = 4_000_000
parameters = "equal"         # to the first variant's; a number; or "free"
seeds = 3

[settings]
preset = "tiny"

[settings.config]            # any config keys
model.dropout = 0.0
"""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from headway.compare.axes import Axis, format_value, grid
from headway.config.config import read_toml
from headway.config.durations import parse_duration
from headway.errors import ConfigError, did_you_mean
from headway.train.sources import TrainingFiles

PATH_FIELDS = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs", "text", "valid_text")
LIST_FIELDS = (*PATH_FIELDS, "source_languages", "target_languages", "weights")
MAX_VARIANTS = 1000
SAMPLE_SEED = 0  # of the variants drawn from a grid


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What every variant may spend: the same steps, tokens or seconds."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    parameters: int | Literal["equal", "free"] = "equal"
    seeds: int = 1

    def check(self) -> None:
        given = [name for name in ("steps", "tokens", "seconds") if getattr(self, name)]
        if len(given) != 1:
            found = " and ".join(given) or "nothing"
            raise ConfigError(f"a study needs one budget, steps, tokens or time, and {found} was given. Give one.")
        if self.seeds < 1:
            raise ConfigError(f"seeds = {self.seeds}: give at least 1.")
        if isinstance(self.parameters, int) and self.parameters < 1:
            raise ConfigError(f'parameters = {self.parameters}: give a positive number, "equal" or "free".')

    def train_settings(self, batch_tokens: int) -> dict[str, Any]:
        """As settings of a training run, which counts steps of about `batch_tokens` tokens."""
        steps = self.steps or -(-self.tokens // batch_tokens)
        return {"steps": steps, "epochs": 0, "seconds": self.seconds, "patience": 0}

    def describe(self) -> str:
        if self.seconds:
            return f"{self.seconds:g} s of training each"
        return f"{self.steps:,} steps each" if self.steps else f"{self.tokens:,} tokens each"


@dataclass(frozen=True, kw_only=True)
class Study:
    name: str
    files: TrainingFiles
    axes: tuple[Axis, ...]
    budget: Budget
    preset: str = "auto"
    config: dict[str, Any] = field(default_factory=dict)  # settings of all variants, as a table
    sample: int = 0  # variants drawn from the grid; 0: all
    test_source: str = ""  # measured at the end; else the validation text is
    test_target: str = ""
    test_lengths: tuple[int, ...] = ()  # of the validation text of a language model, beside the length of its training
    lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)  # of the cost curve; empty: none

    def choices(self) -> list[dict[str, Any]]:
        """The grid, or a sample of it that is always the same and includes the first, which others are compared to."""
        for axis in self.axes:
            if not axis.values:
                raise ConfigError(f"{axis.name} has no values to vary. Give at least one.")
            shown = [format_value(value) for value in axis.values]
            twice = sorted({one for one in shown if shown.count(one) > 1})
            if twice:
                raise ConfigError(f"{axis.name} has the value {twice[0]} twice. Give each once.")
        names = [axis.name for axis in self.axes]
        if len(set(names)) != len(names):
            raise ConfigError(f"an axis is given twice: {', '.join(names)}. Give all of its values in one.")
        everything = list(grid(self.axes))
        if self.sample and self.sample < len(everything):
            drawn = random.Random(SAMPLE_SEED).sample(range(1, len(everything)), self.sample - 1)
            everything = [everything[index] for index in (0, *sorted(drawn))]
        if len(everything) > MAX_VARIANTS:
            raise ConfigError(
                f"this grid has {len(everything):,} variants, and a study may have {MAX_VARIANTS:,}. Draw some with "
                "--sample."
            )
        return everything


def read_study(path: Path, data: Path | None = None) -> Study:
    """From a TOML file; unknown keys are refused. `data`: the folder that its text is in, else its own."""
    table = read_toml(path)
    try:
        return study_from_table(table, path.parent if data is None else data, path.stem)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def study_from_table(table: dict[str, Any], folder: Path, name: str) -> Study:
    _refuse_unknown(table, ["name", "text", "vary", "budget", "settings", "sample", "lengths", "test_lengths"], "")
    text, budget, settings = (dict(_section(table, key)) for key in ("text", "budget", "settings"))
    known = [spec.name for spec in dataclasses.fields(TrainingFiles)]
    _refuse_unknown(text, [*known, "test_source", "test_target"], "text")
    _refuse_unknown(budget, ["steps", "tokens", "for", "parameters", "seeds"], "budget")
    _refuse_unknown(settings, ["preset", "config"], "settings")
    tests = {key: str(folder / text.pop(key)) for key in ("test_source", "test_target") if key in text}
    files = TrainingFiles(**{key: _read_text_value(key, value, folder) for key, value in text.items()})
    if "for" in budget:
        budget["seconds"] = parse_duration(budget.pop("for"))
    axes = tuple(Axis(key, tuple(_as_list(value))) for key, value in _flatten_axes(_section(table, "vary")))
    study = Study(
        name=str(table.get("name", name)),
        files=files,
        axes=axes,
        budget=Budget(**budget),
        preset=settings.get("preset", "auto"),
        config=dict(settings.get("config", {})),
        sample=int(table.get("sample", 0)),
        lengths=tuple(table.get("lengths", Study.lengths)),
        test_lengths=tuple(table.get("test_lengths", ())),
        **tests,
    )
    return check_study(study)


def check_study(study: Study) -> Study:
    study.budget.check()
    study.files.check()
    if not study.axes:
        raise ConfigError('nothing varies. Give an axis, as in [vary] mixer = ["attention", "retention"].')
    if bool(study.test_source) != bool(study.test_target):
        raise ConfigError("test_source and test_target belong together: give both, or neither.")
    if study.test_source and study.files.text:
        raise ConfigError("a language model is measured on valid_text: leave out test_source and test_target.")
    if study.test_lengths and not study.files.text:
        raise ConfigError("test_lengths are for language models: leave them out.")
    study.choices()
    return study


def absolute_files(files: TrainingFiles) -> TrainingFiles:
    """With paths that hold in any working directory."""
    paths = {name: [str(Path(path).resolve()) for path in getattr(files, name)] for name in PATH_FIELDS}
    return replace(files, **paths)  # type: ignore[arg-type]  # only lists of paths


def _section(table: dict[str, Any], key: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"[{key}] must be a section of settings.")
    return value


def _flatten_axes(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """[vary] train.schedule = [...] is one axis with a dotted name."""
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict) and "kind" not in value:
            found += _flatten_axes(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _read_text_value(key: str, value: Any, folder: Path) -> Any:
    if key in LIST_FIELDS:
        values = _as_list(value)
        return [str(folder / entry) for entry in values] if key in PATH_FIELDS else values
    return tuple(value) if key == "columns" else value


def _refuse_unknown(table: dict[str, Any], known: Sequence[str], section: str) -> None:
    for key in table:
        if key not in known:
            where = f" in [{section}]" if section else ""
            raise ConfigError(f'there is no "{key}"{where}.{did_you_mean(key, list(known))} Known: {", ".join(known)}.')
