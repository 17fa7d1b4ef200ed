"""The axes of a study: settings, the values that they take, and where in the config they go."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headway.config.config import Config
from headway.config.schema import make_part
from headway.config.sources import Layer, compose, parse_literal
from headway.errors import ConfigError, did_you_mean

SIDE_SETTINGS = ("mixer", "cross", "position", "mask", "feedforward", "residual", "layers")  # of encoder and decoder
SECTIONS = ("model", "train", "search")


class Axis(NamedTuple):
    """One thing that varies."""

    name: str  # as the user wrote it
    values: tuple[Any, ...]


class Variant(NamedTuple):
    """One value of every axis."""

    name: str  # "retention(4), rope"
    choices: dict[str, Any]  # by the name of the axis
    layers: list[Layer]  # config layers that say so
    notes: tuple[str, ...] = ()  # what had to be decided, as sentences
    refusal: str = ""  # why the config refuses it; "": it does not


def parse_axis(text: str) -> Axis:
    """'mixer=attention(4, 2),retention' -> the axis mixer with two values."""
    name, sign, values = text.partition("=")
    if not sign or not name.strip() or not values.strip():
        raise ConfigError(
            f'"{text}" is not an axis: write setting=value,value, as in --vary mixer=attention,retention.'
        )
    return Axis(name.strip(), tuple(parse_literal(value) for value in split_values(values)))


def split_values(text: str) -> list[str]:
    """At commas outside of brackets and quotes."""
    values = [""]
    depth = 0
    quote = ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth and not quote:
            values.append("")
        else:
            values[-1] += character
    return [value.strip() for value in values if value.strip()]


def format_value(value: Any) -> str:
    if is_settings(value) and "name" in value:
        return str(value["name"])
    if isinstance(value, dict):
        inside = ", ".join(f"{key}={format_value(entry)}" for key, entry in value.items() if key != "kind")
        return f"{value.get('kind', '')}({inside})" if inside else str(value.get("kind", "{}"))
    if isinstance(value, list | tuple):
        return " + ".join(map(format_value, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_settings(value: Any) -> bool:
    """Whether a value is a table of several settings, such as {name = "YOCO", mixer = …, mask = …}, and not a part."""
    return isinstance(value, dict) and "kind" not in value


def expand_settings(axis: str, value: Any) -> dict[str, Any]:
    """What an axis sets: itself, or each of several settings below it."""
    if not is_settings(value):
        return {axis: value}
    return {f"{axis}.{key}": entry for key, entry in value.items() if key != "name"}


def grid(axes: Sequence[Axis]) -> Iterator[dict[str, Any]]:
    """Every combination of values, the last axis fastest."""
    for values in itertools.product(*(axis.values for axis in axes)):
        yield dict(zip((axis.name for axis in axes), values))


def make_variant(choices: Mapping[str, Any], base: Sequence[Layer]) -> Variant:
    """Choices as config layers over `base`. A setting of a side goes to both sides if both take it, else to the one
    that does. All choices are judged together: one may need another, such as a mixer its position."""
    name = ", ".join(map(format_value, choices.values())) or "the settings given"
    config = compose(base)[0]
    settings = [one for given in choices.items() for one in expand_settings(*given).items()]
    ways = [placements(axis, value, config) for axis, value in settings]
    refusal = ""
    for numbers in sorted(itertools.product(*(range(len(way)) for way in ways)), key=sum):
        taken = [way[number] for way, number in zip(ways, numbers)]
        layers = [Layer(f"axis {axis}", nest_paths(paths)) for (axis, _), (paths, _) in zip(settings, taken)]
        try:
            compose([*base, *layers])
        except ConfigError as error:
            refusal = refusal or str(error)
            continue
        return Variant(name, dict(choices), layers, tuple(note for _, note in taken if note))
    if not chooses_position(settings, base):
        unordered = make_variant({**choices, "position": "none"}, base)
        if not unordered.refusal:
            note = f"{name}: without positions, as it takes none of those that the others have"
            return unordered._replace(name=name, choices=dict(choices), notes=(*unordered.notes, note))
    return Variant(name, dict(choices), [], (), refusal)


def chooses_position(settings: Sequence[tuple[str, Any]], base: Sequence[Layer]) -> bool:
    """Whether a study says itself which positions its models have; else they are those of a preset."""
    if any(axis.split(".")[-1] == "position" for axis, _ in settings):
        return True
    own = [layer.values.get("model", {}) for layer in base if not layer.origin.startswith("preset")]
    return any("position" in model.get(side, {}) for model in own for side in ("encoder", "decoder"))


def placements(axis: str, value: Any, config: Config) -> list[tuple[dict[str, Any], str]]:
    """The dotted paths that an axis can set, each way with a note; the first that the config accepts is taken."""
    if axis in ("rate", "train.rate"):  # of learning, as everyone calls it
        axis = "train.schedule.peak"
    if axis.split(".")[0] in SECTIONS or axis.split(".")[0] in (spec.name for spec in dataclasses.fields(Config)):
        return [({axis: value}, "")]
    head = axis.split(".")[0]
    if head in ("encoder", "decoder"):
        return [({f"model.{axis}": value}, "")]
    if head in SIDE_SETTINGS:
        sides = config.model.sides
        ways = [list(sides)] + ([[side] for side in reversed(sides)] if len(sides) > 1 else [])
        shown = format_value(value)
        return [
            (
                {f"model.{side}.{axis}": _for_side(head, value, side) for side in way},
                "" if len(way) == len(sides) else f"{shown}: in the {way[0]} only, as the other side does not take it",
            )
            for way in ways
        ]
    for section in SECTIONS:
        node = getattr(config, section)
        if head in (spec.name for spec in dataclasses.fields(node)):
            return [({f"{section}.{axis}": value}, "")]
    known = [
        *SIDE_SETTINGS,
        *(spec.name for section in SECTIONS for spec in dataclasses.fields(getattr(config, section))),
    ]
    raise ConfigError(
        f'there is no setting "{axis}" to vary.{did_you_mean(head, known)} Write a slot such as mixer or position, or '
        "a path such as train.schedule."
    )


def _for_side(head: str, value: Any, side: str) -> Any:
    """A decoder's mask must hide the future."""
    if head != "mask" or side == "encoder":
        return value
    if isinstance(value, list | tuple):
        return [_for_side(head, entry, side) for entry in value]
    if not isinstance(value, str):
        return value
    part: Any = make_part("mask", value)
    return value if part.mask().hides_future else f"causal & ({value})"


def nest_paths(paths: Mapping[str, Any]) -> dict[str, Any]:
    """{'model.d_model': 64} -> {'model': {'d_model': 64}}"""
    tree: dict[str, Any] = {}
    for path, value in paths.items():
        *names, last = path.split(".")
        node = tree
        for name in names:
            node = node.setdefault(name, {})
        node[last] = value
    return tree
