"""Through a layer: the way of one token's vector, from a trace: embedding, residual stream, sub-layers, norms.

    token id ─► embedding (+ position) ─► sub-layer ─► sub-layer … ─► last norm ─► output_scores, logit_lens
                                          └ norm, mixer or feed-forward (neurons), residual connection

All functions take the model and the tensors of a trace of it (`trace.tensors`, or `trace_forward`), and names as there:
layers count from 0, `position` is the index of a token on its side. Vectors are float32, on the CPU, of width d.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from headway.errors import HeadwayError
from headway.nn.layers.norms import LayerNorm, NoNorm, RMSNorm
from headway.nn.layers.residual import CrateResidual, DeepNorm, PostNorm, PreNorm, ResiDual
from headway.nn.layers.stream_norms import BatchNorm, GroupNorm, InstanceNorm
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer

SUBLAYERS = ("self", "cross", "feedforward")
Tensors = Mapping[str, Tensor]
NormPlace = Literal["before", "after", "replaces", "none"]


@dataclass(frozen=True)
class NormNumbers:
    """(x - mean) / √(variance + eps) · gain + bias, of one token.

    Mean and variance are of groups of neighbouring channels: of one group, all d channels, in layer norm; of d groups
    in batch norm and instance norm, which take them over tokens. RMS norm subtracts no mean, and its `variance` is the
    mean of x². Without numbers of its own (a norm that is not in the catalogue): x and y alone."""

    kind: str
    x: Tensor  # (d,) what comes in
    y: Tensor  # (d,) what goes out
    mean: Tensor | None = None  # (groups,)
    variance: Tensor | None = None  # (groups,)
    eps: float = 0.0
    gain: Tensor | None = None  # (d,)
    bias: Tensor | None = None  # (d,)


@dataclass(frozen=True)
class SublayerNumbers:
    """One token in one sub-layer and its residual connection.

    norm "before" (pre-norm)     sum = weight · stream_before + output, of input = norm(stream_before)
    norm "after" (post-norm)     stream = norm(sum)
    norm "replaces" (CRATE)      sum = input + output: the stream goes on from its norm
    "none"                       a residual connection that is not in the catalogue: sum = stream
    """

    path: str  # decoder.0.cross
    kind: str  # of the sub-layer, as in a config: attention, relu …
    norm_place: NormPlace
    weight: float  # of the stream in the sum: DeepNorm's α, else 1
    stream_before: Tensor
    input: Tensor  # what the mixer or feed-forward reads
    output: Tensor  # what it computes
    sum: Tensor
    stream: Tensor  # what goes on to the next sub-layer
    norm: NormNumbers | None
    second_stream: Tensor | None = None  # ResiDual's


@dataclass(frozen=True)
class EmbeddingNumbers:
    """norm(scale · row + segment + position): the norm and the segment are BERT's."""

    token: int  # its id
    scale: float
    row: Tensor  # of the embedding matrix
    segment: Tensor | None
    position: Tensor | None  # None: no positional encoding is added to the input
    norm: NormNumbers | None
    embedded: Tensor  # the residual stream before the first layer


@dataclass(frozen=True)
class EndNumbers:
    """After the last layer of a side."""

    norm: NormNumbers | None  # None: nothing is normalised there, as in post-norm models
    hidden: Tensor  # what goes into the output head, or of an encoder into cross-attention


class StreamNorms(NamedTuple):
    """The length of each token's vector in the residual stream, after each stage."""

    names: list[str]  # decoder.embedded, decoder.0.self …
    lengths: Tensor  # (stages, tokens)


class Wiring(NamedTuple):
    """How a residual connection joins its sub-layer to the stream."""

    norm: nn.Module | None
    place: NormPlace
    weight: float = 1.0


def layer_indices(tensors: Tensors, side: str) -> list[int]:
    """The layers of this side."""
    return sorted({int(found[1]) for name in tensors if (found := re.match(rf"{side}\.([0-9]+)\.", name))})


def sublayers_of(tensors: Tensors, side: str, layer: int) -> list[str]:
    """Those that this layer has, in the order in which they are computed."""
    return [sub for sub in SUBLAYERS if f"{side}.{layer}.{sub}.stream" in tensors]


def stream_names(tensors: Tensors, side: str) -> list[str]:
    """The tensors of the residual stream, in the order in which they are computed."""
    layers = layer_indices(tensors, side)
    after = [f"{side}.{layer}.{sub}.stream" for layer in layers for sub in sublayers_of(tensors, side, layer)]
    return [f"{side}.embedded", *after]


def select_predicting_stream(tensors: Tensors) -> Tensors:
    """The tensors of a trace in which the residual stream is the one that predicts: of XLNet the query stream, under
    the names that the content stream has, of other models the only one."""
    if "decoder.query.embedded" not in tensors:
        return tensors
    renamed = {name.replace(".query.", ".", 1): tensor for name, tensor in tensors.items() if ".query." in name}
    return {**tensors, **renamed}


def measure_stream(tensors: Tensors, side: str) -> StreamNorms:
    names = stream_names(tensors, side)
    lengths = torch.stack([tensors[name].norm(dim=-1) for name in names])
    return StreamNorms([name.removesuffix(".stream") for name in names], lengths)


def read_sublayer(model: Transformer, tensors: Tensors, path: str, position: int) -> SublayerNumbers:
    """path: decoder.0.cross."""
    if f"{path}.output" not in tensors:
        raise HeadwayError(f"this model has no sub-layer {path}. It has: {', '.join(sublayer_paths(tensors))}.")
    side, layer, sub = path.split(".")
    before = previous_stream(tensors, path)
    check_position(before, position)
    block = find_block(model, side, int(layer))
    wiring = read_wiring(block.residuals[sub])
    given, output, stream = (tensors[f"{path}.{name}"][position] for name in ("input", "output", "stream"))
    total = stream
    if wiring.place != "none":
        total = (given if wiring.place == "replaces" else wiring.weight * before[position]) + output
    norm = None
    if wiring.norm is not None and wiring.place == "after":
        norm = _read_norm(wiring.norm, wiring.weight * before + tensors[f"{path}.output"], position, stream)
    elif wiring.norm is not None:
        norm = _read_norm(wiring.norm, before, position, given)
    second = tensors.get(f"{path}.stream2")
    return SublayerNumbers(
        path=path,
        kind=_sublayer_kind(model, side, int(layer), sub),
        norm_place=wiring.place,
        weight=wiring.weight,
        stream_before=before[position],
        input=given,
        output=output,
        sum=total,
        stream=stream,
        norm=norm,
        second_stream=None if second is None else second[position],
    )


def read_layer(
    model: Transformer, tensors: Tensors, side: str, layer: int, position: int
) -> dict[str, SublayerNumbers]:
    """All sub-layers of one layer, by name: self, cross, feedforward, as far as it has them."""
    if layer not in layer_indices(tensors, side):
        count = len(layer_indices(tensors, side))
        raise HeadwayError(f"there is no layer {layer} in the {side}: it has {count}, counted from 0.")
    paths = {sub: f"{side}.{layer}.{sub}" for sub in SUBLAYERS}
    return {
        sub: read_sublayer(model, tensors, path, position) for sub, path in paths.items() if f"{path}.output" in tensors
    }


@torch.no_grad()
def read_embedding(
    model: Transformer, tensors: Tensors, side: str, ids: Sequence[int], position: int
) -> EmbeddingNumbers:
    """ids: all tokens of this side."""
    embedded = tensors[f"{side}.embedded"]
    check_position(embedded, position)
    embedding: Any = model.embeddings[side]
    stack: Any = model.stacks[side]
    row = embedding.table.weight[ids[position]]
    segments = None if embedding.segments is None else read_segments(embedding.segments.weight, tensors, side, len(ids))
    nothing = row.new_zeros(1, len(ids), len(row))
    added = stack.add_positions(nothing, positions_from_start(len(ids), None, row.device))[0]
    norm = None
    if not isinstance(embedding.norm, nn.Identity):
        table = embedding.table.weight[torch.tensor(list(ids), device=row.device)] * embedding.scale + added
        norm = _read_norm(embedding.norm, table if segments is None else table + segments, position, embedded[position])
    adds = any(part.applies_to == "input" for part in getattr(model.config, side).position)
    return EmbeddingNumbers(
        token=ids[position],
        scale=embedding.scale,
        row=_plain(row),
        segment=None if segments is None else _plain(segments[position]),
        position=_plain(added[position]) if adds else None,
        norm=norm,
        embedded=embedded[position],
    )


def read_segments(rows: Tensor, tensors: Tensors, side: str, length: int) -> Tensor:
    """(T, d) what the embedding adds to each token for the text that it belongs to, the first or the second of a pair.
    rows (2, d)"""
    numbers = tensors.get(f"{side}.segments")
    return rows[torch.zeros(length, dtype=torch.long) if numbers is None else numbers.long()]


@torch.no_grad()
def read_end(model: Transformer, tensors: Tensors, side: str, position: int) -> EndNumbers:
    last = stream_names(tensors, side)[-1]
    check_position(tensors[last], position)
    hidden = finish_stream(model, tensors, side, last)
    ends: Any = model.stacks[side].ends
    norm = None
    if isinstance(ends, PreNorm):
        norm = _read_norm(ends.norm, tensors[last], position, hidden[position])
    elif isinstance(ends, ResiDual):
        second = tensors.get(f"{last}2", ends.scale * tensors[last])
        norm = _read_norm(ends.norm, second, position, hidden[position] - tensors[last][position])
    return EndNumbers(norm, hidden[position])


@torch.no_grad()
def finish_stream(model: Transformer, tensors: Tensors, side: str, name: str) -> Tensor:
    """What would go on if this tensor of the residual stream were that of the last layer: its last norm, (T, d)."""
    like = model.output_embedding
    ends: Any = model.stacks[side].ends
    first, *others = (tensors[one][None].to(like.device, like.dtype) for one in (name, f"{name}2") if one in tensors)
    if isinstance(ends, ResiDual) and not others:  # after the embedding
        s: Any = ends.start(first)
    else:
        s = (first, *others) if others else first
    return _plain(ends.finish(s, positions_from_start(first.shape[1], None, like.device))[0])


def sublayer_paths(tensors: Tensors) -> list[str]:
    return [name.removesuffix(".stream") for name in tensors if name.endswith(".stream")]


def previous_stream(tensors: Tensors, path: str) -> Tensor:
    """The residual stream that this sub-layer gets, (T, d)."""
    names = stream_names(tensors, path.partition(".")[0])
    return tensors[names[names.index(f"{path}.stream") - 1]]


def check_position(stream: Tensor, position: int) -> None:
    if not 0 <= position < len(stream):
        raise HeadwayError(f"there is no token {position}: this side has {len(stream)} tokens, counted from 0.")


def find_block(model: Transformer, side: str, layer: int) -> Any:
    """The block of a layer, which several layers may share."""
    stack: Any = model.stacks[side]
    return stack.layer_blocks[layer]


def _sublayer_kind(model: Transformer, side: str, layer: int, sub: str) -> str:
    parts = getattr(model.config, side).tiled("mixer" if sub == "self" else sub)
    return str(parts[layer].kind)


def read_wiring(residual: nn.Module) -> Wiring:
    if isinstance(residual, CrateResidual):
        return Wiring(residual.norm, "replaces" if residual.replaces_stream else "before")
    if isinstance(residual, PreNorm):
        return Wiring(residual.norm, "before")
    if isinstance(residual, PostNorm | ResiDual):
        return Wiring(residual.norm, "after")
    if isinstance(residual, DeepNorm):
        return Wiring(residual.norm, "after", residual.alpha)
    return Wiring(None, "none")


def _read_norm(norm: Any, x: Tensor, position: int, y: Tensor) -> NormNumbers:
    """x (T, d): what this norm gets; y (d,): what it made of the token at this position."""
    x = _plain(x)
    given = x[position]
    mean: Tensor | None = None
    if isinstance(norm, LayerNorm):
        mean, variance = given.mean()[None], given.var(correction=0)[None]
    elif isinstance(norm, RMSNorm):
        variance = given.square().mean()[None]
    elif isinstance(norm, GroupNorm):
        groups = given.view(norm.groups, -1)
        mean, variance = groups.mean(1), groups.var(1, correction=0)
    elif isinstance(norm, BatchNorm):
        mean, variance = _plain(norm.running_mean), _plain(norm.running_var)
    elif isinstance(norm, InstanceNorm):
        mean, variance = x.mean(0), x.var(0, correction=0)
    else:
        return NormNumbers("none" if isinstance(norm, NoNorm) else type(norm).__name__, given, _plain(y))
    bias = getattr(norm, "bias", None)
    return NormNumbers(
        kind=type(norm).__name__.lower(),
        x=given,
        y=_plain(y),
        mean=mean,
        variance=variance,
        eps=norm.eps,
        gain=_plain(norm.gain),
        bias=None if bias is None else _plain(bias),
    )


def _plain(x: Tensor) -> Tensor:
    return x.detach().to("cpu", torch.float32)
