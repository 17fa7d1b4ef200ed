"""The registry of installed models: those of the package and the user's own, chosen by name or by direction.

    choose_models(--model, --from, --to) ──► ModelChoice: model directories and a direction
    install_model, remove_model              the user's own folder
    set_default                              which model serves a direction when none is named

A model is chosen by its config.json alone, without torch."""

import json
import os
import re
import shutil
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headway.config.objective_kinds import reads_pairs
from headway.errors import ConfigError, HeadwayError
from headway.files.atomic import atomic_directory, write_text_atomically
from headway.storage.summary import ModelSummary, read_summary
from headway.text.language_codes import (
    MAX_LISTED,
    count_directions,
    describe_languages,
    format_directions,
    format_languages,
    languages_match,
    list_directions,
    match_languages,
)

BUNDLED_MODELS = Path(__file__).parents[1] / "models"
DEFAULT_DIRECTION = ("en", "de")
LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{4})?(?:[-_](?:[A-Za-z]{2}|\d{3}))?")  # de, pt-BR, zh-Hant-TW
MODEL_NAME = re.compile(r"\w[\w.-]*")
DEFAULTS_FILE = "defaults.json"  # in the user's folder: direction to name
ALL_DIRECTIONS = "*"  # in it: those of a model that has many, unless they are there
ADAPTER_FILE = "adapter.json"  # of a directory that holds a LoRA adapter, and no model
REQUIRED_FILES = ("config.json", "model.safetensors", "tokenizer.json")

Direction = tuple[str, str]  # source language, target language


@dataclass(frozen=True)
class InstalledModel:
    name: str
    folder: Path
    bundled: bool
    summary: ModelSummary

    @property
    def sources(self) -> tuple[str, ...]:
        """Its source languages; none for a language model."""
        return self.summary.source_languages if reads_pairs(self.summary.objective) else ()

    @property
    def targets(self) -> tuple[str, ...]:
        return self.summary.target_languages if reads_pairs(self.summary.objective) else ()

    @property
    def directions(self) -> list[Direction]:
        """Every pair of its languages: 40,000 of a model with 200. See find_directions."""
        return list_directions(self.sources, self.targets)

    @property
    def direction_count(self) -> int:
        return count_directions(self.sources, self.targets)

    def find_directions(self, source: str, target: str) -> list[Direction]:
        """Those from one language to another; "" stands for any."""
        sources = match_languages(source, self.sources) if source else self.sources
        targets = match_languages(target, self.targets) if target else self.targets
        return list_directions(sources, targets)


class ModelChoice(NamedTuple):
    """Model directories (several: an ensemble) and the direction asked for; "" where none was given."""

    paths: tuple[str, ...]
    source: str = ""
    target: str = ""

    @property
    def direction(self) -> Direction:
        return self.source, self.target


def user_models_folder() -> Path:
    """Where the user's own models are: HEADWAY_MODELS, or the data folder of the system."""
    chosen = os.environ.get("HEADWAY_MODELS")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "headway" / "models"


def list_installed() -> dict[str, InstalledModel]:
    """By name. The user's own come first, and hide bundled ones of the same name."""
    models: dict[str, InstalledModel] = {}
    for parent, bundled in ((user_models_folder(), False), (BUNDLED_MODELS, True)):
        for folder in find_model_folders(parent):
            read = read_summary(folder)
            if read is not None:
                models.setdefault(folder.name, InstalledModel(folder.name, folder, bundled, read[0]))
    return models


def find_model_folders(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # it does not exist, or this user may not read it
        return
    for name in names:
        if not name.startswith(".") and (folder / name / "config.json").is_file():
            yield folder / name


def choose_models(given: Sequence[str | Path], source: str = "", target: str = "") -> ModelChoice:
    """What --model, --from and --to ask for: models by path or name, or with none given one that has the direction."""
    if not given:
        return pick_installed(source, target)
    located = [locate_model(name) for name in given]
    first = located[0]
    paths = tuple(path for choice in located for path in choice.paths)
    if is_compatible(source, first.source) and is_compatible(target, first.target):  # otherwise the flags win
        source = source or first.source
        target = target or first.target
    if not source and not target:
        return ModelChoice(paths, *default_direction(Path(first.paths[0])))
    read = read_summary(Path(first.paths[0]))  # None: loading the model says what is wrong with it
    sources, targets = (read[0].source_languages, read[0].target_languages) if read else ((), ())
    given_source = match_language(source, sources, "--from")
    if source and sources and not given_source:
        raise HeadwayError(
            f'{given[0]} does not translate from "{source}". Its source languages: {format_languages(sources)}.'
        )
    given_source = given_source or source
    given_target = match_language(target, targets, "--to") or target
    source = given_source or only_other_language(sources, given_target)
    target = given_target or only_other_language(targets, given_source)
    if source == target and {*sources, *targets} - {source}:
        raise ConfigError(f"{given[0]} does not translate from {source} to {source}: give another --from or --to.")
    return ModelChoice(paths, source, target)


def default_direction(folder: Path) -> Direction:
    """Of a model for two languages, both ways: from the first to the other, as the bundled one has it; else none."""
    read = read_summary(folder)
    if read is None or not reads_pairs(read[0].objective):
        return "", ""
    sources, targets = read[0].source_languages, read[0].target_languages
    if len(sources) != 2 or set(sources) != set(targets):
        return "", ""
    return sources[0], sources[1]


def is_compatible(given: str, named: str) -> bool:
    return not given or languages_match(given, named)


def only_other_language(known: Sequence[str], language: str) -> str:
    """The only known language beside this one; "" if there are several."""
    rest = [tag for tag in known if tag != language]
    return rest[0] if len(rest) == 1 else ""


def locate_model(given: str | Path) -> ModelChoice:
    """A model by its path, its name, or a direction like de-en, which is then part of the choice."""
    name = str(given)
    if os.sep in name or (Path(name) / "config.json").exists():
        return ModelChoice((name,))
    models = list_installed()
    for pair in split_direction(name):
        candidates = [models[name]] if name in models else list(models.values())
        if found := find_serving(candidates, *pair):
            model, direction = found[0]
            return ModelChoice((str(model.folder),), *direction)
    if name in models:
        return ModelChoice((str(models[name].folder),))
    if models and not Path(name).exists():
        raise HeadwayError(
            f'there is no model "{name}": neither a directory nor an installed model. {format_installed(models)}'
        )
    return ModelChoice((name,))  # loading the model says what is wrong with it


def split_direction(name: str) -> list[Direction]:
    """The directions that a name may mean: one for de-en, none for my-model, two for zh-Hans-en."""
    splits = [(name[:index], name[index + 1 :]) for index, character in enumerate(name) if character == "-"]
    return [split for split in splits if all(map(LANGUAGE_TAG.fullmatch, split))]


def model_directory(given: str | Path) -> str:
    """The directory of a model given by its path, its name, or a direction."""
    return locate_model(given).paths[0]


def is_adapter(folder: str | Path) -> bool:
    return (Path(folder) / ADAPTER_FILE).exists()


def portable_name(folder: str | Path) -> str:
    """How to name a model wherever it may be installed: a bundled or installed one by its name, others by path."""
    path = Path(folder).resolve()
    shelves = (BUNDLED_MODELS.resolve(), user_models_folder().resolve())
    return path.name if path.parent in shelves else str(path)


def writable_directory(given: str | Path) -> str:
    """The same for a model that is to be changed. Bundled models are refused, unless they are given by path."""
    folder = model_directory(given)
    if Path(folder).parent == BUNDLED_MODELS and not Path(given).exists():
        raise HeadwayError(
            f'"{given}" is a bundled model, which is never changed. Make a copy of your own, which is then found '
            f"first: headway models add {folder} --default"
        )
    return folder


def pick_installed(source: str, target: str) -> ModelChoice:
    """An installed model that translates in this direction; "" stands for any language, if only one fits."""
    if not source and not target:
        source, target = DEFAULT_DIRECTION
    models = list_installed()
    found = find_serving(models.values(), source, target)
    if not found:
        raise HeadwayError(no_model_message(models, source, target))
    return pick_serving(found)


def pick_serving(found: Sequence[tuple[InstalledModel, Direction]]) -> ModelChoice:
    """The best of these, if all of them have the same direction."""
    directions = list(dict.fromkeys(direction for _, direction in found))
    if len(directions) > 1:
        flag = "--from" if len({target for _, target in directions}) == 1 else "--to"
        raise ConfigError(f"installed models translate {format_directions(directions)}: choose one with {flag}.")
    model, direction = found[0]
    return ModelChoice((str(model.folder),), *direction)


def find_serving(models: Iterable[InstalledModel], source: str, target: str) -> list[tuple[InstalledModel, Direction]]:
    """The models that translate in this direction, best first: with exactly these language tags, the user's default,
    bundled, named after the direction, with the fewest other directions."""
    defaults = read_defaults()
    found = [(model, (from_, to)) for model in models for from_, to in model.find_directions(source, target)]

    def rank(candidate: tuple[InstalledModel, Direction]) -> tuple[bool, bool, bool, bool, int]:
        model, (from_, to) = candidate
        exact = source in ("", from_) and target in ("", to)
        direction = f"{from_}-{to}"
        is_default = defaults.get(direction, defaults.get(ALL_DIRECTIONS)) == model.name
        return not exact, not is_default, not model.bundled, model.name != direction, model.direction_count

    found.sort(key=rank)
    exact = [candidate for candidate in found if not rank(candidate)[0]]
    return exact or found


def match_language(language: str, known: Sequence[str], flag: str) -> str:
    """The known tag for this language; "" if there is none."""
    found = match_languages(language, known) if language else []
    if len(found) > 1:
        raise ConfigError(f'"{language}" may be {" or ".join(found)}: say which with {flag}.')
    return found[0] if found else ""


def format_installed(models: dict[str, InstalledModel]) -> str:
    if not models:
        return "No model is installed."
    entries = [
        f"{model.name} ({describe_languages(model.sources, model.targets) or 'not a translator'})"
        for model in models.values()
    ]
    return f"Installed: {', '.join(entries)}."


def no_model_message(models: dict[str, InstalledModel], source: str, target: str) -> str:
    from_ = source or "xx"
    to = target or "yy"
    return (
        f"no installed model translates from {source or 'any language'} to {target or 'any language'}. "
        f"{format_installed(models)} Name a model directory with --model, or train one: headway train --source "
        f"train.{from_} --target train.{to} --out {from_}-{to}; then: headway models add {from_}-{to}"
    )


def read_defaults() -> dict[str, str]:
    """The user's default model for each direction, by name."""
    try:
        table = json.loads((user_models_folder() / DEFAULTS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in table.items()} if isinstance(table, dict) else {}


def set_default(name: str) -> InstalledModel:
    """Use an installed model wherever none is named, in each of its directions."""
    models = list_installed()
    if name not in models:
        raise HeadwayError(f'there is no installed model "{name}". {format_installed(models)}')
    defaults = read_defaults()
    if models[name].direction_count > MAX_LISTED:
        own = (set(models[name].sources), set(models[name].targets))
        others = {key: used for key, used in defaults.items() if not _is_direction_between(key, *own)}
        defaults = others | {ALL_DIRECTIONS: name}
    else:
        defaults |= {f"{source}-{target}": name for source, target in models[name].directions}
    try:
        user_models_folder().mkdir(parents=True, exist_ok=True)
        write_text_atomically(user_models_folder() / DEFAULTS_FILE, json.dumps(defaults, indent=2) + "\n")
    except OSError as error:
        raise HeadwayError(f"{user_models_folder()} cannot be written: {error.strerror or error}.") from None
    return models[name]


def _is_direction_between(direction: str, sources: Container[str], targets: Container[str]) -> bool:
    """Whether this key, "en-de", is a direction from one of these languages to another."""
    cuts = [index for index, character in enumerate(direction) if character == "-"]
    return any(direction[:cut] in sources and direction[cut + 1 :] in targets for cut in cuts)


def check_model_name(name: str) -> None:
    if not MODEL_NAME.fullmatch(name):
        raise ConfigError(f'"{name}" is not a valid model name. Use letters, digits, - and _, as in --name my-model.')


def check_new_model(name: str, default: bool) -> Path:
    """The folder for a new model of the user's own. Raises HeadwayError if its name is taken."""
    check_model_name(name)
    folder = user_models_folder() / name
    if os.path.lexists(folder):
        raise HeadwayError(
            f'a model named "{name}" is installed already: {folder}. Choose another --name, or remove it first: '
            f"headway models remove {name}"
        )
    if not default and (BUNDLED_MODELS / name / "config.json").is_file():
        raise HeadwayError(
            f'"{name}" is the name of a bundled model, which yours would hide. Choose another --name, or say --default '
            "if yours is to be used in its place."
        )
    return folder


def install_model(given: str | Path, name: str = "", default: bool = False) -> InstalledModel:
    """Copy a model directory, without its checkpoints, to the user's own models. default: see set_default."""
    source = Path(given)
    name = name or source.resolve().name
    check_model_name(name)
    missing = [file for file in REQUIRED_FILES if not (source / file).is_file()]
    if missing:
        raise HeadwayError(f"{source} is not a complete model directory: it has no {missing[0]}.")
    read = read_summary(source)
    if read is None:
        raise HeadwayError(f"{source / 'config.json'} cannot be read by this version of Headway. Copy it again.")
    target = check_new_model(name, default)
    _copy_files(source, target)
    return set_default(name) if default else InstalledModel(name, target, False, read[0])


def _copy_files(source: Path, target: Path) -> None:
    try:
        with atomic_directory(target) as partial:
            for file in source.iterdir():
                if file.is_file() and not file.name.startswith("."):
                    shutil.copyfile(file, partial / file.name)
    except OSError as error:
        raise HeadwayError(
            f"{target} cannot be written: {error.strerror or error}. Free some space, or set the environment variable "
            "HEADWAY_MODELS to another folder."
        ) from None


def remove_model(name: str) -> Path:
    """Delete one of the user's own models and return its folder. Of a symbolic link, the link."""
    found = list_installed().get(name)
    folder = user_models_folder() / name
    if found is not None and found.bundled:
        raise HeadwayError(
            f"{name} is a bundled model and cannot be removed. Your own models are in {user_models_folder()}."
        )
    if not MODEL_NAME.fullmatch(name) or not os.path.lexists(folder):
        own = {model.name: model for model in list_installed().values() if not model.bundled}
        raise HeadwayError(f'you have no model "{name}" in {user_models_folder()}. {format_installed(own)}')
    if folder.is_symlink():
        folder.unlink()
    elif (folder / "checkpoints").exists():
        raise HeadwayError(
            f"{folder} has checkpoints, which may be the only copy of a training run. Delete it yourself."
        )
    else:
        shutil.rmtree(folder)
    return folder
