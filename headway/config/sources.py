"""Where settings come from: flag > environment > file > preset > default. The first that gives a value wins.

layers, the lowest first ── compose ──► Config, and the origin of each value
                         └─ find_old_names ──► a note for each old name in a file, flag or variable
"""

import dataclasses
import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headway.config import catalogue
from headway.config.config import Config, flatten, read_config, to_toml
from headway.config.renamed import SLOTS, Note, current_key, current_kind, current_part, current_value
from headway.config.schema import Node, field_type, from_dict, node_class
from headway.config.shorthand import expand
from headway.errors import ConfigError

ENVIRONMENT_PREFIX = "HEADWAY_CONFIG__"


class Layer(NamedTuple):
    """The settings of one source."""

    origin: str  # as --print-config shows it
    values: dict[str, Any]


class Merged(NamedTuple):
    """All layers in one table."""

    tree: dict[str, Any]
    origins: dict[str, str]  # dotted path -> origin of the last layer that set it
    notes: list[str]  # what to write instead of old names


def parse_assignment(text: str) -> dict[str, Any]:
    """'train.seed=3' -> {'train': {'seed': 3}}. The value is a TOML literal, else a string."""
    path, value = split_assignment(text)
    return _nest(path.split("."), value)


def split_assignment(text: str) -> tuple[str, Any]:
    """'train.seed=3' -> 'train.seed', 3"""
    path, sign, value = text.partition("=")
    if not sign or not all(path.strip().split(".")):
        raise ConfigError(f'"{text}" is not an assignment: write section.key=value, as in --set model.d_model=256.')
    return path.strip(), parse_literal(value.strip())


def parse_literal(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, KeyError, RecursionError):  # not TOML, thousands of digits, or lists nested too deeply
        return text


def read_environment(variables: Mapping[str, str] = os.environ) -> list[Layer]:
    """HEADWAY_CONFIG__TRAIN__SEED=3 sets train.seed."""
    found = sorted((name, value) for name, value in variables.items() if name.startswith(ENVIRONMENT_PREFIX))
    paths = [(name, name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__"), value) for name, value in found]
    return [Layer(f"environment {name}", _nest(names, parse_literal(value))) for name, names, value in paths]


def compose(layers: Sequence[Layer]) -> tuple[Config, dict[str, str]]:
    """The config of all layers, of which the later ones win, and for each of its values the layer that gave it."""
    tree, origins, _ = merge_layers(layers)
    given = from_dict(Config, tree)
    derived = _derive_cross(given, layers, tree)
    config, known = read_config(tree), dict(flatten(given.to_dict()))
    return config, {
        path: _find_origin(path, origins, "default" if path in known else derived.get(path, "derived"))
        for path, _ in flatten(config.to_dict())
    }


def _derive_cross(given: Config, layers: Sequence[Layer], tree: dict[str, Any]) -> dict[str, str]:
    """The origin of cross-attention that no layer gives. Where no mixer has heads, it takes those of the last one that
    was replaced, such as the preset's."""
    derived = given.model.derived_cross
    if derived is None:
        return {}
    path = "model.decoder.cross"
    if derived.origin:
        return {path: f"derived from model.{derived.origin}"}
    for count in range(len(layers) - 1, 0, -1):
        earlier = merge_layers(layers[:count])
        replaced = from_dict(Config, earlier.tree).model.derived_cross
        if replaced is not None and replaced.origin:
            tree["model"]["decoder"]["cross"] = replaced.parts[0].to_dict()
            mixer = f"model.{replaced.origin}"
            return {path: f"derived from {mixer} of {_find_origin(mixer, earlier.origins, 'the defaults')}"}
    return {path: derived.description}


def find_old_names(layers: Sequence[Layer]) -> list[str]:
    """For each old name in these layers, a line that says what to write instead."""
    return merge_layers(layers).notes


def format_config(config: Config, origins: dict[str, str]) -> str:
    """What --print-config shows: valid TOML, each line with where its value comes from."""
    return to_toml(config.to_dict(), origins)


def merge_layers(layers: Sequence[Layer]) -> Merged:
    merged = Merged({}, {}, [])
    for layer in layers:
        try:
            _merge(merged, merged.tree, layer.values, (), layer.origin)
        except RecursionError:
            raise ConfigError(f"{layer.origin}: sections are nested too deeply.") from None
    return merged


def _find_origin(path: str, origins: dict[str, str], default: str) -> str:
    """The layer that set this value or the part it belongs to, then those that changed a field of it."""
    names = path.split(".")
    prefixes = [".".join(names[:length]) for length in range(len(names), 0, -1)]
    first = next((origins[prefix] for prefix in prefixes if prefix in origins), default)
    fields = [origin for known, origin in origins.items() if known.startswith(f"{path}.")]
    return ", ".join(dict.fromkeys([first, *fields]))


def _nest(names: list[str], value: Any) -> dict[str, Any]:
    for name in reversed(names):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def _merge(merged: Merged, tree: dict[str, Any], values: dict[str, Any], path: tuple[str, ...], origin: str) -> None:
    """Setting a part replaces it; setting a field of it expands its shorthand first. Old names become new ones."""
    address = _address(path, tree)
    for given, value in values.items():
        note = _noting(merged.notes, origin, path)
        name = current_key(address, given, note) if isinstance(given, str) else given
        if name != given and name in values:
            raise ConfigError(
                f"{given} is the old name of {name}, and both are given. Give {name} only.", _dotted(path, name)
            )
        here = (*path, name)
        if isinstance(value, dict) and "kind" not in value:
            tree[name] = _fields_of(tree.get(name), here)
            _merge(merged, tree[name], value, here, origin)
        else:
            value = current_value(address, name, value, note)
            tree[name] = _current_part(here, value, _noting(merged.notes, origin, here))
            dotted = ".".join(map(str, here))
            for older in [known for known in merged.origins if known.startswith(f"{dotted}.")]:
                del merged.origins[older]
            merged.origins[dotted] = origin


def _address(path: tuple[str, ...], tree: dict[str, Any]) -> str:
    """Where headway.config.renamed knows this table: by the kind of a part, or by its path."""
    if not isinstance(tree.get("kind"), str):
        return ".".join(map(str, path))
    slot = SLOTS.get(path[-1], path[-1]) if path else ""
    return f"{slot}.{current_kind(slot, tree['kind'])}"


def _noting(notes: list[str], origin: str, path: tuple[str, ...]) -> Note:
    def note(old: str, new: str) -> None:
        if old.startswith('"'):  # a kind
            notes.append(f"{origin}: {_dotted(path)}: write {new} instead of {old}.")
        else:
            notes.append(f"{origin}: write {_dotted(path, new)} instead of {_dotted(path, old)}.")

    return note


def _dotted(path: tuple[str, ...], name: str = "") -> str:
    return ".".join(map(str, (*path, name) if name else path))


def _current_part(path: tuple[str, ...], value: Any, note: Note) -> Any:
    """A value with new names, if it is a part with old ones; any other as it is."""
    slot = SLOTS.get(path[-1], path[-1])
    if slot not in catalogue.slots():
        return value
    if isinstance(value, list):
        return [_current_part(path, entry, note) for entry in value]
    renamed: list[tuple[str, str]] = []
    try:
        current = _read_part(slot, value, lambda old, new: renamed.append((old, new)))
    except (ConfigError, RecursionError):  # read_config says what is wrong, and where
        return value
    for old, new in renamed:
        note(old, new)
    return current if renamed else value


def _read_part(slot: str, value: Any, note: Note) -> Any:
    return expand(slot, value, note) if isinstance(value, str) else current_part(slot, value, note)


def _fields_of(existing: Any, path: tuple[str, ...]) -> dict[str, Any]:
    """The value at this path as a table that can be changed."""
    if isinstance(existing, list) and len(existing) == 1:
        existing = existing[0]  # one part for all layers
    if isinstance(existing, list):
        raise ConfigError(
            "this is a list with an entry for each layer, so a single field cannot be set. Set the whole list.",
            ".".join(path),
        )
    if isinstance(existing, str):
        try:
            return expand(_slot_at(path), existing)
        except ConfigError as error:
            raise ConfigError(error.message, ".".join(path)) from None
    return dict(existing) if isinstance(existing, dict) else {}


def _slot_at(path: tuple[str, ...]) -> str:
    """The slot at a path of the config."""
    cls: type[Node] = Config
    for name in path:
        specs = {spec.name: spec for spec in dataclasses.fields(cls)}
        if name not in specs:
            break
        rules = specs[name].metadata
        if "slot" in rules:
            return str(rules["slot"])
        inner = node_class(rules["tree"]) if "tree" in rules else field_type(cls, name)  # type: ignore[arg-type]
        if not (isinstance(inner, type) and issubclass(inner, Node)):
            break
        cls = inner
    raise ConfigError("this is a single value, which has no fields to set.")
