"""Grow a trained model to the size of Transformer-base without changing its translations.

Its outputs are then real sentences that end where sentences end, at the cost of the large model: with random weights
they would not end, and training a base model on a CPU takes days.

The residual stream is widened by copies of itself, so that norms see about the same values; layers read one copy and
write all of them. Heads are repeated; new heads, hidden units and layers contribute almost nothing. The copy that is
read is the one whose channels have the same sinusoids in the wide model: exactly so if the widths differ by a power of
two.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from headway.config.schema import from_dict
from headway.nn.mixers.attention import Attention
from headway.nn.transformer import Transformer
from headway.storage.model_dir import load_model, save_model

NOISE_SCALE = 1e-4  # of added weights: not 0, because trained weights are not


class Base(NamedTuple):
    d_model: int = 512
    hidden: int = 2048
    heads: int = 8
    layers: int = 6


class Widening:
    """From width `narrow` to `wide`."""

    def __init__(self, narrow: int, wide: int) -> None:
        pairs, indices = narrow // 2, torch.arange(wide // 2)
        self.narrow, self.wide = narrow, wide
        self.copied = channel_pairs((indices * narrow / wide).round().long().clamp(max=pairs - 1))  # (wide,) from where
        self.read = channel_pairs((torch.arange(pairs) * wide / narrow).round().long())  # (narrow,) where

    def widen_inputs(self, weight: Tensor) -> Tensor:
        result = weight.new_zeros(len(weight), self.wide)
        result[:, self.read] = weight
        return result

    def widen_outputs(self, weight: Tensor) -> Tensor:
        return weight[self.copied]

    def widen_last_norm(self, weight: Tensor) -> Tensor:
        """The gain or bias of the last norm: only the copy that is read counts. Embeddings are smaller by
        √(narrow / wide)."""
        result = weight.new_zeros(self.wide)
        result[self.read] = weight * math.sqrt(self.wide / self.narrow)
        return result


def channel_pairs(pairs: Tensor) -> Tensor:
    """Indices of both channels of each pair: sine and cosine are neighbours."""
    return torch.stack([2 * pairs, 2 * pairs + 1], 1).flatten()


def grow(folder: Path, out: Path, size: Base = Base()) -> None:  # noqa: B008
    config, model, tokenizers = load_model(folder)
    small, weights = config.model.resolved(), model.state_dict()
    for side in (small.encoder, small.decoder):
        if side.residual.kind != "pre" or {part.kind for part in side.position} != {"sinusoidal"}:
            raise SystemExit(f"{folder}: only models with norms first and sinusoidal positions can be grown")
    mixers = [*small.encoder.mixer, *small.decoder.mixer]
    heads = {part.heads if type(part) is Attention.Config and part.groups == part.heads else 0 for part in mixers}
    if len(heads) > 1 or 0 in heads:
        raise SystemExit(f"{folder}: only models with multi-head attention, as many heads in all layers, can be grown")
    stack = {
        "layers": size.layers, "mixer": f"attention({size.heads})", "feedforward": f"relu({size.hidden})",
        "residual": "pre",
    }  # fmt: skip
    table = small.to_dict() | {"d_model": size.d_model, "encoder": stack, "decoder": dict(stack)}
    grown = Transformer(from_dict(Transformer.Config, table))
    torch.manual_seed(0)
    grown_weights = grow_weights(weights, grown.state_dict(), small.d_model, heads.pop(), size)
    save_model(out, replace(config, model=grown.config), grown_weights, tokenizers, "# grown for a benchmark\n")


def grow_weights(
    weights: dict[str, Tensor], large: dict[str, Tensor], narrow: int, heads: int, size: Base
) -> dict[str, Tensor]:
    width = Widening(narrow, size.d_model)
    return {
        name: grow_weight(name, weights[name], width, heads, size) if name in weights else make_new_weight(name, new)
        for name, new in large.items()
    }


def grow_weight(name: str, old: Tensor, width: Widening, heads: int, size: Base) -> Tensor:
    *_, owner, kind = name.split(".")
    if owner == "words":
        return old[:, width.copied] * math.sqrt(width.narrow / width.wide)
    if owner == "norm":
        return width.widen_last_norm(old) if name.startswith("stacks.decoder.ends") else width.widen_outputs(old)
    if owner in ("query", "key", "value"):
        new = grow_heads(old if kind == "bias" else width.widen_inputs(old), heads, size)
        return new * math.sqrt(size.d_model / size.heads / (width.narrow / heads)) if owner == "query" else new
    if owner == "inner":
        return append_noise(old if kind == "bias" else width.widen_inputs(old), size.hidden)
    if kind == "bias":  # of output and outer
        return width.widen_outputs(old)
    if owner == "output":
        return width.widen_outputs(grow_heads(old.T, heads, size, scale=0.0).T) * heads / size.heads
    return width.widen_outputs(append_noise(old.T, size.hidden, scale=0.0).T)


def grow_heads(rows: Tensor, heads: int, size: Base, scale: float = NOISE_SCALE) -> Tensor:
    """(heads · d_k, …): more heads, each wider."""
    split = rows.unflatten(0, (heads, -1)).transpose(0, 1)  # (d_k, heads, …)
    wide = append_noise(split, size.d_model // size.heads, scale).transpose(0, 1)
    return wide.repeat(size.heads // heads, *[1] * (wide.dim() - 1)).flatten(0, 1)


def append_noise(rows: Tensor, length: int, scale: float = NOISE_SCALE) -> Tensor:
    more = torch.randn(length - len(rows), *rows.shape[1:]) * scale
    return torch.cat([rows, more])


def make_new_weight(name: str, new: Tensor) -> Tensor:
    """A weight of an added layer: initialised as usual, but its output is almost 0."""
    is_output = name.endswith(("output.weight", "outer.weight"))
    return new * NOISE_SCALE if is_output else new
