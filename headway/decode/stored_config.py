"""A stored model's config.json as plain JSON, for engines that need no torch: native and ctranslate2.

Only what is known to the last setting is accepted; anything else is an UnsupportedModelError with the reason, and left
to the torch engine, which also words the errors of damaged model directories.
"""

import contextlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any

JsonObject = dict[str, Any]
SUPPORTED_FIELDS = {  # of each supported part: a setting that is not listed may mean anything; ?: may be left out
    "model": "d_model vocabulary source_vocabulary dropout norm linear embedding encoder decoder head",
    "embedding": "tied scale norm segments",
    "encoder": "layers position mask mixer feedforward residual",
    "decoder": "layers position mask mixer cross feedforward residual",
    "norm layernorm": "eps",
    "norm rmsnorm": "eps",
    "linear dense": "",
    "position sinusoidal": "base layout spacing? first?",
    "position learned": "max_positions",
    "position none": "",
    "mask full": "",
    "mask causal": "",
    "mixer attention": "heads groups d_k d_v bias dropout scale kernel",
    "feedforward relu": "hidden bias dropout",
    "feedforward gelu": "hidden bias dropout",
    "feedforward gelu_tanh": "hidden bias dropout",
    "feedforward silu": "hidden bias dropout",
    "feedforward swiglu": "hidden bias dropout",
    "feedforward geglu": "hidden bias dropout",
    "feedforward geglu_tanh": "hidden bias dropout",
    "residual post": "",
    "residual pre": "",
    "head logits": "bias",
    # What translating does not need is checked by its names.
    "config": "format_version source_languages target_languages labels? tokenizer vocabularies model train search",
    "train": "objective optimiser schedule alignment shortlist placeholder_share label_smoothing clip ema seed "
    "batch_tokens micro_batch_tokens max_tokens steps epochs seconds validate_every patience metric decode_lines "
    "keep_last keep_best average batches precision compile cuda_graphs log_every",
    "objective translation": "",
    "objective masked_target": "",
    "objective span_corruption": "share mean_span lines sentinels",
    "objective denoising": "share mean_span permute masked deleted lines",
    "alignment none": "",
    "alignment guided": "weight layer head",
    "shortlist none": "",
    "shortlist lexical": "best frequent pairs",
    "shortlist frequent": "frequent pairs",
    "optimiser adam": "beta1 beta2 eps",
    "optimiser adamw": "weight_decay beta1 beta2 eps",
    "optimiser sgd": "",
    "optimiser momentum": "momentum nesterov",
    "optimiser adagrad": "eps",
    "optimiser rmsprop": "decay eps",
    "optimiser muon": "momentum weight_decay adamw_rate",
    "schedule noam": "warmup factor",
    "schedule inverse_sqrt": "peak warmup",
    "schedule cosine": "peak warmup floor",
    "schedule linear": "peak warmup floor",
    "schedule constant": "peak warmup",
    "tokenizer bpe": "size dropout",
    "tokenizer unigram": "size",
    "tokenizer bytes": "",
    "tokenizer characters": "size",
    "tokenizer wordpiece": "size lowercase",
    "tokenizer imported": "",
}
# Written only where a model has them.
UNSUPPORTED_SETTINGS = {"output_bias", "qk_norm", "output_norm", "scaling"}
TRAIN_CHOICES = {
    "metric": ("loss", "bleu", "chrf", "task"),
    "batches": ("auto", "padded", "packed"),
    "precision": ("auto", "float32", "bfloat16"),
    "compile": ("auto", "on", "off"),
    "cuda_graphs": ("auto", "off"),
}
MAX_INTEGER = 2**63 - 1
TRAIN_LOWEST = {  # of the others it is 0
    "batch_tokens": 1, "max_tokens": 2, "validate_every": 1, "keep_last": 1, "keep_best": 1, "average": 1,
    "log_every": 1,
}  # fmt: skip
TRAIN_HIGHEST = {"placeholder_share": 1, "label_smoothing": 1, "ema": 1, "seed": 2**32 - 1}
TRAIN_SLOTS = ("objective", "optimiser", "schedule", "alignment", "shortlist")
KNOWN_VALUES: dict[str, tuple[Any, ...]] = {  # of settings that a weight's shape does not show to be wrong
    "bias": (False, True),
    "embedding scale": (False, True),
    "embedding norm": (False, True),
    "tied": ("all", "inputs", "target", "none"),
    "layout": ("interleaved", "halves"),
    "spacing": ("open", "closed"),
    "kernel": ("auto", "math", "sdpa", "flex"),
}


class UnsupportedModelError(Exception):
    """An engine does not support a part of a model, or its files are not as expected."""


@contextlib.contextmanager
def refuse_malformed() -> Iterator[None]:
    """Of a config that is not as Headway writes it, anything may be missing or of another type."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error):
        raise UnsupportedModelError("its config.json is not as this Headway writes it") from None


def check_part(slot: str, table: Any) -> JsonObject:
    """A part of a supported kind, with no other settings than the supported ones."""
    kind = table["kind"]
    if f"{slot} {kind}" not in SUPPORTED_FIELDS:
        raise UnsupportedModelError(f"{slot} {kind} is not supported")
    settings = {name: value for name, value in table.items() if name != "kind"}
    return check_fields(f"{slot} {kind}", settings) | {"kind": kind}


def check_fields(name: str, table: JsonObject) -> JsonObject:
    """The table, if it has exactly the settings that this Headway writes."""
    if "distinct_layers" in table:
        raise UnsupportedModelError("its layers share weights")
    if "predicted_length" in table:
        raise UnsupportedModelError("it writes all tokens at once, by mask_predict, which only torch does")
    if "memory_tokens" in table:  # written only where a model has some
        raise UnsupportedModelError("memory tokens are not supported")
    if "frontend" in table:  # likewise
        raise UnsupportedModelError("it reads pictures or sound, which only torch does")
    if "retrieval" in table:
        raise UnsupportedModelError("retrieval is not supported")
    if "streams" in table:
        raise UnsupportedModelError("two streams are not supported")
    if "reasoner" in table:
        raise UnsupportedModelError("graph reasoners are not supported")
    for setting in UNSUPPORTED_SETTINGS & table.keys():
        raise UnsupportedModelError(f"{name} with {setting} is not supported")
    fields = SUPPORTED_FIELDS[name].split()
    required = {field for field in fields if not field.endswith("?")}
    if not required <= set(table) <= {field.rstrip("?") for field in fields}:
        raise UnsupportedModelError(f"the settings of {name} are not those that this Headway writes")
    for setting, value in table.items():
        known = KNOWN_VALUES.get(f"{name} {setting}", KNOWN_VALUES.get(setting, ()))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if known:
            is_allowed = any(value == one and type(value) is type(one) for one in known)
        else:
            is_allowed = (is_number and 0 <= value <= 1) if setting == "dropout" else not isinstance(value, bool | str)
        if not is_allowed:
            raise UnsupportedModelError(f"{name} has {setting} = {value!r}")
    return table


def check_config(table: JsonObject) -> None:
    """Refuse a config.json with settings that torch's engine would refuse. `model` is checked part by part as it is
    read; of `train`, which translating does not need, names, types and ranges."""
    with refuse_malformed():
        if "packages" in table:
            raise UnsupportedModelError("it has kinds of other packages, which only torch can run")
        check_names("config", table)
        train = check_names("train", table["train"])
        for name, value in train.items():
            if name not in TRAIN_SLOTS and not _is_train_value(name, value):
                raise UnsupportedModelError(f"train has {name} = {value!r}")
        parts = [("tokenizer", table["tokenizer"]), *((slot, train[slot]) for slot in TRAIN_SLOTS if slot in train)]
        for slot, part in parts:
            check_names(f"{slot} {part['kind']}", {name: part[name] for name in part if name != "kind"})
        if table["vocabularies"] not in ("shared", "separate"):
            raise UnsupportedModelError(f"config has vocabularies = {table['vocabularies']!r}")


def _is_train_value(name: str, value: Any) -> bool:
    if name in TRAIN_CHOICES:
        return value in TRAIN_CHOICES[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and TRAIN_LOWEST.get(name, 0) <= value <= TRAIN_HIGHEST.get(name, MAX_INTEGER)


def check_names(name: str, table: JsonObject) -> JsonObject:
    """The table, if this Headway knows all its settings."""
    unknown = sorted(set(table) - set(SUPPORTED_FIELDS[name].replace("?", "").split()))
    if unknown:
        raise UnsupportedModelError(f"{name} has no setting {unknown[0]!r}")
    return table


def tile_parts(slot: str, parts: list[Any], layers: int) -> list[JsonObject]:
    """One part for each layer: a list that is shorter repeats."""
    if not parts or layers % len(parts):
        raise UnsupportedModelError(f"{slot} does not fit {layers} layers")
    known = [check_part(slot, entry) for entry in parts]
    return known * (layers // len(known))


def require_equal(what: str, values: Sequence[Any]) -> Any:
    """The value that all layers have in common."""
    if any(value != values[0] for value in values):
        raise UnsupportedModelError(f"{what} that differ from layer to layer are not supported")
    return values[0]
