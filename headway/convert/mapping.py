"""Import safetensors of a model that no family knows, by a mapping file that the user writes (--mapping map.toml):

family = "My model"                    # what reports call it
objective = "causal"                   # or "masked", "translation"
max_tokens = 1024

[model]                                # Headway's own config of the model
d_model = 64
decoder = {layers = 2, mixer = "attention(4)"}

[text]                                 # what config.json would say of the tokenizer beside the weights
model_type = "gpt2"
eos_token_id = 0
vocab_size = 512

[tensors]                              # ours = theirs, {n} for any number
"embeddings.decoder.words.weight" = "wte"
"stacks.decoder.blocks.{n}.sublayers.self.query.weight" = {name = "h.{n}.qkv", transpose = true, rows = [0, 64]}
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.config.config import read_toml
from headway.convert.architecture import Architecture, ConversionError, Json
from headway.convert.card import format_import_card
from headway.convert.huggingface.directory import choose_languages
from headway.convert.huggingface.model_folder import ModelFolder
from headway.convert.huggingface.tokenizer_files import read_model_text
from headway.convert.importer import ImportPlan, list_shapes, make_config
from headway.convert.options import ImportOptions
from headway.convert.tensor_rules import Reshape, RowSlice, SkipRows, TensorChange, TensorRule, Transpose
from headway.convert.weight_files import SafetensorsSource, WeightSource, open_weights

KEYS = ("family", "objective", "max_tokens", "model", "text", "tensors", "unused", "search")
CHANGES = ("transpose", "rows", "skip_rows", "shape")
OBJECTIVES = ("translation", "causal", "masked")
LAYER = "{n}"


def plan_import(path: Path, options: ImportOptions) -> ImportPlan:
    """path: a safetensors file, or a directory with model.safetensors."""
    assert options.mapping is not None
    table = read_mapping(options.mapping)
    folder = path if path.is_dir() else path.parent
    weights: WeightSource = open_weights(path, options.allow_pickle) if path.is_dir() else SafetensorsSource([path])
    text = read_model_text(ModelFolder(path=folder, config=table["text"], generation=table["text"]), table["objective"])
    architecture = Architecture(
        family=table.get("family", "model"),
        objective=table["objective"],
        model=table["model"],
        rules=(),
        max_tokens=table.get("max_tokens", 512),
        unused=tuple(table.get("unused", ())),
        search=table.get("search", {}),
    )
    sources, targets = choose_languages(architecture, text, options)
    plan = ImportPlan(
        architecture=architecture,
        weights=weights,
        tokenizers=text.tokenizers,
        source_languages=sources,
        target_languages=targets,
        card=format_import_card(architecture, path, options, [*sources, *targets]),
    )
    rules = expand_rules(table["tensors"], list(list_shapes(make_config(plan))), options.mapping)
    return replace(plan, architecture=replace(architecture, rules=tuple(rules)))


def read_mapping(path: Path) -> Json:
    """The table of the file, with the keys that it needs."""
    table = read_toml(path)
    if unknown := sorted(table.keys() - set(KEYS)):
        raise ConversionError(f"{path}: there is no key {unknown[0]!r}. Known: {', '.join(KEYS)}.")
    for name in ("model", "text", "tensors"):
        if not isinstance(table.get(name), Mapping):
            raise ConversionError(f"{path}: the table [{name}] is missing.")
    if table.get("objective") not in OBJECTIVES:
        raise ConversionError(f"{path}: objective must be one of {', '.join(OBJECTIVES)}.")
    return table


def expand_rules(tensors: Mapping[str, Any], own: list[str], path: Path) -> list[TensorRule]:
    """A rule for each tensor of our model that a pattern names."""
    rules = []
    for pattern, value in tensors.items():
        theirs, changes = read_change(value, pattern, path)
        wanted = re.compile(re.escape(pattern).replace(re.escape(LAYER), r"(?P<n>\d+)", 1))
        found = [match for name in own if (match := wanted.fullmatch(name))]
        if not found:
            raise ConversionError(
                f"{path}: the model has no tensor {pattern}. It has, for example, {', '.join(own[:3])}."
            )
        rules += [TensorRule(m[0], theirs.replace(LAYER, m.groupdict().get("n", "")), changes) for m in found]
    return rules


def read_change(value: Any, pattern: str, path: Path) -> tuple[str, tuple[TensorChange, ...]]:
    """Their name, and what is done to the tensor, in the order of CHANGES."""
    if isinstance(value, str):
        return value, ()
    try:
        changes: list[TensorChange] = []
        if value.keys() - {"name", *CHANGES}:
            raise ValueError(f"only name, {', '.join(CHANGES)} are known")
        if value.get("transpose"):
            changes.append(Transpose())
        if "rows" in value:
            first, count = map(int, value["rows"])
            changes.append(RowSlice(first, count))
        if "skip_rows" in value:
            changes.append(SkipRows(int(value["skip_rows"])))
        if "shape" in value:
            shape = tuple(map(int, value["shape"]))
            changes.append(Reshape(shape, shape))
        return str(value["name"]), tuple(changes)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConversionError(f"{path}: {pattern} = {value!r} cannot be read: {error}.") from None
