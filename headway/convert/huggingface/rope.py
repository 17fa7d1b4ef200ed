"""Rotary positions of Hugging Face configs: rope_theta and rope_scaling, or both in rope_parameters."""

from collections.abc import Mapping
from typing import Any

from headway.convert.architecture import ConversionError, Json, read_size

THETA = 10000.0


def read_rope(config: Json, width: int, theta: float = THETA) -> Json:
    """Our position for these settings, for heads of this width. `theta`: where the config has none."""
    found = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not isinstance(found, Mapping):
        raise ConversionError(f"rope_scaling = {found!r} in its config.json is not a table. Download the model again.")
    table = {"rope_theta": config.get("rope_theta", theta), **found}
    if table.get("partial_rotary_factor", config.get("partial_rotary_factor")) not in (None, 1, 1.0):
        raise ConversionError("partial_rotary_factor in its config.json is not supported: Headway rotates whole heads.")
    if width % 2:
        raise ConversionError(f"head_dim = {width} in its config.json is odd, and rotary positions rotate pairs.")
    position = {"kind": "rope", "base": read_number(table, "rope_theta"), "layout": "halves"}
    scaling = _read_scaling(config, table)
    return position if scaling is None else {**position, "scaling": scaling}


def _read_scaling(config: Json, table: Json) -> Json | None:
    kind = table.get("rope_type", table.get("type", "default"))
    if kind == "default":
        return None
    if kind == "linear":
        return {"kind": "linear", "factor": read_number(table, "factor")}
    if kind == "llama3":
        return {
            "kind": "llama3",
            "factor": read_number(table, "factor"),
            "length": _read_length(config, table),
            "low": read_number(table, "low_freq_factor"),
            "high": read_number(table, "high_freq_factor"),
        }
    if kind == "yarn":
        return _read_yarn(config, table)
    raise ConversionError(
        f"rope_type = {kind!r} in its config.json is not supported, only default, linear, llama3 and yarn."
        + (" Its rates depend on the length of the text." if kind in ("dynamic", "longrope") else "")
    )


def _read_yarn(config: Json, table: Json) -> Json:
    if table.get("mscale") or table.get("mscale_all_dim"):
        raise ConversionError("mscale in the rope_parameters of its config.json is not supported.")
    scaling: Json = {
        "kind": "yarn",
        "factor": read_number(table, "factor"),
        "length": _read_length(config, table),
        "fast": read_number({"beta_fast": table.get("beta_fast") or 32}, "beta_fast"),
        "slow": read_number({"beta_slow": table.get("beta_slow") or 1}, "beta_slow"),
        "truncate": table.get("truncate", True) is True,
    }
    if table.get("attention_factor") is not None:
        scaling["attention_factor"] = read_number(table, "attention_factor")
    return scaling


def _read_length(config: Json, table: Json) -> int:
    """Tokens of a text before scaling."""
    name = "original_max_position_embeddings"
    length = table.get(name) or config.get(name) or config.get("max_position_embeddings")
    return read_size({name: length}, name)


def read_number(table: Mapping[str, Any], name: str) -> float:
    """A setting that is a positive number."""
    value = table.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
        raise ConversionError(f"{name} = {value!r} in its config.json is not a positive number. Download it again.")
    return float(value)
