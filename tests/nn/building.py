"""Small configs for tests, and every kind of the catalogue in a place where it can stand."""

from typing import Any

from headway.config import catalogue
from headway.config.schema import from_dict
from headway.errors import ConfigError
from headway.nn.transformer import Transformer

NN_SLOTS = (
    "position",
    "mask",
    "mixer",
    "feedforward",
    "residual",
    "norm",
    "linear",
    "memory_tokens",
    "retrieval",
    "head",
    "rope_scaling",
)
NEEDS_VALUES = {("mask", "all"): "causal & local(3)", ("mask", "any"): "causal | local(3)", ("mixer", "ttt"): "ttt(2)"}


def small(*, encoder: Any = 2, decoder: Any = 2, sides: Any = None, **changes: Any) -> Transformer.Config:
    """A model of a few thousand weights. `sides` changes both; a side is its number of layers, or its own changes."""
    both = {"layers": 2, "mixer": {"heads": 4}, "feedforward": {"hidden": 24}, **(sides or {})}
    table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, **changes}
    for name, side in (("encoder", encoder), ("decoder", decoder)):
        table[name] = both | (side if isinstance(side, dict) else {"layers": side})
    return from_dict(Transformer.Config, table)


def written(entry: catalogue.Entry) -> str:
    return NEEDS_VALUES.get((entry.slot, entry.kind), entry.kind)


def with_kind(entry: catalogue.Entry) -> Transformer.Config:
    """A model in which this kind stands wherever it can."""
    value = written(entry)
    if entry.slot in ("norm", "linear"):
        needs_text = (entry.slot, entry.kind) == ("norm", "instancenorm")  # the whole of it, which no decoder has
        return small(decoder=0 if needs_text else 2, **{entry.slot: value})
    if entry.slot == "head":
        return small(decoder=0 if entry.kind in ("pooled", "tags", "embedding") else 2, head=value)
    if entry.slot == "rope_scaling":
        return small(sides={"position": f"rope(scaling='{value}')"})
    if entry.slot == "mask":
        return small(encoder={"mask": value}, decoder={"mask": f"causal & ({value})"})
    if entry.slot == "retrieval":
        return small(encoder=0, decoder={entry.slot: f"{value}(4)"})
    if (entry.slot, entry.kind) == ("memory_tokens", "recurrent"):
        return small(decoder={entry.slot: value})
    if (entry.slot, entry.kind) == ("mixer", "longformer"):
        return small(encoder={entry.slot: value, "mask": "longformer(3)"})
    config = small(sides={entry.slot: value})
    try:
        config.resolved()
    except ConfigError as error:
        if error.where in ("decoder.mask", "decoder.position"):
            return small(encoder={entry.slot: value})  # it hears the future too, so never in a decoder
        if error.where != "encoder.mask":
            raise
        config = small(sides={entry.slot: value, "mask": "causal"})  # it hears the past alone, in an encoder too
    return config


NN_ENTRIES = [entry for entry in catalogue.CATALOGUE if entry.slot in NN_SLOTS]


def named(entry: catalogue.Entry) -> str:
    return f"{entry.slot} {entry.kind}"
