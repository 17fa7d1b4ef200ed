"""Plain values in a config: whether they are of the type they should be, and how to say so."""

import dataclasses
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, Union

from headway.errors import ConfigError, did_you_mean

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
