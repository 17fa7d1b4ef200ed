"""Few models that have every kind of the catalogue in them: kinds that a layer can have by itself stand in one stack,
one in each layer, the others each in a model of their own."""

from typing import Any

from contracts.cases import CAUSAL_MASKS
from contracts.combining import forms

from headway.config.config import read_config
from headway.errors import ConfigError

PLAIN = {"mixer": "attention(4)", "position": "none", "feedforward": "relu(12)", "residual": "pre"}
PER_MODEL = ("residual", "linear", "norm")


def tables_of_every_kind() -> dict[str, dict[str, Any]]:
    """By name: the table `model` of a config, without a vocabulary."""
    tables = {}
    left = {"mixer": _firsts("mixer"), "position": _firsts("position"), "feedforward": _firsts("feedforward")}
    left["mask"] = [(mask,) for mask in CAUSAL_MASKS.values()] + _firsts("mask")
    for side in ("decoder", "encoder"):
        for slot, values in left.items():
            fits = [value for value in values if _is_allowed(_stack(side, **{slot: [*value]}, layers=len(value)))]
            left[slot] = [value for value in values if value not in fits]
            parts = [part for value in fits for part in value]
            if parts:
                tables[f"{side} {slot}"] = _stack(side, **{slot: parts}, layers=len(parts))
    for value in left["mixer"]:  # what needs a mask of its own kind
        tables[f"encoder {value[0]}"] = _stack("encoder", mixer=[*value], mask="longformer(3)", layers=len(value))
    for slot in PER_MODEL:
        for (form,) in _firsts(slot):
            side = {**PLAIN, "layers": 1} | ({"residual": form} if slot == "residual" else {})
            more = {} if slot == "residual" else {slot: form}
            table = {"d_model": 16, "encoder": side, "decoder": side, **more}
            tables[f"{slot} {form}"] = table if _is_allowed(table) else {**_stack("encoder", layers=1), **more}
    for (form,) in _firsts("memory_tokens"):
        tables[f"memory_tokens {form}"] = _stack("decoder", layers=1, memory_tokens=form)
    tables["two streams"] = _stack("decoder", layers=2, streams=2, position="transformer_xl(tied=false)")
    return tables


def objective_of(table: dict[str, Any]) -> str:
    if not table["encoder"]["layers"]:
        return "causal"
    return "translation" if table["decoder"]["layers"] else "masked"


def _firsts(slot: str) -> list[tuple[str, ...]]:
    """One form of each kind."""
    found: dict[str, tuple[str, ...]] = {}
    for form in forms(slot):
        found.setdefault(form[-1].partition("(")[0], form)
    return list(found.values())


def _stack(side: str, **changes: Any) -> dict[str, Any]:
    other = "encoder" if side == "decoder" else "decoder"
    head = {"head": "masked"} if side == "encoder" else {}
    return {"d_model": 16, side: {**PLAIN, **changes}, other: {"layers": 0}, **head}


def _is_allowed(table: dict[str, Any]) -> bool:
    try:
        _read(table)
    except ConfigError:
        return False
    return True


def _read(table: dict[str, Any]) -> None:
    train = {"objective": objective_of(table), "max_tokens": 16}
    read_config({"model": {**table, "vocabulary": 29}, "train": train})
