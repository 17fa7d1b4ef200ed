"""Where settings come from: flag, environment, file, preset, default, the first that speaks winning."""

import dataclasses
import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headway.config.config import Config, from_table, leaves, to_toml
from headway.config.schema import Node, expand, from_dict, hint_of, tree_class
from headway.errors import ConfigError

PREFIX = "HEADWAY_CONFIG__"


class Layer(NamedTuple):
    origin: str  # as --print-config names it
    values: dict[str, Any]


def assignment(text: str) -> dict[str, Any]:
    """'train.seed=3' -> {'train': {'seed': 3}}. The value is a TOML literal, else a string."""
    path, sign, value = text.partition("=")
    names = path.strip().split(".")
    if not sign or not all(names):
        raise ConfigError(f'"{text}" sets nothing. Write --set section.key=value, as in --set model.d_model=256.')
    return _nested(names, literal(value.strip()))


def literal(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, KeyError, RecursionError):  # no TOML, thousands of digits, lists in lists without end
        return text


def environment(variables: Mapping[str, str] = os.environ) -> list[Layer]:
    """HEADWAY_CONFIG__TRAIN__SEED=3 sets train.seed."""
    found = sorted((name, value) for name, value in variables.items() if name.startswith(PREFIX))
    paths = [(name, name.removeprefix(PREFIX).lower().split("__"), value) for name, value in found]
    return [Layer(f"environment {name}", _nested(names, literal(value))) for name, names, value in paths]


def compose(layers: Sequence[Layer]) -> tuple[Config, dict[str, str]]:
    """The config of all layers, the later winning, and for each of its values the layer that gave it."""
    tree: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        try:
            _merge(tree, layer.values, (), layer.origin, origins)
        except RecursionError:
            raise ConfigError(
                f"{layer.origin}: its sections stand in sections without end. Write them flatter."
            ) from None
    config = from_table(tree)
    given = dict(leaves(from_dict(Config, tree).to_dict()))
    return config, {
        path: _origin(path, origins, "default" if path in given else "derived") for path, _ in leaves(config.to_dict())
    }


def described(config: Config, origins: dict[str, str]) -> str:
    """What --print-config shows: valid TOML, each line with where its value comes from."""
    return to_toml(config.to_dict(), origins)


def _origin(path: str, origins: dict[str, str], default: str) -> str:
    """Who gave this value: itself or the part it belongs to, and then each field of it that somebody changed."""
    names = path.split(".")
    prefixes = [".".join(names[:length]) for length in range(len(names), 0, -1)]
    whole = next((origins[prefix] for prefix in prefixes if prefix in origins), default)
    fields = [origin for known, origin in origins.items() if known.startswith(f"{path}.")]
    return ", ".join(dict.fromkeys([whole, *fields]))


def _nested(names: list[str], value: Any) -> dict[str, Any]:
    for name in reversed(names):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def _merge(
    tree: dict[str, Any], values: dict[str, Any], path: tuple[str, ...], origin: str, origins: dict[str, str]
) -> None:
    """Setting a part replaces it; setting a field of it expands its shorthand first."""
    for name, value in values.items():
        here = (*path, name)
        dotted = ".".join(here)
        if isinstance(value, dict) and "kind" not in value:
            tree[name] = _fields_of(tree.get(name), here)
            _merge(tree[name], value, here, origin, origins)
        else:
            tree[name] = value
            for older in [known for known in origins if known.startswith(f"{dotted}.")]:
                del origins[older]
            origins[dotted] = origin


def _fields_of(existing: Any, path: tuple[str, ...]) -> dict[str, Any]:
    """What stands here, as a table that can be changed."""
    if isinstance(existing, list) and len(existing) == 1:
        existing = existing[0]  # one part for all layers
    if isinstance(existing, list):
        raise ConfigError(
            "a list stands here, one entry for each layer, so a single field cannot be set. Set the whole.",
            ".".join(path),
        )
    if isinstance(existing, str):
        try:
            return expand(_slot_at(path), existing)
        except ConfigError as error:
            raise ConfigError(error.message, ".".join(path)) from None
    return dict(existing) if isinstance(existing, dict) else {}


def _slot_at(path: tuple[str, ...]) -> str:
    """The slot that a path of the config names."""
    cls: type[Node] = Config
    for name in path:
        specs = {spec.name: spec for spec in dataclasses.fields(cls)}
        if name not in specs:
            break
        rules = specs[name].metadata
        if "slot" in rules:
            return str(rules["slot"])
        inner = tree_class(rules["tree"]) if "tree" in rules else hint_of(cls, name)  # type: ignore[arg-type]
        if not (isinstance(inner, type) and issubclass(inner, Node)):
            break
        cls = inner
    raise ConfigError("a single value stands here, and it has no fields to set.")
