"""The schema of a config: how the tree of settings is declared, read and checked.

A Node is a frozen dataclass; a Part is a Node that fills a slot and so has a kind. Both check themselves when
they are made, whichever way: from Python, from a file, from a flag. A part may be written in three ways:

    "causal"    "local(256)"    {kind = "local", window = 256}        and masks also:    "causal & local(256)"

From top to bottom: nodes and their fields; tables into nodes (strings: headway.config.shorthand); the types of single
values.
"""

import dataclasses
import functools
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Union

from headway.config import catalogue
from headway.config.own_kinds import import_owner, import_target, is_target, name_of_owner
from headway.config.renamed import RENAMED_KEYS, current_keys, current_kind
from headway.config.shorthand import expand
from headway.errors import ConfigError, did_you_mean

N = TypeVar("N", bound="Node")
MAX_NESTING = 60  # parts in parts, or brackets in brackets
MAX_INT = 2**63 - 1  # what an int64 tensor holds
MAX_QUOTED_CHARACTERS = 100  # of a value, in an error message


@dataclass(frozen=True, kw_only=True)
class Node:
    """A section of the config. Derived values may be None until `resolved`; off is written "none"."""

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            try:
                object.__setattr__(self, spec.name, _check_field(type(self), spec, getattr(self, spec.name)))
            except ConfigError as error:
                raise error.inside(spec.name) from None

    def to_dict(self) -> dict[str, Any]:
        """Plain tables, lists and values; what is not known yet is left out."""
        values = {spec.name: _to_plain(getattr(self, spec.name)) for spec in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Part(Node):
    """What a slot holds. Subclasses set `kind` and are called Config, nested in the class that they configure."""

    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class ObjectPart(Part):
    """A part given as a Python object, whose method `as_part` makes this. It works as any other; it cannot be saved."""

    slot: typing.ClassVar[str] = ""
    kind: str = "object"
    value: Any = None

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "value": str(getattr(self.value, "name", quote(self.value)))}


def slot(name: str, default: str | None, *, per_layer: bool = False) -> Any:
    """A field that holds a part of this slot; with per_layer, a list of them that is tiled over the layers."""
    return field(default=default, metadata={"slot": name, "per_layer": per_layer})


def slots(name: str) -> Any:
    """A field that holds any number of parts of this slot."""
    return field(default=(), metadata={"slot": name, "per_layer": True})


def number(default: Any, *, low: float | None = None, high: float | None = None) -> Any:
    """A field that holds a number from low to high, inclusive."""
    return field(default=default, metadata={"low": low, "high": high})


def subtree(target: str) -> Any:
    """A field that holds the Node "module:Class", or the Config of that class; imported when it is first needed."""
    return field(default_factory=dict, metadata={"tree": target})


def from_dict(cls: type[N], table: Any, address: str = "") -> N:
    """Build a node from plain values. Unknown keys are refused; `address` is where old ones are looked up."""
    if not isinstance(table, dict):
        raise ConfigError(f"{quote(table)} is not a table. Write its fields as key = value.")
    table = current_keys(address, table)
    names = [spec.name for spec in dataclasses.fields(cls)]
    for name in table:
        if name not in names:
            hint = did_you_mean(str(name), names) or _mean_renamed(str(name), address)
            raise ConfigError(f'there is no setting "{name}" here.{hint} Known: {", ".join(names)}.')
    return cls(**table)


def _mean_renamed(name: str, address: str) -> str:
    """A hint for a misspelt old name: the new one."""
    renamed = RENAMED_KEYS.get(address, {})
    for old, new in renamed.items():
        if did_you_mean(name, [old]):
            return f' Did you mean "{new}"?'
    return ""


def node_class(target: str) -> type[Node]:
    owner = import_target(target)
    return typing.cast(type[Node], owner if issubclass(owner, Node) else owner.Config)


def config_class(slot_name: str, kind: str) -> type[Part]:
    config = import_owner(slot_name, kind).Config
    if not issubclass(config, Part):
        raise ConfigError(f'"{kind}" is not a kind: its Config must derive from headway.config.schema.Part.')
    return typing.cast(type[Part], config)


def make_part(slot_name: str, value: Any, default: str | None = None) -> Part:
    """A part from any of the ways to write it. A table without `kind` takes the default's."""
    if _is_too_deep(value):  # Python's own limit depends on the depth of the caller
        raise ConfigError(f"parts are nested too deeply: at most {MAX_NESTING} levels are allowed.")
    return _make_part(slot_name, value, default)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    depth = 0
    while level and depth <= MAX_NESTING:
        below: list[Any] = []
        for entry in level:
            if isinstance(entry, dict | list | tuple):
                below += entry.values() if isinstance(entry, dict) else entry
            elif isinstance(entry, str) and entry.count("(") > MAX_NESTING and _max_open_brackets(entry) > MAX_NESTING:
                return True
        level = below
        depth += 1
    return depth > MAX_NESTING


def _max_open_brackets(text: str) -> int:
    maximum = depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        maximum = max(maximum, depth)
    return maximum


def _make_part(slot_name: str, value: Any, default: str | None) -> Part:
    if isinstance(value, Part) or callable(getattr(value, "as_part", None)):
        value = value if isinstance(value, Part) else value.as_part()
        if isinstance(value, ObjectPart) and value.slot == slot_name:
            return value
        value = _with_own_name(slot_name, value)
        if not isinstance(value, config_class(slot_name, value.kind)):
            raise ConfigError(f'{quote(value)} is not the config of the {slot_name} "{value.kind}".')
        return value
    if isinstance(value, str):
        value = expand(slot_name, value)
    if not isinstance(value, dict):
        raise ConfigError(
            f'{quote(value)} is not a {slot_name}. Write a kind such as "{catalogue.kinds(slot_name)[0]}", or a table '
            "with kind = …"
        )
    if "kind" not in value:
        if default is None:
            raise ConfigError(f"this table has no kind. Choose one of: {', '.join(catalogue.kinds(slot_name))}.")
        value = {**expand(slot_name, default), **value}
    if not isinstance(value["kind"], str):
        raise ConfigError(f'kind must be a name such as "{catalogue.kinds(slot_name)[0]}", not {quote(value["kind"])}.')
    kind = current_kind(slot_name, value["kind"])
    return from_dict(config_class(slot_name, kind), {**value, "kind": kind}, f"{slot_name}.{kind}")


def _with_own_name(slot_name: str, part: Part) -> Part:
    """The config of a class of another package, under the name by which config.json finds it."""
    if type(part).__module__.startswith("headway.") or part.kind in catalogue.kinds(slot_name):
        return part
    owner = getattr(sys.modules[type(part).__module__], type(part).__qualname__.removesuffix(".Config"), None)
    if owner is not None and getattr(owner, "Config", None) is type(part):
        kind = name_of_owner(owner)
        return part if kind == part.kind else dataclasses.replace(part, kind=kind)
    return part


def find_own_parts(node: Node) -> list[Part]:
    """The parts whose class is of another package."""
    values = [getattr(node, spec.name) for spec in dataclasses.fields(node)]
    entries = [entry for value in values for entry in (value if isinstance(value, tuple) else (value,))]
    inner = [entry for entry in entries if isinstance(entry, Node)]
    own = [
        part
        for part in inner
        if isinstance(part, Part) and (is_target(part.kind) or not type(part).__module__.startswith("headway."))
    ]
    return own + [part for entry in inner for part in find_own_parts(entry)]


def find_object_parts(node: Node) -> list[str]:
    """The dotted paths of parts that were given as Python objects."""
    found: list[str] = []
    for spec in dataclasses.fields(node):
        value = getattr(node, spec.name)
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, ObjectPart):
                found.append(spec.name)
            elif isinstance(entry, Node):
                found += [f"{spec.name}.{path}" for path in find_object_parts(entry)]
    return found


def tile_over_layers(parts: tuple[Part, ...], layers: int) -> list[Part]:
    """One part for each layer: the list repeated until it fills them."""
    if layers % len(parts):
        raise ConfigError(
            f"this list has {len(parts)} entries, which do not divide {layers} layers. Give one entry for all layers, "
            "or a number of entries that divides them."
        )
    return [parts[index % len(parts)] for index in range(layers)]


def _check_field(owner: type[Node], spec: "dataclasses.Field[Any]", value: Any) -> Any:
    rules = spec.metadata
    if "tree" in rules:
        config = node_class(rules["tree"])
        return value if isinstance(value, config) else from_dict(config, value, spec.name)
    if "slot" in rules:
        default = spec.default if isinstance(spec.default, str) else None
        if value is None and spec.default is None:
            return None
        if not rules["per_layer"]:
            return make_part(rules["slot"], value, default)
        entries = value if isinstance(value, list | tuple) else (value,)
        if not entries:
            raise ConfigError("the list is empty: give at least one entry.")
        return tuple(make_part(rules["slot"], entry, default) for entry in entries)
    value = check_type(field_type(owner, spec.name), value, from_dict)  # type: ignore[arg-type]  # mypy takes no class for hashable
    low = rules.get("low")
    high = rules.get("high")
    if value is not None and ((low is not None and value < low) or (high is not None and value > high)):
        bounds = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
        raise ConfigError(f"{quote(value)} is out of range: it must be {' and '.join(bounds)}.")
    return value


@functools.cache  # without a cache, half of the time of reading a config
def field_type(owner: type[Node], name: str) -> Any:
    """The type of one field. Others of the class may name types that are imported for type checking only."""
    for cls in owner.__mro__:
        if name in inspect.get_annotations(cls):
            hint = inspect.get_annotations(cls)[name]
            scope = {**vars(importlib.import_module(cls.__module__)), **vars(typing)}
            return eval(hint, scope) if isinstance(hint, str) else hint
    raise AssertionError(f"{owner} has no field {name}")


def _to_plain(value: Any) -> Any:
    if isinstance(value, Node):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_to_plain(entry) for entry in value]
    return value


def check_type(hint: Any, value: Any, build: Callable[[Any, Any], Any]) -> Any:
    """The value, if it is of this type; lists become tuples, and integers may stand for floats.

    `build(hint, table)` makes a config dataclass from a table.
    """
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        rest = [option for option in arguments if option is not type(None)]
        if len(rest) == 1:
            return check_type(rest[0], value, build)
        for option in rest:
            try:
                return check_type(option, value, build)
            except ConfigError:
                continue
    elif origin is Literal:
        if any(value == option and type(value) is type(option) for option in arguments):
            return value
        allowed = [str(option) for option in arguments]
        hint_text = did_you_mean(value, allowed) if isinstance(value, str) else ""
        raise ConfigError(f"{quote(value)} is not allowed here.{hint_text} Choose one of: {', '.join(allowed)}.")
    elif origin is tuple:
        if isinstance(value, list | tuple):
            return tuple(check_type(arguments[0], entry, build) for entry in value)
    elif dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else build(hint, value)  # type: ignore[arg-type]
    elif hint is float and type(value) in (int, float):
        if not -sys.float_info.max <= value <= sys.float_info.max:
            raise ConfigError(f"{quote(value)} is not allowed: give a finite number.")
        return float(value)
    elif type(value) is hint:
        if hint is int and not -MAX_INT <= value <= MAX_INT:
            raise ConfigError(f"{quote(value)} is out of range: an integer must fit 64 bits.")
        return value
    raise ConfigError(f"must be {_describe_type(hint)}, not {quote(value)} ({_describe_type(type(value))}).")


_TYPE_NAMES: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    list: "a list",
    tuple: "a list",
    dict: "a table",
    type(None): "no value",
}


def _describe_type(hint: Any) -> str:
    if typing.get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_describe_type(option) for option in typing.get_args(hint) if option is not type(None))
    return _TYPE_NAMES.get(typing.get_origin(hint) or hint, f"a {getattr(hint, '__name__', hint)}")


def quote(value: Any) -> str:
    """The value as an error message quotes it: shortened, and never an exception."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python refuses to print an integer of thousands of digits
        return f"this {type(value).__name__}"
    return text if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[:MAX_QUOTED_CHARACTERS]}…"
