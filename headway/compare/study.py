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

[quick.budget]               # a short edition of the same study, for --quick
steps = 100
"""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from headway.compare.axes import Axis, format_value, grid
from headway.compare.probes import check_probe
from headway.config.config import read_toml
from headway.config.durations import parse_duration
from headway.config.sources import Layer, merge_layers
from headway.errors import ConfigError, did_you_mean
from headway.files.notebook_html import render_table
from headway.train.sources import TrainingFiles

PATH_FIELDS = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs", "text", "valid_text")
LIST_FIELDS = (*PATH_FIELDS, "source_languages", "target_languages", "weights")
STUDY_KEYS = (
    "name", "sample", "lengths", "test_lengths", "probes", "text", "toy", "vary", "budget", "settings", "quick",
)  # fmt: skip
SPENDINGS = ("steps", "tokens", "for", "untrained")  # of which a budget has one
MAX_VARIANTS = 1000
SAMPLE_SEED = 0  # of the variants drawn from a grid


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What every variant may spend: the same steps, tokens or seconds; or nothing, to compare costs alone."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    untrained: bool = False
    parameters: int | Literal["equal", "free"] = "equal"
    seeds: int = 1

    def check(self) -> None:
        given = [name for name in ("steps", "tokens", "seconds", "untrained") if getattr(self, name)]
        if len(given) != 1:
            found = " and ".join(given) or "nothing"
            raise ConfigError(f"a study needs one budget, steps, tokens or time, and {found} was given. Give one.")
        if self.untrained and self.seeds > 1:
            raise ConfigError(f"untrained models cost the same with every seed: leave out seeds = {self.seeds}.")
        if self.seeds < 1:
            raise ConfigError(f"seeds = {self.seeds}: give at least 1.")
        is_number = isinstance(self.parameters, int) and self.parameters > 0
        if not is_number and self.parameters not in ("equal", "free"):
            raise ConfigError(f'parameters = {self.parameters!r}: give a positive number, "equal" or "free".')
        if not isinstance(self.untrained, bool):
            raise ConfigError(f"untrained = {self.untrained!r}: write true or false.")

    def train_settings(self, batch_tokens: int) -> dict[str, Any]:
        """As settings of a training run, which counts steps of about `batch_tokens` tokens."""
        steps = self.steps or -(-self.tokens // batch_tokens)
        return {"steps": steps, "epochs": 0, "seconds": self.seconds, "patience": 0}

    def describe(self) -> str:
        if self.untrained:
            return "untrained"
        if self.seconds:
            return f"{self.seconds:g} s of training each"
        return f"{self.steps:,} steps each" if self.steps else f"{self.tokens:,} tokens each"


@dataclass(frozen=True, kw_only=True)
class ToyText:
    """Text of a synthetic task, which the study itself writes: see headway.data.toy.tasks."""

    task: str
    length: int
    test_lengths: tuple[int, ...] = ()  # default: `length`
    lines: int = 20_000
    seed: int = 0


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
    probes: tuple[str, ...] = ()  # further measurements: see headway.compare.probes
    answers: tuple[str, ...] = ()  # files of prompts and answers that a language model is asked
    toy: ToyText | None = None  # instead of files

    def _repr_html_(self) -> str:
        """Notebooks show what is varied, on what, and how long each trial takes."""
        rows = [(axis.name, ", ".join(map(format_value, axis.values))) for axis in self.axes]
        rows += [("budget", self.budget.describe()), ("preset", self.preset)]
        return render_table((), rows, f"study {self.name}")

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


def read_study(path: Path, data: Path | None = None, quick: bool = False) -> Study:
    """From a TOML file; unknown keys are refused. `data`: the folder that its text is in, else its own. `quick`: its
    short edition."""
    table = read_toml(path)
    try:
        return study_from_table(shorten_table(table, quick), path.parent if data is None else data, path.stem)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def shorten_table(table: dict[str, Any], quick: bool) -> dict[str, Any]:
    """The table of a study without its section [quick], or with what that section says instead: other text, other axes,
    single settings."""
    rest = {key: value for key, value in table.items() if key != "quick"}
    if not quick:
        return rest
    if not (changes := dict(_section(table, "quick"))):
        raise ConfigError("this study has no section [quick], and so no short edition. Leave out --quick.")
    _refuse_unknown(changes, [key for key in STUDY_KEYS if key != "quick"], "quick")
    if {"text", "toy"} & changes.keys():
        rest = {key: value for key, value in rest.items() if key not in ("text", "toy")}
    budget, settings = (dict(_section(changes, key)) for key in ("budget", "settings"))
    if any(key in budget for key in SPENDINGS):
        rest["budget"] = {key: value for key, value in _section(rest, "budget").items() if key not in SPENDINGS}
    before = _section(rest, "settings")
    configs = [Layer(name, _section(part, "config")) for name, part in (("study", before), ("quick", settings))]
    return {
        **rest,
        **changes,
        "budget": {**_section(rest, "budget"), **budget},
        "settings": {**before, **settings, "config": merge_layers(configs).tree},
    }


def study_from_table(table: dict[str, Any], folder: Path, name: str) -> Study:
    _refuse_unknown(table, STUDY_KEYS, "")
    text, toy, budget, settings = (dict(_section(table, key)) for key in ("text", "toy", "budget", "settings"))
    known = [spec.name for spec in dataclasses.fields(TrainingFiles)]
    _refuse_unknown(text, [*known, "test_source", "test_target", "answers"], "text")
    _refuse_unknown(toy, [spec.name for spec in dataclasses.fields(ToyText)], "toy")
    _refuse_unknown(budget, [*SPENDINGS, "parameters", "seeds"], "budget")
    _refuse_unknown(settings, ["preset", "config"], "settings")
    tests = {key: str(folder / text.pop(key)) for key in ("test_source", "test_target") if key in text}
    answers = tuple(str(folder / entry) for entry in _as_list(text.pop("answers", [])))
    files = TrainingFiles(**{key: _read_text_value(key, value, folder) for key, value in text.items()})
    if "for" in budget:
        budget["seconds"] = parse_duration(str(budget.pop("for")))
    for key in ("steps", "tokens", "seeds"):
        _whole_number(key, budget.get(key, 1), low=0)
    axes = tuple(Axis(key, tuple(_as_list(value))) for key, value in _flatten_axes(_section(table, "vary")))
    study = Study(
        name=str(table.get("name", name)),
        files=files,
        axes=axes,
        budget=Budget(**budget),
        preset=str(settings.get("preset", "auto")),
        config=dict(_section(settings, "config")),
        sample=_whole_number("sample", table.get("sample", 0), low=0),
        lengths=_whole_numbers("lengths", table.get("lengths", Study.lengths)),
        test_lengths=_whole_numbers("test_lengths", table.get("test_lengths", [])),
        probes=tuple(map(str, _as_list(table.get("probes", [])))),
        answers=answers,
        toy=_read_toy(toy) if toy else None,
        **tests,
    )
    return check_study(study)


def _read_toy(table: dict[str, Any]) -> ToyText:
    if missing := [key for key in ("task", "length") if key not in table]:
        raise ConfigError(f'[toy] needs {" and ".join(missing)}, as in task = "needle", length = 256.')
    numbers = {key: _whole_number(key, table[key], low=0) for key in ("length", "lines", "seed") if key in table}
    lengths = _whole_numbers("test_lengths", table.get("test_lengths", []))
    return ToyText(task=str(table["task"]), test_lengths=lengths, **numbers)


def _whole_number(key: str, value: Any, low: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise ConfigError(f"{key} = {value!r}: give a whole number of at least {low}.")
    return value


def _whole_numbers(key: str, value: Any) -> tuple[int, ...]:
    return tuple(_whole_number(key, entry) for entry in _as_list(value))


def check_study(study: Study) -> Study:
    study.budget.check()
    if study.toy is None:
        study.files.check()
    elif any(getattr(study.files, name) for name in PATH_FIELDS):
        raise ConfigError("[toy] makes the text, and [text] names files: give one of them.")
    for name in study.probes:
        check_probe(name)
    reads_text = bool(study.files.text) or study.toy is not None
    if not reads_text and (study.probes or study.answers):
        raise ConfigError("probes and answers are for language models: leave them out.")
    if not study.axes:
        raise ConfigError('nothing varies. Give an axis, as in [vary] mixer = ["attention", "retention"].')
    if bool(study.test_source) != bool(study.test_target):
        raise ConfigError("test_source and test_target belong together: give both, or neither.")
    if study.test_source and reads_text:
        raise ConfigError("a language model is measured on valid_text: leave out test_source and test_target.")
    if study.test_lengths and not reads_text:
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
