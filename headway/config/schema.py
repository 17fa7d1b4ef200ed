"""How a config tree is written, read and checked.

A Node is a frozen dataclass; a Part is a Node that fills a slot and so has a kind. Both check themselves when
they are made, whichever way: from Python, from a file, from a flag. A part may be written in three ways:

    "causal"    "local(256)"    {kind = "local", window = 256}        and masks also:    "causal & local(256)"


Plain values in a config: whether they are of the type they should be, and how to say so."""

import ast
import dataclasses
import functools
import importlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Union

from headway.config import catalogue
from headway.errors import ConfigError, did_you_mean

N = TypeVar("N", bound="Node")
DEEPEST = 60  # parts in parts, or brackets in brackets


@dataclass(frozen=True, kw_only=True)
class Node:
    """A place in the config tree. Derived values may be None until `resolved`; off is written "none"."""

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            try:
                object.__setattr__(self, spec.name, _normalised(type(self), spec, getattr(self, spec.name)))
            except ConfigError as error:
                raise error.inside(spec.name) from None

    def to_dict(self) -> dict[str, Any]:
        """Plain tables, lists and values; what is not known yet is left out."""
        values = {spec.name: _plain(getattr(self, spec.name)) for spec in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Part(Node):
    """A value that can stand in a slot. Subclasses set `kind` and are called Config, inside what they build."""

    kind: str = ""


def slot(name: str, default: str | None, *, per_layer: bool = False) -> Any:
    """A field that holds a part of this slot; with per_layer, a list of them that is tiled over the layers."""
    return field(default=default, metadata={"slot": name, "per_layer": per_layer})


def slots(name: str) -> Any:
    """A field that holds any number of parts of this slot."""
    return field(default=(), metadata={"slot": name, "per_layer": True})


def number(default: Any, *, low: float | None = None, high: float | None = None) -> Any:
    """A field whose number lies between low and high, both allowed."""
    return field(default=default, metadata={"low": low, "high": high})


def subtree(target: str) -> Any:
    """A field that holds the Node "module:Class", or the Config of that class; imported when it is first needed."""
    return field(default_factory=dict, metadata={"tree": target})


def from_dict(cls: type[N], table: Any) -> N:
    """Build a node from plain values, refusing what it does not know."""
    if not isinstance(table, dict):
        raise ConfigError(f"{shown(table)} is not a table. Write its fields as key = value.")
    names = [spec.name for spec in dataclasses.fields(cls)]
    for name in table:
        if name not in names:
            raise ConfigError(
                f'there is no setting "{name}" here.{did_you_mean(str(name), names)} Known: {", ".join(names)}.'
            )
    return cls(**table)


def target_of(spec: str) -> Any:
    """The object behind "module:Class"."""
    module, _, name = spec.partition(":")
    return getattr(importlib.import_module(module), name)


def tree_class(target: str) -> type[Node]:
    owner = target_of(target)
    return typing.cast(type[Node], owner if issubclass(owner, Node) else owner.Config)


def config_class(slot_name: str, kind: str) -> type[Part]:
    owner = target_of(catalogue.find(slot_name, kind).target)
    return typing.cast(type[Part], owner.Config)


def make_part(slot_name: str, value: Any, default: str | None = None) -> Part:
    """A part from any of the ways to write it. A table without `kind` takes the default's."""
    if _too_deep(value):  # how deep Python itself can go depends on who called it
        raise ConfigError("these parts are nested too deeply to be read. Write them flatter.")
    return _make_part(slot_name, value, default)


def _too_deep(value: Any) -> bool:
    level, depth = [value], 0
    while level and depth <= DEEPEST:
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict | list | tuple):
                below += one.values() if isinstance(one, dict) else one
            elif isinstance(one, str) and one.count("(") > DEEPEST and _brackets(one) > DEEPEST:
                return True
        level, depth = below, depth + 1
    return depth > DEEPEST


def _brackets(text: str) -> int:
    """How many are open at once."""
    deepest = depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    return deepest


def _make_part(slot_name: str, value: Any, default: str | None) -> Part:
    if isinstance(value, Part):
        if not isinstance(value, config_class(slot_name, value.kind)):
            raise ConfigError(f'{shown(value)} is not the config of the {slot_name} "{value.kind}".')
        return value
    if isinstance(value, str):
        value = expand(slot_name, value)
    if not isinstance(value, dict):
        raise ConfigError(
            f'{shown(value)} cannot fill the slot "{slot_name}". Write a kind such as "{catalogue.kinds(slot_name)[0]}" '
            "or a table with kind = …"
        )
    if "kind" not in value:
        if default is None:
            raise ConfigError(f"this table has no kind. Choose one of: {', '.join(catalogue.kinds(slot_name))}.")
        value = {**expand(slot_name, default), **value}
    kind = value["kind"]
    if not isinstance(kind, str):
        raise ConfigError(f'kind must be a name such as "{catalogue.kinds(slot_name)[0]}", not {shown(kind)}.')
    return from_dict(config_class(slot_name, kind), value)


def expand(slot_name: str, text: str) -> dict[str, Any]:
    """'local(256)' -> {'kind': 'local', 'window': 256}; positional arguments follow the order of the fields."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _unreadable(slot_name, text) from None
    return _expand(slot_name, tree, text)


def _expand(slot_name: str, tree: ast.expr, text: str) -> dict[str, Any]:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitAnd | ast.BitOr):
        if slot_name != "mask":
            raise ConfigError(f'"{text}": only masks are joined with & and |, and this slot is "{slot_name}".')
        parts = [_expand(slot_name, side, text) for side in _sides(tree, type(tree.op))]
        return {"kind": "all" if isinstance(tree.op, ast.BitAnd) else "any", "parts": parts}
    if isinstance(tree, ast.Name):
        return {"kind": tree.id}
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)):
        raise _unreadable(slot_name, text)
    kind = tree.func.id
    names = [spec.name for spec in dataclasses.fields(config_class(slot_name, kind)) if spec.name != "kind"]
    if tree.args and not names:
        raise ConfigError(f'"{text}" gives values, and {kind} takes none. Write "{kind}".')
    if len(tree.args) > len(names):
        raise ConfigError(f'"{text}" gives {len(tree.args)} values; {kind} takes {len(names)}: {", ".join(names)}.')
    table: dict[str, Any] = {"kind": kind}
    try:
        for name, node in zip(names, tree.args):
            table[name] = _literal(node)
        for keyword in tree.keywords:
            if keyword.arg is None:
                raise _unreadable(slot_name, text)
            if keyword.arg in table:
                raise ConfigError(f'"{text}" gives {keyword.arg} twice.')
            table[keyword.arg] = _literal(keyword.value)
    except (ValueError, TypeError):
        raise ConfigError(
            f'"{text}": only plain numbers, strings, true/false and lists may stand between the parentheses.'
        ) from None
    return table


def _sides(tree: ast.expr, sign: type[ast.operator]) -> list[ast.expr]:
    """a & b & c -> [a, b, c]"""
    sides = []
    while isinstance(tree, ast.BinOp) and isinstance(tree.op, sign):
        sides.append(tree.right)
        tree = tree.left
    return [tree, *reversed(sides)]


def _literal(tree: ast.expr) -> Any:
    """A plain value; true and false may be written as in TOML."""
    if isinstance(tree, ast.Name) and tree.id in ("true", "false"):
        return tree.id == "true"
    return ast.literal_eval(tree)


def _unreadable(slot_name: str, text: str) -> ConfigError:
    hyphened = re.findall(r"[^\W\d]\w*(?:-\w+)+", text)
    hints = [did_you_mean(word, catalogue.kinds(slot_name)) for word in hyphened]
    return ConfigError(
        f'"{text}" cannot be read.{next(filter(None, hints), "")} Write a kind, as in "causal", or with values, as in '
        '"local(256)".'
    )


def tiled(parts: tuple[Part, ...], layers: int) -> list[Part]:
    """One part for each layer: the list repeated until it fills them."""
    if layers % len(parts):
        raise ConfigError(
            f"this list has {len(parts)} entries, which do not divide {layers} layers. "
            "Give one for all, or a number that divides."
        )
    return [parts[index % len(parts)] for index in range(layers)]


def _normalised(owner: type[Node], spec: "dataclasses.Field[Any]", value: Any) -> Any:
    rules = spec.metadata
    if "tree" in rules:
        config = tree_class(rules["tree"])
        return value if isinstance(value, config) else from_dict(config, value)
    if "slot" in rules:
        default = spec.default if isinstance(spec.default, str) else None
        if value is None and spec.default is None:
            return None
        if not rules["per_layer"]:
            return make_part(rules["slot"], value, default)
        entries = value if isinstance(value, list | tuple) else (value,)
        if not entries:
            raise ConfigError("this list is empty. Give at least one entry.")
        return tuple(make_part(rules["slot"], entry, default) for entry in entries)
    value = typed(hint_of(owner, spec.name), value, from_dict)  # type: ignore[arg-type]  # mypy takes no class for hashable
    low, high = rules.get("low"), rules.get("high")
    if value is not None and ((low is not None and value < low) or (high is not None and value > high)):
        bounds = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
        raise ConfigError(f"{shown(value)} is out of range: it must be {' and '.join(bounds)}.")
    return value


@functools.cache  # half of the time that a config takes to be read would go into this
def hint_of(owner: type[Node], name: str) -> Any:
    """The type of one field. Fields of other kinds may name types that are imported for type checking only."""
    for cls in owner.__mro__:
        if name in inspect.get_annotations(cls):
            hint = inspect.get_annotations(cls)[name]
            scope = {**vars(importlib.import_module(cls.__module__)), **vars(typing)}
            return eval(hint, scope) if isinstance(hint, str) else hint
    raise AssertionError(f"{owner} has no field {name}")


def _plain(value: Any) -> Any:
    if isinstance(value, Node):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


LARGEST = 2**63 - 1  # what fits a tensor's whole numbers


def typed(hint: Any, value: Any, build: Callable[[Any, Any], Any]) -> Any:
    """The value, if it is of this type; lists become tuples, whole numbers may stand for floats.

    `build(hint, table)` makes a config dataclass from a table.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        rest = [option for option in arguments if option is not type(None)]
        if len(rest) == 1:
            return typed(rest[0], value, build)
        for option in rest:
            try:
                return typed(option, value, build)
            except ConfigError:
                continue
    elif origin is Literal:
        if any(value == option and type(value) is type(option) for option in arguments):
            return value
        allowed = [str(option) for option in arguments]
        hint_text = did_you_mean(value, allowed) if isinstance(value, str) else ""
        raise ConfigError(f"{shown(value)} is not allowed here.{hint_text} Choose one of: {', '.join(allowed)}.")
    elif origin is tuple:
        if isinstance(value, list | tuple):
            return tuple(typed(arguments[0], entry, build) for entry in value)
    elif dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else build(hint, value)  # type: ignore[arg-type]
    elif hint is float and type(value) in (int, float):
        if not -sys.float_info.max <= value <= sys.float_info.max:
            raise ConfigError(f"{shown(value)} is no number to count with. Give a finite one.")
        return float(value)
    elif type(value) is hint:
        if hint is int and not -LARGEST <= value <= LARGEST:
            raise ConfigError(f"{shown(value)} is out of range: whole numbers have 64 bits at most.")
        return value
    raise ConfigError(f"{shown(value)} is {_article(type(value))}, and this must be {_article(hint)}.")


_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    list: "a list",
    tuple: "a list",
    dict: "a table",
    type(None): "nothing",
}


def _article(hint: Any) -> str:
    if typing.get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_article(option) for option in typing.get_args(hint) if option is not type(None))
    return _WORDS.get(typing.get_origin(hint) or hint, f"a {getattr(hint, '__name__', hint)}")


def shown(value: Any) -> str:
    """The value as an error message quotes it: short, and whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python does not write out a whole number of thousands of digits
        return f"this {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}…"
