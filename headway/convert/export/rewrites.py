"""Rewrites: a model as another that computes the same, where a family writes the same architecture differently.

    sinusoids    interleaved -> halves      all channels of the residual stream in another order
    rope         interleaved -> halves      the channels of queries and keys in another order, head by head
    biases       none -> zeros              of attention, feed-forward layers and the output
    words        scaled by √d -> larger     and where the output has the same matrix, its scores divided by √d

They change the table `model` of a config and the weights with it. Sums over channels are in another order afterwards,
so that results differ by rounding alone."""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headway.convert.architecture import Json
from headway.convert.weight_files import WeightSource

Change = Callable[[Tensor], Tensor]
# Tensors with the channels of the residual stream, by their axis.
STREAM_COLUMNS = re.compile(
    r"embeddings\.\w+\.(words|segments)\.weight|head\.(logits\.)?weight|stacks\.\w+\.positions\.\d+\.table\.weight"
    r"|.*\.sublayers\.\w+\.(query|key|value|inner|gate)\.weight"
)
STREAM_ROWS = re.compile(
    r".*\.sublayers\.\w+\.(output|outer)\.(weight|bias)|(.*\.residuals\.\w+|embeddings\.\w+|stacks\.\w+\.ends)"
    r"\.norm\.(gain|bias)"
)
ROTATED = re.compile(r"stacks\.(\w+)\.blocks\.(\d+)\.sublayers\.self\.(query|key)(_norm)?\.(weight|bias|gain)")


@dataclass(frozen=True)
class RewrittenSource:
    """Weights after changes, and with zeros for tensors that the model lacks."""

    source: WeightSource
    changes: Mapping[str, Change] = field(default_factory=dict)
    zeros: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {**self.source.shapes(), **self.zeros}

    def dtype(self, name: str) -> torch.dtype:
        return torch.float32 if name in self.zeros else self.source.dtype(name)

    def read(self, name: str) -> Tensor:
        if name in self.zeros:
            return torch.zeros(self.zeros[name])
        tensor = self.source.read(name)
        return self.changes[name](tensor) if name in self.changes else tensor


def rewrite_towards(theirs: Json, ours: Json, weights: WeightSource) -> tuple[Json, WeightSource]:
    """Our expanded table and weights, rewritten where `theirs` writes the same differently."""
    for rewrite in (reorder_sinusoids, reorder_rope, add_biases, fold_word_scale):
        ours, weights = rewrite(theirs, ours, weights)
    return ours, weights


def halves_order(width: int) -> Tensor:
    """The even channels, then the odd ones."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


def reorder_sinusoids(theirs: Json, ours: Json, weights: WeightSource) -> tuple[Json, WeightSource]:
    def layouts(table: Json) -> set[str]:
        sides = [table[side] for side in ("encoder", "decoder") if table[side]["layers"]]
        return {str(part.get("layout", part["kind"])) for side in sides for part in side["position"]}

    is_sinusoidal = all(
        part["kind"] == "sinusoidal" for side in ("encoder", "decoder") for part in ours[side].get("position", ())
    )
    if not is_sinusoidal or layouts(ours) != {"interleaved"} or layouts(theirs) != {"halves"}:
        return ours, weights
    order = halves_order(ours["d_model"])
    changes: dict[str, Change] = {}
    for name in weights.shapes():
        if STREAM_COLUMNS.fullmatch(name):
            changes[name] = lambda tensor: tensor[:, order]
        elif STREAM_ROWS.fullmatch(name):
            changes[name] = lambda tensor: tensor[order]
    return _with_layout(ours), RewrittenSource(weights, changes)


def reorder_rope(theirs: Json, ours: Json, weights: WeightSource) -> tuple[Json, WeightSource]:
    for side in ("encoder", "decoder"):
        parts = [(one, other) for one, other in zip(ours[side].get("position", ()), theirs[side].get("position", ()))]
        if not parts or not all(
            one["kind"] == other["kind"] == "rope"
            and (one["layout"], other["layout"]) == ("interleaved", "halves")
            and mixer["kind"] == "attention"
            for (one, other), mixer in zip(parts, ours[side]["mixer"])
        ):
            continue
        changes: dict[str, Change] = {}
        for name in weights.shapes():
            if (match := ROTATED.fullmatch(name)) and match[1] == side:
                d_k = ours[side]["mixer"][int(match[2])]["d_k"]
                changes[name] = functools.partial(_reorder_heads, order=halves_order(d_k))
        weights = RewrittenSource(weights, changes)
        table = {**ours[side], "position": [{**part, "layout": "halves"} for part in ours[side]["position"]]}
        ours = {**ours, side: table}
    return ours, weights


def _reorder_heads(tensor: Tensor, order: Tensor) -> Tensor:
    """Rows (heads · d_k) in this order within each head."""
    rows: Tensor = tensor.unflatten(0, (-1, len(order)))
    return rows[:, order].flatten(0, 1)


def _with_layout(table: Json) -> Json:
    sides = {
        side: {**table[side], "position": [{**part, "layout": "halves"} for part in table[side]["position"]]}
        for side in ("encoder", "decoder")
        if table[side]["layers"]
    }
    return {**table, **sides}


def add_biases(theirs: Json, ours: Json, weights: WeightSource) -> tuple[Json, WeightSource]:
    """Zeros where `theirs` has a bias and ours has none, in parts of the same kind."""
    zeros: dict[str, tuple[int, ...]] = {}
    head = ours["head"]
    if _lacks_bias(head, theirs["head"]):
        zeros["head.bias"] = (ours["vocabulary"],)
        head = {**head, "bias": True}
    table = {**ours, "head": head}
    for side in ("encoder", "decoder"):
        for slot, sublayer in (("mixer", "self"), ("cross", "cross"), ("feedforward", "feedforward")):
            one, other = ours[side].get(slot) or [], theirs[side].get(slot) or []
            if len(one) != len(other):
                continue
            lacking = [layer for layer in range(len(one)) if _lacks_bias(one[layer], other[layer])]
            for layer in lacking:
                prefix = f"stacks.{side}.blocks.{layer}.sublayers.{sublayer}."
                zeros |= {
                    f"{name.removesuffix('weight')}bias": shape[:1]
                    for name, shape in weights.shapes().items()
                    if name.startswith(prefix) and name.endswith(".weight")
                }
            parts = [{**part, "bias": True} if layer in lacking else part for layer, part in enumerate(one)]
            if lacking:
                table[side] = {**table[side], slot: parts}
    return table, RewrittenSource(weights, zeros=zeros) if zeros else weights


def fold_word_scale(theirs: Json, ours: Json, weights: WeightSource) -> tuple[Json, WeightSource]:
    """Words that are scaled when they are read, as T5 has them: larger ones."""
    scale = ours["d_model"] ** 0.5
    head, other = ours["head"], theirs["head"]
    if not ours["embedding"]["scale"] or theirs["embedding"]["scale"] or head["kind"] != other["kind"]:
        return ours, weights
    if ours["embedding"]["tied"] in ("all", "target"):  # the output has the matrix of the words
        if head.get("scale") is not None or other.get("scale") != ours["d_model"] ** -0.5:
            return ours, weights
        head = {**head, "scale": other["scale"]}
    names = [name for name in weights.shapes() if re.fullmatch(r"embeddings\.\w+\.words\.weight", name)]
    table = {**ours, "embedding": {**ours["embedding"], "scale": False}, "head": head}
    return table, RewrittenSource(weights, {name: lambda tensor: tensor * scale for name in names})


def _lacks_bias(ours: Any, theirs: Any) -> bool:
    return bool(ours["kind"] == theirs["kind"] and ours.get("bias") is False and theirs.get("bias") is True)
