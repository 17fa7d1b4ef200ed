"""Models that are called by a name: those of the package, and the user's own. One is chosen by its config.json alone,
without torch.

Putting models among the user's own, and taking them away again."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headway.errors import ConfigError, HeadwayError
from headway.storage.summary import Outline, read_outline
from headway.text.language_codes import alike, shown

BUNDLED = Path(__file__).parents[1] / "models"
DEFAULT = ("en", "de")  # what is translated when nobody says anything else

Direction = tuple[str, str]
TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{4})?(?:[-_](?:[A-Za-z]{2}|\d{3}))?")  # de, pt-BR, zh-Hant-TW


@dataclass(frozen=True)
class Installed:
    name: str
    folder: Path
    bundled: bool
    outline: Outline

    @property
    def directions(self) -> list[Direction]:
        """As far as its languages tell; none of a language model."""
        known = self.outline
        if known.objective != "translation":
            return []
        return [(one, other) for one in known.source_languages for other in known.target_languages if one != other]


class Choice(NamedTuple):
    """Model directories, several of which vote, and the direction that was asked for; "" where nobody said."""

    paths: tuple[str, ...]
    source: str = ""
    target: str = ""

    @property
    def direction(self) -> Direction:
        return self.source, self.target


def own_folder() -> Path:
    """Where the user's models lie."""
    chosen = os.environ.get("HEADWAY_MODELS")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "headway" / "models"


def installed() -> dict[str, Installed]:
    """By name: the user's own first, each of which hides one of the package with the same name."""
    found: dict[str, Installed] = {}
    for folder, bundled in ((own_folder(), False), (BUNDLED, True)):
        for one in model_folders(folder):
            read = read_outline(one)
            if read is not None:
                found.setdefault(one.name, Installed(one.name, one, bundled, read[0]))
    return found


def model_folders(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # nobody has put anything there, or it is not for this user to read
        return
    for name in names:
        if not name.startswith(".") and (folder / name / "config.json").is_file():
            yield folder / name


def choose(given: Sequence[str | Path], source: str = "", target: str = "") -> Choice:
    """What --model, --from and --to ask for: models by path or name, or none, for one that serves the direction."""
    if not given:
        return picked(source, target)
    located = [locate(one) for one in given]
    first = located[0]
    paths = tuple(path for one in located for path in one.paths)
    if agrees(source, first.source) and agrees(target, first.target):  # else the name says less than the flags do
        source, target = source or first.source, target or first.target
    if not source and not target:
        return Choice(paths)
    read = read_outline(Path(first.paths[0]))  # None: loading says what is wrong with it
    sources, targets = (read[0].source_languages, read[0].target_languages) if read else ((), ())
    if source and sources and not spelt(source, sources):
        raise HeadwayError(f'{given[0]} does not translate from "{source}". It knows: {", ".join(sources)}.')
    source, target = spelt(source, sources) or source, spelt(target, targets) or target
    source, target = source or only_other(sources, target), target or only_other(targets, source)
    if source == target and {*sources, *targets} - {source}:
        raise ConfigError(f"{given[0]} does not translate from {source} to {source}: give another --from or --to.")
    return Choice(paths, source, target)


def agrees(given: str, named: str) -> bool:
    return not given or alike(given, named)


def only_other(known: Sequence[str], language: str) -> str:
    """The language that is left beside another; "" where that could be several."""
    rest = [one for one in known if one != language]
    return rest[0] if len(rest) == 1 else ""


def locate(given: str | Path) -> Choice:
    """A model by its path, its name, or a direction like de-en, which also says what it is to translate."""
    name = str(given)
    if os.sep in name or (Path(name) / "config.json").exists():
        return Choice((name,))
    models = installed()
    splits = [(name[:at], name[at + 1 :]) for at, character in enumerate(name) if character == "-"]
    for pair in (split for split in splits if all(map(TAG.fullmatch, split))):
        here = [models[name]] if name in models else list(models.values())
        if served := serving(here, *pair):
            model, direction = served[0]
            return Choice((str(model.folder),), *direction)
    if name in models:
        return Choice((str(models[name].folder),))
    if models and not Path(name).exists():
        raise HeadwayError(f'there is no model "{name}", neither a directory nor an installed one. {listed(models)}')
    return Choice((name,))  # loading says what is wrong with it


def directory(given: str | Path) -> str:
    """Of a model that is named by its path, its name, or a direction."""
    return locate(given).paths[0]


def own_directory(given: str | Path) -> str:
    """The same, of a model that is to be written to: none of the package that is called by its name."""
    folder = directory(given)
    if Path(folder).parent == BUNDLED and not Path(given).exists():
        raise HeadwayError(
            f'"{given}" is part of the package, where nothing is written. Make a copy of your own, which is then found '
            f"first: headway models add {folder}"
        )
    return folder


def picked(source: str, target: str) -> Choice:
    """An installed model that translates from one language to another; "" stands for any, if there is only one."""
    if not source and not target:
        source, target = DEFAULT
    models = installed()
    served = serving(models.values(), source, target)
    if not served:
        raise HeadwayError(none_for(models, source, target))
    directions = list(dict.fromkeys(direction for _, direction in served))
    if len(directions) > 1:
        missing = "--from" if len({other for _, other in directions}) == 1 else "--to"
        raise ConfigError(f"installed models translate {shown(directions)}: say which with {missing}.")
    model, direction = served[0]
    return Choice((str(model.folder),), *direction)


def serving(models: Iterable[Installed], source: str, target: str) -> list[tuple[Installed, Direction]]:
    """Those that serve a direction, the likeliest first: spelt as it was asked for, the user's own, with the name of the
    direction, with the fewest others."""
    found = [
        (model, (one, other))
        for model in models
        for one, other in model.directions
        if (not source or alike(source, one)) and (not target or alike(target, other))
    ]

    def rank(served: tuple[Installed, Direction]) -> tuple[bool, bool, bool, int]:
        model, (one, other) = served
        exact = source in ("", one) and target in ("", other)
        return not exact, model.bundled, model.name != f"{one}-{other}", len(model.directions)

    found.sort(key=rank)
    exact = [served for served in found if not rank(served)[0]]
    return exact or found


def spelt(language: str, known: Sequence[str]) -> str:
    """A language as a model writes it; "" if it is none of those."""
    return language if language in known else next((one for one in known if alike(language, one)), "")


def listed(models: dict[str, Installed]) -> str:
    if not models:
        return "No model is installed."
    told = [f"{model.name} ({shown(model.directions) or 'no translator'})" for model in models.values()]
    return f"Installed: {', '.join(told)}."


def none_for(models: dict[str, Installed], source: str, target: str) -> str:
    one, other = source or "any language", target or "any language"
    a, b = source or "xx", target or "yy"
    return (
        f"no installed model translates from {one} to {other}. {listed(models)} Name a model directory with --model, "
        f"or train one: headway train --source train.{a} --target train.{b} --out {a}-{b}; then: headway models add {a}-{b}"
    )


NAME = re.compile(r"\w[\w.-]*")
NEEDED = ("config.json", "model.safetensors", "tokenizer.json")


def add(given: str | Path, name: str = "") -> Installed:
    """Copy a model directory, without its checkpoints: it works on when the original is moved, changed or deleted."""
    source = Path(given)
    name = name or source.resolve().name
    if not NAME.fullmatch(name):
        raise ConfigError(f'"{name}" cannot be the name of a model. Use letters, digits, - and _: --name my-model')
    missing = [file for file in NEEDED if not (source / file).is_file()]
    if missing:
        raise HeadwayError(f"{source} is not a complete model directory: it has no {missing[0]}.")
    read = read_outline(source)
    if read is None:
        raise HeadwayError(f"{source / 'config.json'} is not one that this Headway reads. Copy it anew.")
    target = own_folder() / name
    if os.path.lexists(target):
        raise HeadwayError(
            f'there is a model "{name}" already: {target}. Choose another --name, or first: headway models remove {name}'
        )
    _copy(source, target)
    return Installed(name, target, False, read[0])


def _copy(source: Path, target: Path) -> None:
    """All of it or nothing."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        for file in source.iterdir():
            if file.is_file() and not file.name.startswith("."):
                shutil.copyfile(file, partial / file.name)
        partial.rename(target)
    except OSError as error:
        raise HeadwayError(
            f"{target} cannot be written: {error.strerror or error}. Make room, or name another folder in the "
            "environment variable HEADWAY_MODELS."
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove(name: str) -> Path:
    """Delete the copy that `add` made; of a link, the link."""
    found = installed().get(name)
    folder = own_folder() / name
    if found is not None and found.bundled:
        raise HeadwayError(f"{name} belongs to the package, and stays. Your own models lie in {own_folder()}.")
    if not NAME.fullmatch(name) or not os.path.lexists(folder):
        own = {one.name: one for one in installed().values() if not one.bundled}
        raise HeadwayError(f'you have no model "{name}" in {own_folder()}. {listed(own)}')
    if folder.is_symlink():
        folder.unlink()
    elif (folder / "checkpoints").exists():
        raise HeadwayError(f"{folder} holds a training, of which no other copy may exist. Delete it yourself.")
    else:
        shutil.rmtree(folder)
    return folder
