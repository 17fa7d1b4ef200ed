"""What layers, neurons and output_scores compute for one token, as JSON: the answers of POST /api/layer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor

from headway.inspect.events import TokenTexts, pack_floats
from headway.inspect.layers import (
    NormNumbers,
    check_position,
    layer_indices,
    measure_stream,
    read_embedding,
    read_end,
    read_layer,
    select_predicting_stream,
    stream_names,
)
from headway.inspect.neurons import compute_activations, read_neuron, read_neurons, read_router
from headway.inspect.operations import list_operations
from headway.inspect.output_scores import logit_lens, output_side, read_loss, read_output, score_tokens, scores_tokens
from headway.nn.transformer import Transformer

LayerPart = Literal["flow", "stream", "embedding", "layer", "neuron", "end", "output", "lens"]
MAX_CELLS = 20_000  # of one table: beyond it, only tokens around the chosen one are told of
MAX_LENS_CELLS = 512  # of which each is a product with the whole vocabulary
SHOWN_ROWS = 5  # of the output matrix, with all their numbers
SHOWN_CHANNELS = 8  # of each vector on its way
SHOWN_TOKENS = 3  # that a vector becomes


@dataclass(frozen=True, kw_only=True)
class LayerQuestion:
    """What is asked of one token in one layer."""

    parts: Sequence[LayerPart]
    side: Literal["encoder", "decoder"]
    position: int  # of the token on its side
    ids: Sequence[int]  # all tokens of this side
    expected: Sequence[int | None]  # the token that each position then says; None where there is none
    layer: int = 0
    neuron: int = 0
    expert: int | None = None  # None: that with the largest share
    top: int = 10


def describe_layer_parts(
    model: Transformer, tensors: Mapping[str, Tensor], asked: LayerQuestion, pieces: TokenTexts
) -> dict[str, Any]:
    """pieces: the texts of tokens of the output."""
    predicting = select_predicting_stream(tensors)
    makers: dict[LayerPart, Callable[[], Any]] = {
        "flow": lambda: _describe_flow(model, predicting, asked, pieces),
        "stream": lambda: _describe_stream(predicting, asked),
        "embedding": lambda: _describe_embedding(model, tensors, asked),  # of the token that is read
        "layer": lambda: _describe_layer(model, predicting, asked),
        "neuron": lambda: _describe_neuron(model, predicting, asked),
        "end": lambda: _describe_end(model, predicting, asked),
        "output": lambda: _describe_output(model, predicting, asked, pieces),
        "lens": lambda: _describe_lens(model, predicting, asked, pieces),
    }
    check_position(tensors[f"{asked.side}.embedded"], asked.position)
    return {part: makers[part]() for part in dict.fromkeys(asked.parts)}


def window_around(position: int, length: int, rows: int, most: int) -> range:
    """The tokens around this one, so many that a table with `rows` rows has at most `most` cells."""
    count = min(length, max(1, most // max(rows, 1)))
    first = min(max(position - count // 2, 0), length - count)
    return range(first, first + count)


def _describe_flow(
    model: Transformer, tensors: Mapping[str, Tensor], asked: LayerQuestion, pieces: TokenTexts
) -> dict[str, Any]:
    """For each operation the length of each token's vector and its first numbers; and what the vectors become."""
    found = list_operations(model, tensors, asked.side, asked.ids)
    shown = window_around(asked.position, len(asked.ids), len(found), MAX_CELLS)
    results = torch.stack([operation.result[shown.start : shown.stop] for operation in found])  # (operations, T, d)
    said = None
    if asked.side == output_side(model) and scores_tokens(model):
        logits = score_tokens(model, tensors["output.hidden"][shown.start : shown.stop])
        best = logits.topk(min(SHOWN_TOKENS, logits.shape[-1]))
        said = {
            "ids": best.indices.tolist(),
            "pieces": [pieces(row) for row in best.indices.tolist()],
            "logits": best.values.tolist(),
            "probabilities": (best.values - logits.logsumexp(-1, keepdim=True)).exp().tolist(),
        }
    return {
        "ids": list(asked.ids),
        "first": shown.start,
        "names": [operation.name for operation in found],
        "kinds": [operation.kind for operation in found],
        "lengths": pack_floats(results.norm(dim=-1)),
        "starts": pack_floats(results[..., :SHOWN_CHANNELS]),
        "said": said,
    }


def _describe_stream(tensors: Mapping[str, Tensor], asked: LayerQuestion) -> dict[str, Any]:
    found = measure_stream(tensors, asked.side)
    shown = window_around(asked.position, found.lengths.shape[1], len(found.names), MAX_CELLS)
    lengths = found.lengths[:, shown.start : shown.stop]
    return {"names": found.names, "first": shown.start, "lengths": pack_floats(lengths)}


def _describe_embedding(model: Transformer, tensors: Mapping[str, Tensor], asked: LayerQuestion) -> dict[str, Any]:
    found = read_embedding(model, tensors, asked.side, asked.ids, asked.position)
    return {
        "token": found.token,
        "scale": found.scale,
        "row": pack_floats(found.row),
        "segment": _pack(found.segment),
        "position": _pack(found.position),
        "norm": _describe_norm(found.norm),
        "embedded": pack_floats(found.embedded),
    }


def _describe_layer(model: Transformer, tensors: Mapping[str, Tensor], asked: LayerQuestion) -> dict[str, Any]:
    """Its sub-layers, and what its feed-forward does."""
    found = read_layer(model, tensors, asked.side, asked.layer, asked.position)
    sublayers = {}
    for name, sub in found.items():
        numbers = {"kind": sub.kind, "norm_place": sub.norm_place, "weight": sub.weight}
        vectors = ("stream_before", "input", "output", "sum", "stream", "second_stream")
        sublayers[name] = {
            **numbers,
            **{vector: _pack(getattr(sub, vector)) for vector in vectors},
            "norm": _describe_norm(sub.norm),
        }
    return {
        "sublayers": sublayers,
        "neurons": _describe_neurons(model, tensors, asked),
        "router": _describe_router(tensors, asked),
    }


def _describe_neurons(model: Transformer, tensors: Mapping[str, Tensor], asked: LayerQuestion) -> dict[str, Any] | None:
    path = f"{asked.side}.{asked.layer}.feedforward"
    found = read_neurons(model, tensors, path, asked.position, asked.top, asked.expert)
    if found is None:
        return None
    every = compute_activations(model, tensors, path, found.expert)
    assert every is not None
    shown = window_around(asked.position, len(tensors[f"{path}.input"]), len(found.ids), MAX_CELLS)
    rows = [(every.tokens.index(token) if token in every.tokens else None) for token in shown]
    excited = [[None if row is None else round(float(every.values[row, n]), 6) for row in rows] for n in found.ids]
    numbers = {spec.name: getattr(found, spec.name) for spec in fields(found)}
    return {**numbers, "first": shown.start, "tokens": excited}


def _describe_router(tensors: Mapping[str, Tensor], asked: LayerQuestion) -> dict[str, Any] | None:
    found = read_router(tensors, f"{asked.side}.{asked.layer}.feedforward")
    if found is None:
        return None
    shown = window_around(asked.position, len(found.chosen), found.probabilities.shape[1], MAX_CELLS)
    return {
        "first": shown.start,
        "probabilities": pack_floats(found.probabilities[shown.start : shown.stop]),
        "chosen": found.chosen[shown.start : shown.stop].tolist(),
        "shares": [[round(share, 6) for share in row] for row in found.shares[shown.start : shown.stop].tolist()],
    }


def _describe_neuron(model: Transformer, tensors: Mapping[str, Tensor], asked: LayerQuestion) -> dict[str, Any]:
    path = f"{asked.side}.{asked.layer}.feedforward"
    values = read_neuron(model, tensors, path, asked.neuron, asked.expert)
    return {"neuron": asked.neuron, "expert": asked.expert, "values": values}


def _describe_end(model: Transformer, tensors: Mapping[str, Tensor], asked: LayerQuestion) -> dict[str, Any]:
    found = read_end(model, tensors, asked.side, asked.position)
    return {"norm": _describe_norm(found.norm), "hidden": pack_floats(found.hidden)}


def _describe_output(
    model: Transformer, tensors: Mapping[str, Tensor], asked: LayerQuestion, pieces: TokenTexts
) -> dict[str, Any] | None:
    """None: the vectors of this side are not scored."""
    if asked.side != output_side(model) or not scores_tokens(model):
        return None
    expected = asked.expected[asked.position]
    found = read_output(model, tensors, asked.position, asked.top, expected)
    loss = None if expected is None else read_loss(model, tensors, asked.position, expected)
    return {
        "x": pack_floats(found.x),
        "ids": found.ids,
        "pieces": pieces(found.ids),
        "rows": pack_floats(found.rows[:SHOWN_ROWS]),
        "bias": None if found.bias is None else found.bias.tolist(),
        "logits": found.logits.tolist(),
        "probabilities": found.logps.exp().tolist(),
        "expected": expected,
        "temperatures": list(found.normalisers),
        "normalisers": list(found.normalisers.values()),
        "entropies": list(found.entropies.values()),
        "surprise": None if loss is None else loss.surprise,
        "mean_surprise": None if loss is None else loss.mean_surprise,
    }


def _describe_lens(
    model: Transformer, tensors: Mapping[str, Tensor], asked: LayerQuestion, pieces: TokenTexts
) -> dict[str, Any] | None:
    if asked.side != output_side(model) or not scores_tokens(model):
        return None
    stages = len(layer_indices(tensors, asked.side)) + 1
    length = len(tensors[stream_names(tensors, asked.side)[0]])
    shown = window_around(asked.position, length, stages, MAX_LENS_CELLS)
    top = min(asked.top, 5)
    found = logit_lens(model, tensors, shown, asked.expected[shown.start : shown.stop], top)
    return {
        "first": shown.start,
        "stages": [
            {
                "name": stage.name,
                "ids": stage.ids,
                "pieces": [pieces(row) for row in stage.ids],
                "probabilities": [[round(p, 6) for p in row] for row in stage.logps.exp().tolist()],
                "expected": [
                    round(p, 6) if rank else None for p, rank in zip(stage.expected.exp().tolist(), stage.ranks)
                ],
                "ranks": stage.ranks,
            }
            for stage in found
        ],
    }


def _describe_norm(norm: NormNumbers | None) -> dict[str, Any] | None:
    if norm is None:
        return None
    vectors = ("x", "y", "mean", "variance", "gain", "bias")
    return {"kind": norm.kind, "eps": norm.eps, **{name: _pack(getattr(norm, name)) for name in vectors}}


def _pack(x: Tensor | None) -> dict[str, Any] | None:
    return None if x is None else pack_floats(x)


def expected_tokens(
    model: Transformer, side: str, read: Sequence[int], next_ids: Sequence[int], length: int
) -> list[int | None]:
    """The token that each position of this side says: the next one in a decoder, its own in a masked language model.
    next_ids: those that follow each position of the decoder, as far as they are known."""
    if side != output_side(model):
        return [None] * length
    known: list[int | None] = list(read if side == "encoder" else next_ids)
    return [*known[:length], *[None] * (length - len(known))]
