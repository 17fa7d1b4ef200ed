"""Where the architecture of one model differs from that of another: a family can express ours if nowhere.

Architectures are the table `model` of a config. What changes only training (dropout) or only speed (the kernel) does
not count, nor how often a list of parts is written out for the layers."""

from typing import Any

from headway.config.config import read_config
from headway.config.own_kinds import reading_stored
from headway.convert.architecture import Architecture, Json
from headway.convert.importer import make_train_table

UNCOUNTED = {"dropout", "kernel"}
SLOTS_OF_LAYERS = ("position", "mask", "mixer", "cross", "feedforward")


def expand_table(model: Json) -> Json:
    """The table with one part for each layer, without what does not count."""
    table = {**model}
    for side in ("encoder", "decoder"):
        if not table[side].get("layers"):
            table[side] = {"layers": 0}
            continue
        layers = table[side]["layers"]
        table[side] = {
            name: value * (layers // len(value)) if name in SLOTS_OF_LAYERS and value else value
            for name, value in table[side].items()
        }
    cleaned = _drop_uncounted(table)
    assert isinstance(cleaned, dict)
    if not (table["encoder"]["layers"] and table["decoder"]["layers"]):
        cleaned.pop("source_vocabulary", None)
        if cleaned["embedding"]["tied"] == "target":  # the same where there is one side
            cleaned["embedding"]["tied"] = "all"
    return cleaned


def _drop_uncounted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _drop_uncounted(inner) for name, inner in value.items() if name not in UNCOUNTED}
    if isinstance(value, list):
        return [_drop_uncounted(inner) for inner in value]
    return value


def build_table(architecture: Architecture, vocabulary: int, source_vocabulary: int) -> Json:
    """The complete table `model` of what a family's reader found. Raises ConfigError if it cannot be built."""
    sizes = {"vocabulary": vocabulary, "source_vocabulary": source_vocabulary}
    table = {"model": {**architecture.model, **sizes}, "train": make_train_table(architecture)}
    with reading_stored():
        return read_config(table).model.to_dict()


def find_differences(ours: Json, theirs: Json) -> list[str]:
    """What `ours` has and `theirs` does not, a sentence for each slot. Other kinds come first: settings may
    differ because of them. Both are expanded."""
    slots, other_slots = _slots(ours), _slots(theirs)
    differing = [path for path in sorted({*slots, *other_slots}) if slots.get(path) != other_slots.get(path)]
    differing.sort(key=lambda path: _kind(slots.get(path)) == _kind(other_slots.get(path)))
    found = []
    for path in differing:
        one, other = slots.get(path), other_slots.get(path)
        found.append(f"{path} is {_describe(one, other)}, and there it is {_describe(other, one)}")
    return found


def _kind(value: Any) -> Any:
    """What a slot holds: of a part the kind; of a plain setting nothing."""
    if isinstance(value, list):
        return [_kind(part) for part in value]
    return value["kind"] if isinstance(value, dict) else None


def _slots(table: Json) -> dict[str, Any]:
    """Every slot and plain setting by its dotted path; parts of several layers that are the same, once."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict) and "kind" not in value:
            found |= {f"{name}.{path}": inner for path, inner in _slots(value).items()}
        elif isinstance(value, list) and value and all(part == value[0] for part in value):
            found[name] = value[0]
        else:
            found[name] = value
    return found


def _describe(value: Any, other: Any) -> str:
    """A part by its kind, and by the settings in which it differs from another of the same kind."""
    if isinstance(value, list):
        return "several: " + ", ".join(dict.fromkeys(_describe(part, None) for part in value))
    if not isinstance(value, dict):
        return repr(value) if value is not None else "none"
    settings = {name: inner for name, inner in value.items() if name != "kind"}
    if isinstance(other, dict) and other.get("kind") == value.get("kind"):
        settings = {name: inner for name, inner in settings.items() if other.get(name) != inner}
        return f'"{value["kind"]}" with ' + ", ".join(f"{name} = {inner!r}" for name, inner in settings.items())
    return f'"{value["kind"]}"'
