"""Embeddings: nearest tokens in the vocabulary, paths of tokens through the layers, positional encodings."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.inspect.positions import NumberTable
from headway.nn.masks.masks import dense_mask
from headway.nn.positions.score_mod import BoundScoreMod, ScoreModInputs
from headway.nn.sequence import TokenPositions, positions_from_start
from headway.nn.transformer import Transformer

PieceTexts = Callable[[str, Sequence[int]], list[str]]  # the texts of tokens, given a side and their ids


@torch.no_grad()
def nearest_tokens(model: Transformer, side: str, ids: Sequence[int], count: int = 5) -> list[list[tuple[int, float]]]:
    """For each token the tokens with the most similar embeddings: (id, cosine), nearest first."""
    embedding: Any = model.embeddings[side]
    vectors = torch.nn.functional.normalize(embedding.table.weight.detach().float(), dim=-1)  # (V, d)
    chosen = torch.tensor(ids, device=vectors.device)
    cosines = vectors[chosen] @ vectors.T  # (T, V)
    cosines[torch.arange(len(ids)), chosen] = -2.0  # not itself
    best = cosines.topk(min(count, len(vectors) - 1))
    return [list(zip(i, c)) for i, c in zip(best.indices.tolist(), best.values.tolist())]


def project_layers(tensors: Mapping[str, Tensor], side: str) -> tuple[list[str], np.ndarray]:
    """PCA of the residual stream of all layers together, each vector with length 1: the names of the stages, and points
    (stages, tokens, 2). One plane for all stages, so that a token moves because the model moved it."""
    layers = sorted({int(m[1]) for name in tensors if (m := re.match(rf"{side}\.([0-9]+)\.", name))})
    stages = [f"{side}.embedded"]
    for layer in layers:
        streams = [f"{side}.{layer}.{sub}.stream" for sub in ("feedforward", "cross", "self")]
        stages += [name for name in streams if name in tensors][:1]
    vectors = torch.stack([tensors[stage] for stage in stages])  # (stages, T, d)
    flat = torch.nn.functional.normalize(vectors, dim=-1).flatten(0, 1)
    flat = flat - flat.mean(0)
    directions = torch.linalg.svd(flat, full_matrices=False).Vh[:2]
    points = flat @ directions.T
    if points.shape[1] < 2:  # one token, one layer
        points = torch.nn.functional.pad(points, (0, 2 - points.shape[1]))
    return stages, points.reshape(*vectors.shape[:2], 2).numpy()


def describe_vectors(
    tensors: Mapping[str, Tensor],
    sides: Mapping[str, Sequence[int]],
    model: Transformer | None,
    pieces: PieceTexts | None,
) -> dict[str, Any]:
    """What the page draws of each side. Without the model: no nearest tokens, no positional encodings."""
    described: dict[str, Any] = {}
    for side, ids in sides.items():
        stages, points = project_layers(tensors, side)
        neighbours: list[list[list[Any]]] = [[] for _ in ids]
        if model and pieces:
            near = nearest_tokens(model, side, ids)
            neighbours = [[[pieces(side, [n])[0], round(c, 3)] for n, c in row] for row in near]
        tables = position_tables(model, side, max(len(ids), 32)) if model else []
        described[side] = {
            "stages": stages,
            "places": points.round(4).tolist(),
            "neighbours": neighbours,
            "positions": [
                {"kind": t.title, "rows": t.rows, "columns": t.columns, "values": _json_numbers(t.values)}
                for t in tables
            ]
            if model
            else None,
        }
    return described


def _json_numbers(values: np.ndarray) -> list[list[float | None]]:
    """For JSON, which has no NaN: None instead."""
    return [[None if np.isnan(value) else round(value, 4) for value in row] for row in values.tolist()]


@torch.no_grad()
def position_tables(model: Transformer, side: str, length: int) -> list[NumberTable]:
    """Tables of this side's positional encodings, computed by the modules themselves.

    One that is added to the input: what it adds, by position and channel. Others: the score of a query and a key, both
    all ones, by their positions, in the first head of the first layer that has this encoding; NaN behind the mask. For
    a score_mod the dot product of the two is left out."""
    stack: Any = model.stacks[side]
    positions = positions_from_start(length, None, model.device)
    tables = []
    for number, part in enumerate(dict.fromkeys(getattr(model.config, side).tiled("position"))):
        applies_to = getattr(part, "applies_to", "nothing")
        module = stack.positions[number]
        if applies_to == "input":
            added = module.add(torch.zeros(1, length, model.config.d_model, device=model.device), positions)[0]
            tables.append(NumberTable(added.float().cpu().numpy(), part.kind, "position", "channel"))
        elif applies_to in ("qk", "scores"):
            layers = [layer for layer, (own, _) in enumerate(stack.position_of) if own == number]
            tables += _score_tables(model, side, part, layers, positions)
    return tables


def _score_tables(
    model: Transformer, side: str, part: Any, layers: list[int], positions: TokenPositions
) -> list[NumberTable]:
    """Of a positional encoding that these layers share; empty, if it does not change the scores there."""
    stack: Any = model.stacks[side]
    mixers = getattr(model.config, side).tiled("mixer")
    layer = next((layer for layer in layers if getattr(mixers[layer], "heads", None)), layers[0])
    heads = getattr(mixers[layer], "heads", 1)
    width = getattr(mixers[layer], "d_k", 2)
    number, own = stack.position_of[layer]
    mask = stack.masks[layer]
    module = stack.positions[number]
    title = part.kind
    ones = torch.ones(1, heads, positions.length, width, device=model.device)
    if part.applies_to == "qk":
        q, k = module.transform_query(ones, positions, own), module.rotate(ones, positions)
        values = q[0, 0] @ k[0, 0].T / width
    else:
        ones = ones.to(next(module.parameters(), ones).dtype)
        scale = getattr(mixers[layer], "scale", 1.0)
        score = module.score_mod(ScoreModInputs(ones, positions, positions, mask, scale, own))
        if score is None:
            return []
        values = BoundScoreMod(score, positions, positions, heads)(
            ones.new_zeros(1, heads, positions.length, positions.length), 1
        )[0, 0]
        title += f": layer {layer + 1}, head 1" + (", for a query of ones" if score.query_bias is not None else "")
    visible = values.float().cpu().masked_fill(~dense_mask(mask, positions.length), torch.nan)
    return [NumberTable(visible.numpy(), title, "query", "key")]
