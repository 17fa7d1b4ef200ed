"""Kinds of one's own: classes of other packages that fill a slot of the config beside those of the catalogue.

    mixer = "my_package.module:MyMixer(heads=4)"    named in a config, a flag or Python: imported when it is read
    mixer = "my_mixer(heads=4)"                     an entry point of an installed package, in the group headway.kinds

The config.json of a model directory chooses no code: there a module is imported only if an installed package declares
it as a kind, or if the user has allowed its package: `--allow-code`, HEADWAY_ALLOW_CODE, `load(…, allow_code=…)`, or
a config of their own that names it. What has been allowed stays allowed for the process, in which the code now runs.

    find_kind(slot, kind) -> Entry      import_owner(slot, kind) -> the class      reading_stored(…): a model directory
"""

import contextlib
import dataclasses
import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from headway.config import catalogue
from headway.config.catalogue import Entry
from headway.errors import ConfigError, HeadwayError

GROUP = "headway.kinds"  # of entry points
ALLOW_VARIABLE = "HEADWAY_ALLOW_CODE"
TARGET = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*)*:[A-Za-z]\w*", re.ASCII)  # package.module:Class, nothing private
PACKAGE = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*)*", re.ASCII)
DISTRIBUTION = re.compile(r"[A-Za-z0-9][\w.-]*(?: [\w.+!-]+)?", re.ASCII)  # name, version
MAX_NAME_CHARACTERS = 200
# What the Config of each slot has, by which a class is known; the most particular first.
SLOT_MEMBERS = {
    "mask": ("mask",),
    "memory_tokens": ("sequence_lengths", "spread"),
    "position": ("applies_to",),
    "norm": ("streams_only", "parameters"),
    "residual": ("build", "parameters", "gain"),
    "mixer": ("bounded", "cost", "check"),
    "schedule": ("rate",),
    "head": ("build", "cost"),
    "optimiser": ("build",),
    "linear": ("parameters",),
    "feedforward": ("resolved", "cost"),
}
CONSTANTS = ("applies_to", "streams_only")  # members that are no methods


class InstalledKind(NamedTuple):
    """An entry point of the group headway.kinds."""

    name: str
    target: str  # "module:Class"
    distribution: str  # name and version


# While a config.json is read: kind -> distribution, as written when the model was saved.
_STORED: ContextVar[Mapping[str, str] | None] = ContextVar("stored", default=None)
_allowed: set[str] = set()


def is_target(kind: str) -> bool:
    """Whether this is written as module:Class, well or badly."""
    return ":" in kind


def find_kind(slot: str, kind: str) -> Entry:
    """The entry of a kind: of the catalogue, named as module:Class, or of an installed package."""
    if not is_target(kind):
        if kind in catalogue.kinds(slot):
            return catalogue.find_entry(slot, kind)
        _refuse_ambiguous(kind)
        found = installed_kinds().get(kind)
        if found is None or slot not in SLOT_MEMBERS:
            raise _unknown_kind(slot, kind)
        return Entry(slot, kind, found.target, f"of {found.distribution}")
    if slot not in SLOT_MEMBERS:
        raise ConfigError(
            f"{slot} takes no class of another package. Choose one of: {', '.join(catalogue.kinds(slot))}."
        )
    _check_target(kind)
    return Entry(slot, kind, kind, "")


def _refuse_ambiguous(kind: str) -> None:
    several = _declared_kinds().get(kind, [])
    if len(several) > 1:
        owners, targets = ([getattr(one, name) for one in several] for name in ("distribution", "target"))
        raise ConfigError(
            f'several packages have a kind "{kind}": {", ".join(owners)}. Uninstall all but one, or write '
            f"{' or '.join(targets)}."
        )


def _unknown_kind(slot: str, kind: str) -> ConfigError:
    stored = _STORED.get()
    if stored and kind in stored:
        return ConfigError(
            f'"{kind}" is a {slot} of the package {stored[kind]}, which is not installed here. Install it if you '
            f"trust it: pip install {stored[kind].split()[0]}"
        )
    try:
        catalogue.find_entry(slot, kind)
    except ConfigError as error:
        others = sorted(installed_kinds())
        more = f" Of installed packages: {', '.join(others)}." if others and slot in SLOT_MEMBERS else ""
        return ConfigError(f"{error.message}{more}")
    raise AssertionError("it is in the catalogue")


def _check_target(target: str) -> None:
    """Refuse what is not a public class of a package, before anything is imported."""
    if len(target) > MAX_NAME_CHARACTERS or not TARGET.fullmatch(target):
        shown = target if len(target) <= MAX_NAME_CHARACTERS else f"{target[:MAX_NAME_CHARACTERS]}…"
        raise ConfigError(
            f'"{shown}" does not name a class. Write package.module:Class: ASCII names of at most '
            f'{MAX_NAME_CHARACTERS} characters, none of which begins with "_" or a dot.'
        )
    package = target.partition(":")[0].partition(".")[0]
    if package == "headway":
        known = [entry.kind for entry in catalogue.CATALOGUE if entry.target == target]
        hint = f' Write "{known[0]}".' if known else " See: headway variants"
        raise ConfigError(f'"{target}" is in Headway itself, whose kinds are written by their names.{hint}')
    if package in sys.stdlib_module_names:
        raise ConfigError(f'"{target}" is in Python\'s standard library, which has no kinds of Headway.')


def import_owner(slot: str, kind: str) -> Any:
    """The class of a kind. One that is not Headway's is checked: it must fit the slot."""
    entry = find_kind(slot, kind)
    if kind in catalogue.kinds(slot):
        return import_target(entry.target)
    owner = import_own(kind, entry.target)
    fitting = guess_slot(owner)
    if fitting != slot:
        wanted = ", ".join(SLOT_MEMBERS.get(slot, ()))
        found = f"It is a {fitting}." if fitting else f"The Config of a {slot} has: {wanted}."
        raise ConfigError(f'"{kind}" is not a {slot}. {found} See docs/own-kinds.md.')
    return owner


def import_own(kind: str, target: str) -> Any:
    """A class of another package, if it may be imported, and is a kind at all."""
    _check_target(target)
    module, _, name = target.partition(":")
    declared = any(found.target == target for found in installed_kinds().values())
    stored = _STORED.get()
    if stored is not None and not declared and not is_allowed(module):
        package = module.partition(".")[0]
        raise ConfigError(
            f'"{target}" is code of the package {package}, which is not part of Headway. A model directory may name '
            f"it, but only you can allow it to run: --allow-code {package}, {ALLOW_VARIABLE}={package}, or in Python "
            f'headway.load(…, allow_code=["{package}"]).'
        )
    owner = _import_named(kind, module, name)
    config = getattr(owner, "Config", None)
    if not (isinstance(owner, type) and isinstance(config, type) and dataclasses.is_dataclass(config)):
        raise ConfigError(
            f'"{target}" is not a kind: a kind is a class with a nested dataclass Config. See docs/own-kinds.md.'
        )
    if stored is None and not declared:
        _allowed.add(module.partition(".")[0])
    return owner


def _import_named(kind: str, module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ConfigError(f'"{kind}": the module {module} has no {name}.') from None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ConfigError(f'"{kind}" cannot be imported: {error}. Install what it needs.') from None
        known = (_STORED.get() or {}).get(kind, "")
        package = known.split()[0] if known else module.partition(".")[0]
        raise ConfigError(
            f'"{kind}": there is no module {error.name} here. Install the package: pip install {package}'
            f"{f' (the model was saved with {known})' if known else ''}; one that is not installed is found if its "
            "folder is in PYTHONPATH."
        ) from None
    except (Exception, SystemExit) as error:  # whatever the module does when it is imported
        raise ConfigError(f'"{kind}" cannot be imported: {type(error).__name__}: {error}') from error


def import_target(target: str) -> Any:
    """The object behind "module:Class" of Headway."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def guess_slot(owner: Any) -> str:
    """The slot that a class fits, by what its Config has; "" if none. A Config may say it: slot = "mixer"."""
    config = owner.Config
    said = getattr(config, "slot", None)
    if isinstance(said, str) and said in SLOT_MEMBERS:
        return said
    for slot, members in SLOT_MEMBERS.items():
        if all(hasattr(config, name) and (name in CONSTANTS or callable(getattr(config, name))) for name in members):
            return slot
    return ""


def name_of_owner(owner: Any) -> str:
    """How the class of a Python object is named in a config: its entry point, or module:Class."""
    target = f"{owner.__module__}:{owner.__qualname__}"
    names = [found.name for found in installed_kinds().values() if found.target == target]
    if names:
        return names[0]
    if not TARGET.fullmatch(target):  # __main__, or a class inside a function
        raise ConfigError(
            f"{owner.__qualname__} is defined in {owner.__module__}, where nothing else can find it. Move it to the "
            "top of a module that can be imported."
        )
    _allowed.add(target.partition(":")[0].partition(".")[0])  # it runs here already
    return target


def installed_kinds() -> dict[str, InstalledKind]:
    """The entry points of installed packages, by name; without names that several packages have."""
    return {name: several[0] for name, several in _declared_kinds().items() if len(several) == 1}


def _declared_kinds() -> dict[str, list[InstalledKind]]:
    """The current directory is no installation: whatever was downloaded may lie there."""
    here = os.getcwd()
    return _find_declared(tuple(path for path in sys.path if path and os.path.abspath(path) != here))


@functools.lru_cache(maxsize=8)
def _find_declared(paths: tuple[str, ...]) -> dict[str, list[InstalledKind]]:
    from importlib.metadata import distributions  # takes 20 ms, which translating has no use for

    found: dict[str, list[InstalledKind]] = {}
    seen: set[str] = set()
    for distribution in distributions(path=list(paths)):
        name = distribution.metadata["Name"] or ""
        if name in seen:
            continue  # an earlier folder of the path hides it
        seen.add(name)
        for point in distribution.entry_points:
            if point.group == GROUP and TARGET.fullmatch(point.value) and point.name.isidentifier():
                several = found.setdefault(point.name, [])
                if all(one.target != point.value for one in several):
                    several.append(InstalledKind(point.name, point.value, f"{name} {distribution.version}"))
    return found


def list_installed() -> tuple[list[Entry], list[str]]:
    """The kinds of installed packages as entries, for people; and those that cannot be used, each with the reason. Each
    is imported, for its slot and its first line."""
    found, problems = [], []
    for name in _declared_kinds():
        try:
            _refuse_ambiguous(name)
        except ConfigError as error:
            problems.append(error.message)
    for kind in installed_kinds().values():
        try:
            owner = import_own(kind.name, kind.target)
            slot = guess_slot(owner)
            if not slot:
                raise ConfigError(f'"{kind.target}" fits no slot: see docs/own-kinds.md.')
            if kind.name in catalogue.kinds(slot):
                raise ConfigError(f'"{kind.name}" is a {slot} of Headway already. Write "{kind.target}".')
        except ConfigError as error:
            problems.append(f"{kind.distribution}: {error.message}")
            continue
        line = (inspect.getdoc(owner) or "").split("\n")[0].rstrip(".")
        found.append(Entry(slot, kind.name, kind.target, line, "", kind.distribution))
    return found, problems


def distribution_of(part: Any) -> str:
    """Name and version of the package that a part's kind is of; "" if it is not installed as one."""
    if part.kind in installed_kinds():
        return installed_kinds()[part.kind].distribution
    from importlib.metadata import packages_distributions, version

    module = part.kind.partition(":")[0] if is_target(part.kind) else type(part).__module__
    package = module.partition(".")[0]
    names = packages_distributions().get(package, [])
    return f"{names[0]} {version(names[0])}" if names else ""


def allow_code(packages: Iterable[str] | str) -> None:
    """Let model directories name classes of these packages from now on, in this process."""
    for name in [packages] if isinstance(packages, str) else packages:
        if len(name) > MAX_NAME_CHARACTERS or not PACKAGE.fullmatch(name):
            raise HeadwayError(f'"{name[:MAX_NAME_CHARACTERS]}" is not the name of a package, such as my_package.')
        _allowed.add(name)


def allowed_packages() -> list[str]:
    """Those of `allow_code`, and of HEADWAY_ALLOW_CODE, separated by commas."""
    variable = os.environ.get(ALLOW_VARIABLE, "")
    return sorted(_allowed | {name.strip() for name in variable.split(",") if name.strip()})


def is_allowed(module: str) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in allowed_packages())


@contextlib.contextmanager
def reading_stored(packages: Any = None) -> Iterator[None]:
    """While this lasts, kinds come from a file that may be anybody's. `packages`: kind -> distribution, as it says."""
    known = packages.items() if isinstance(packages, dict) else ()
    named = {
        kind: name
        for kind, name in known
        if isinstance(name, str) and len(name) <= MAX_NAME_CHARACTERS and DISTRIBUTION.fullmatch(name)
    }
    token = _STORED.set(named)
    try:
        yield
    finally:
        _STORED.reset(token)
