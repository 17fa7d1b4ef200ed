"""How to train, as a value: the keywords of `headway.train`, which are the options of `headway train`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

from headway.config.config import Config, read_toml
from headway.config.objective_kinds import TASKS
from headway.config.sources import Layer, read_environment
from headway.errors import ConfigError, did_you_mean
from headway.nn.layers.lora import LoraConfig
from headway.train.callbacks import Callback
from headway.train.loggers import Logger
from headway.train.progress import PlainProgress, ProgressListener, SilentProgress

Objective = Literal["translation", "causal", "masked", "permutation", "span_corruption", "denoising", "masked_target"]
Task = Literal["classify", "tag", "match", "embed", "solve"]


class TrainKeywords(TypedDict, total=False):
    """The keywords of `headway.train`; what they mean is in TrainOptions."""

    valid: Any
    languages: tuple[str, str]
    columns: tuple[str, str] | str | None
    both_ways: bool
    noise: float
    preset: str
    config: Config | Mapping[str, Any] | str | Path | None
    set: Mapping[str, Any]
    objective: Objective | None
    task: Task | None
    steps: int | None
    epochs: int | None
    seconds: float | None
    seed: int | None
    from_model: str | Path | None
    lora: int | LoraConfig | None
    tokenizer: str | Path | None
    index: str | Path | None
    device: str
    allow_changes: bool
    log: str | Sequence[str | Logger]
    callbacks: Sequence[Callback]
    progress: ProgressListener | bool
    flags: bool


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How to train.

    Text
    valid: validation text, in any form of the training text; by default some of it is held out
    languages: of source and target, ("en", "de"); by default those that columns or files are named by
    columns: of source and target, or the one of running text, where their names do not tell
    both_ways: train both directions on the same pairs
    noise: share of the pairs that is repeated with noise, as people type

    Settings
    preset: "auto" chooses one by the amount of text
    config: a Config in place of a preset; or what changes a preset: a table, or the path of a TOML file
    set: single settings by their path, {"train.seed": 2, "model.dropout": 0.2}; above all others
    objective: "translation" (the default) or "masked_target" for pairs; "causal" (the default), "masked",
        "permutation", "span_corruption" or "denoising" for running text
    task: on top of an encoder, from labelled text: "classify", "tag", "match", "embed" (see docs/tasks.md); or by a
        decoder, from problems with answers: "solve" (see docs/transnar.md)
    steps, epochs, seconds: the budget, of which the first reached ends the run
    seed: short for set={"train.seed": …}

    Run
    from_model: fine-tune this model, a directory or a name
    lora: train an adapter of this rank instead, or as a LoraConfig says; `out` is then an adapter directory
    tokenizer: use that of this model or file
    index: retrieve from this folder, which `headway index` has made: see docs/retro.md
    device: "auto", "cpu", "cuda", …
    allow_changes: resume even though text or settings have changed
    log: "tensorboard,csv", or a list of names and Loggers: see headway.train.loggers
    callbacks: see headway.train.callbacks
    progress: False shows nothing; a ProgressListener shows it in its own way
    """

    valid: Any = None
    languages: tuple[str, str] = ("", "")
    columns: tuple[str, str] | str | None = None
    both_ways: bool = False
    noise: float = 0.0
    preset: str = "auto"
    config: Config | Mapping[str, Any] | str | Path | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    objective: Objective | None = None
    task: Task | None = None
    steps: int | None = None
    epochs: int | None = None
    seconds: float | None = None
    seed: int | None = None
    from_model: str | Path | None = None
    lora: int | LoraConfig | None = None
    tokenizer: str | Path | None = None
    index: str | Path | None = None
    device: str = "auto"
    allow_changes: bool = False
    log: str | Sequence[str | Logger] = ()
    callbacks: Sequence[Callback] = ()
    progress: ProgressListener | bool = True
    flags: bool = False  # given on the command line: origins of settings are named by its flags

    def check(self) -> None:
        """Raise ConfigError for what excludes each other."""
        whole = isinstance(self.config, Config)
        for one, other, clash in (
            ("preset", "from_model", self.preset != "auto" and self.from_model),
            ("tokenizer", "from_model", self.tokenizer and self.from_model),
            ("config", "from_model", whole and self.from_model),
            ("preset", "config", whole and self.preset != "auto"),
        ):
            if clash:
                what = "tokenizer" if one == "tokenizer" else "settings"
                owner = "the model" if other == "from_model" else "a Config"
                raise ConfigError(f"{one} and {other} were both given, and {owner} has its own {what}: leave out one.")
        if self.lora is not None and not self.from_model:
            raise ConfigError("an adapter needs a model to adapt: give from_model (--from-model), too.", "lora")
        if self.task is not None and self.task not in TASKS:
            hint = did_you_mean(str(self.task), list(TASKS))
            raise ConfigError(f'there is no task "{self.task}".{hint} Choose one of: {", ".join(TASKS)}.', "task")
        if self.task is not None and (self.objective or self.lora is not None):
            other = "objective" if self.objective else "lora"
            raise ConfigError(f"task and {other} were both given: a task has its objective, and trains all weights.")
        for name in self.set:
            if not all(name.split(".")):
                raise ConfigError(
                    f'"{name}" is no path of a setting: write it as "train.seed" or "model.dropout".', "set"
                )

    def layers(self) -> list[Layer]:
        """The settings above the preset, lowest first: config, environment, single settings."""
        prefix = "flag --" if self.flags else ""
        names = {"seconds": "for"} if self.flags else {}
        given = {name: getattr(self, name) for name in ("objective", "steps", "epochs", "seconds", "seed")}
        own = {
            name: Layer(f"{prefix}{names.get(name, name)}", {"train": {name: value}})
            for name, value in given.items()
            if value is not None
        }
        layers = read_environment()
        if isinstance(self.config, str | Path):
            layers.insert(0, Layer(f"file {self.config}", read_toml(Path(self.config))))
        elif isinstance(self.config, Mapping):
            layers.insert(0, Layer("config", _nest_paths(self.config)))
        if "objective" in own:  # below `set`, which may set a field of the objective
            layers.append(own.pop("objective"))
        layers += [Layer(f"{prefix}set {name}", _nest_path(name, value)) for name, value in self.set.items()]
        return [*layers, *own.values()]

    def lora_config(self) -> LoraConfig | None:
        return LoraConfig(self.lora) if isinstance(self.lora, int) else self.lora

    def listener(self) -> ProgressListener:
        if isinstance(self.progress, bool):
            return PlainProgress() if self.progress else SilentProgress()
        return self.progress


def _nest_path(path: str, value: Any) -> dict[str, Any]:
    """("train.seed", 2) -> {"train": {"seed": 2}}"""
    first, _, rest = path.partition(".")
    return {first: _nest_path(rest, value) if rest else _plain(value)}


def _nest_paths(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table whose keys may be paths, as a tree."""
    tree: dict[str, Any] = {}
    for path, value in table.items():
        _merge_tree(tree, _nest_path(path, value))
    return tree


def _merge_tree(tree: dict[str, Any], other: dict[str, Any]) -> None:
    for name, value in other.items():
        if isinstance(value, dict) and isinstance(tree.get(name), dict):
            _merge_tree(tree[name], value)
        else:
            tree[name] = value


def _plain(value: Any) -> Any:
    """Values of a config as TOML gives them: a part as its table, a tuple as a list."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return _nest_paths(value) if isinstance(value, Mapping) and "kind" not in value else value
