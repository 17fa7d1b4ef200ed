"""Settings that have a new name: the old one is still read, and replaced by the new one wherever a config is read.

Files and flags that use an old name get a note that says what to write (`headway.config.sources.compose`). The
config.json of a stored model is read without one. What is written, by save or --print-config, has the new names only.
An address is a section of the config ("train") or a part ("position.learned").
"""

from collections.abc import Callable
from typing import Any

from headway.errors import ConfigError

FORMAT_VERSION = 2  # of config.json. 1: written with old names, and still read

RENAMED_KINDS: dict[str, dict[str, str]] = {  # slot -> old kind -> new kind
    "position": {"xl": "transformer_xl"},
    "mixer": {"shared": "shared_kv", "rwkv": "rwkv7"},
    "residual": {"resi_dual": "residual_dual"},
}
RENAMED_KEYS: dict[str, dict[str, str]] = {  # address -> old key -> new key
    "train": {"longest": "max_tokens", "placeholders": "placeholder_share", "graphs": "cuda_graphs"},
    "position.learned": {"longest": "max_positions"},
    "position.t5": {"distance": "max_distance"},
    "position.shaw": {"distance": "max_distance"},
    "mask.fixed": {"stretch": "block"},
    "mask.bigbird": {"longest": "max_positions"},
    "feedforward.moe": {"top": "top_k", "balance": "balance_loss", "z": "z_loss"},
    "objective.masked": {"hidden": "masked", "swapped": "random"},
    "optimiser.muon": {"others": "adamw_rate"},
}
RENAMED_VALUES: dict[str, dict[str, str]] = {  # address.key -> old value -> new value
    "train.batches": {"lines": "packed", "rows": "padded"},
}
SLOTS: dict[str, str] = {
    "cross": "mixer",
    "expert": "feedforward",
    "parts": "mask",
}  # fields not named after their slot

Note = Callable[[str, str], None]  # is given the old name and the new one


def ignore(old: str, new: str) -> None:
    """Note nothing."""


def current_kind(slot: str, kind: str, note: Note = ignore) -> str:
    new = RENAMED_KINDS.get(slot, {}).get(kind)
    if new is None:
        return kind
    note(f'"{kind}"', f'"{new}"')
    return new


def current_keys(address: str, table: dict[str, Any], note: Note = ignore) -> dict[str, Any]:
    """The table of one section or part with today's keys, and today's values of those that are one word."""
    if address not in RENAMED_KEYS and not any(f"{address}.{key}" in RENAMED_VALUES for key in table):
        return table
    found: dict[str, Any] = {}
    for key, value in table.items():
        new = current_key(address, key, note)
        if new != key and new in table:
            raise ConfigError(f"{key} is the old name of {new}, and both are given. Give {new} only.", new)
        found[new] = current_value(address, new, value, note)
    return found


def current_key(address: str, key: str, note: Note = ignore) -> str:
    new = RENAMED_KEYS.get(address, {}).get(key)
    if new is None:
        return key
    note(key, new)
    return new


def current_value(address: str, key: str, value: Any, note: Note = ignore) -> Any:
    new = RENAMED_VALUES.get(f"{address}.{key}", {}).get(value) if isinstance(value, str) else None
    if new is None:
        return value
    note(f'{key} = "{value}"', f'{key} = "{new}"')
    return new


def current_part(slot: str, value: Any, note: Note = ignore) -> Any:
    """A part written as a table, or a list of them, with the parts inside it. Strings stay as they are."""
    if isinstance(value, list | tuple):
        return [current_part(slot, entry, note) for entry in value]
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        return value
    kind = current_kind(slot, value["kind"], note)
    fields = current_keys(f"{slot}.{kind}", {**value, "kind": kind}, note)
    return {key: current_part(SLOTS.get(key, key), entry, note) for key, entry in fields.items()}


def current_config(table: dict[str, Any]) -> dict[str, Any]:
    """All of a stored config.json, in which every part is a table. Needs no class of a part, and so no torch."""

    def walk(path: tuple[str, ...], value: Any) -> Any:
        if isinstance(value, dict) and "kind" not in value:
            table = current_keys(".".join(path), value)
            return {key: walk((*path, key), entry) for key, entry in table.items()}
        return current_part(SLOTS.get(path[-1], path[-1]), value)

    current: dict[str, Any] = walk((), table)
    return current


def old_names(address: str) -> dict[str, str]:
    return RENAMED_KEYS.get(address, {})
