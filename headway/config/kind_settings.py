"""The settings of a kind, for people: the name, the default and the allowed values of each."""

import dataclasses
import types
import typing
from typing import Any, Literal, NamedTuple, Union

from headway.config import catalogue
from headway.config.config import format_toml_value
from headway.config.schema import config_class, field_type

TYPE_NAMES = {int: "integer", float: "number", str: "string", bool: "true or false"}


class Setting(NamedTuple):
    name: str
    default: str  # as in TOML; "derived": from other settings; "none": no part; "required": there is none
    allowed: str


def kind_settings(slot: str, kind: str) -> list[Setting]:
    """In the order of the shorthand: kind(first, second, …)."""
    owner = config_class(slot, kind)
    specs = [spec for spec in dataclasses.fields(owner) if spec.name != "kind"]
    return [Setting(spec.name, _describe_default(spec), _describe_allowed(owner, spec)) for spec in specs]


def _describe_default(spec: "dataclasses.Field[Any]") -> str:
    if spec.default is dataclasses.MISSING or spec.default == ():
        return "required"
    default = list(spec.default) if isinstance(spec.default, tuple) else spec.default
    if default is None:
        return "none" if "slot" in spec.metadata else "derived"
    return format_toml_value(default)


def _describe_allowed(owner: type[Any], spec: "dataclasses.Field[Any]") -> str:
    rules = spec.metadata
    if "slot" in rules:
        kinds = ", ".join(catalogue.kinds(rules["slot"]))
        return f"{'one or more of' if rules['per_layer'] else 'one of'} the {rules['slot']}s: {kinds}"
    low, high = rules.get("low"), rules.get("high")
    text = _describe_type(field_type(owner, spec.name))  # type: ignore[arg-type]  # mypy takes no class for hashable
    if low is not None and high is not None:
        return f"{text} from {low:g} to {high:g}"
    return text + (f", at least {low:g}" if low is not None else f", at most {high:g}" if high is not None else "")


def _describe_type(hint: Any) -> str:
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    if typing.get_origin(hint) in (Union, types.UnionType):
        return " or ".join(map(_describe_type, options))
    if typing.get_origin(hint) is Literal:
        quoted = [format_toml_value(option) for option in options]
        return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
    if typing.get_origin(hint) is tuple:
        return f"list, each entry {_describe_type(options[0])}"
    return TYPE_NAMES.get(hint, getattr(hint, "__name__", str(hint)))
