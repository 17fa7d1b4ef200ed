"""Where words lie: their neighbours in the vocabulary, their way through the layers, and what positions add."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.inspect.positions import Table
from headway.nn.masks.masks import dense_mask
from headway.nn.positions.score_mod import Bend, Looking
from headway.nn.sequence import Places, places_from
from headway.nn.transformer import Transformer


@torch.no_grad()
def neighbours(model: Transformer, side: str, ids: Sequence[int], count: int = 5) -> list[list[tuple[int, float]]]:
    """For each token those whose vectors point in the same direction: (id, cosine), nearest first."""
    embedding: Any = model.embeddings[side]
    words = torch.nn.functional.normalize(embedding.table.weight.detach().float(), dim=-1)  # (V, d)
    chosen = torch.tensor(ids, device=words.device)
    cosines = words[chosen] @ words.T  # (T, V)
    cosines[torch.arange(len(ids)), chosen] = -2.0  # not itself
    best = cosines.topk(min(count, len(words) - 1))
    return [list(zip(i, c)) for i, c in zip(best.indices.tolist(), best.values.tolist())]


def ways(tensors: Mapping[str, Tensor], side: str) -> tuple[list[str], np.ndarray]:
    """A plane in which the vectors of all layers differ most, each taken with length 1: the names of the stages, and
    places (stages, tokens, 2). One plane for all, so that a token moves because the model moved it."""
    layers = sorted({int(m[1]) for name in tensors if (m := re.match(rf"{side}\.([0-9]+)\.", name))})
    stages = [f"{side}.embedded"]
    for layer in layers:
        streams = [f"{side}.{layer}.{sub}.stream" for sub in ("feedforward", "cross", "self")]
        stages += [name for name in streams if name in tensors][:1]
    vectors = torch.stack([tensors[stage] for stage in stages])  # (stages, T, d)
    flat = torch.nn.functional.normalize(vectors, dim=-1).flatten(0, 1)
    flat = flat - flat.mean(0)
    directions = torch.linalg.svd(flat, full_matrices=False).Vh[:2]
    places = flat @ directions.T
    if places.shape[1] < 2:  # one token, one layer
        places = torch.nn.functional.pad(places, (0, 2 - places.shape[1]))
    return stages, places.reshape(*vectors.shape[:2], 2).numpy()


def vectors_of(
    tensors: Mapping[str, Tensor], sides: Mapping[str, Sequence[int]], model: Transformer | None, pieces: Any
) -> dict[str, Any]:
    """What the page draws of the tokens of each side. Without the model nobody knows who is near, nor its positions.
    pieces: of a side and its ids."""
    found: dict[str, Any] = {}
    for side, ids in sides.items():
        stages, places = ways(tensors, side)
        near = neighbours(model, side, ids) if model else [[] for _ in ids]
        tables = positions_of(model, side, max(len(ids), 32)) if model else []
        found[side] = {
            "stages": stages,
            "places": places.round(4).tolist(),
            "neighbours": [[[pieces(side, [n])[0], round(c, 3)] for n, c in row] for row in near],
            "positions": [
                {"kind": t.title, "rows": t.rows, "columns": t.columns, "values": _numbers(t.values)} for t in tables
            ]
            if model
            else None,
        }
    return found


def _numbers(values: np.ndarray) -> list[list[float | None]]:
    """For JSON, which has no nan."""
    return [[None if np.isnan(value) else round(value, 4) for value in row] for row in values.tolist()]


@torch.no_grad()
def positions_of(model: Transformer, side: str, length: int) -> list[Table]:
    """What the positions of this side do, out of the modules themselves. Of those that are added: what, by position
    and channel. Of others: how the score of a query and a key that are alike depends on where they stand, in the first
    head of the first layer that has the position; nan where that layer may not look. Query and key are all ones; where
    scores are bent, what the two say to each other is left out."""
    stack: Any = model.stacks[side]
    places = places_from(length, None, model.device)
    tables = []
    for number, part in enumerate(dict.fromkeys(getattr(model.config, side).tiled("position"))):
        acts, module = getattr(part, "acts", "nowhere"), stack.positions[number]
        if acts == "adds":
            added = module.add(torch.zeros(1, length, model.config.d_model, device=model.device), places)[0]
            tables.append(Table(added.float().cpu().numpy(), part.kind, "position", "channel"))
        elif acts in ("turns", "bends"):
            layers = [layer for layer, (own, _) in enumerate(stack.position_of) if own == number]
            tables += _scores(model, side, part, layers, places)
    return tables


def _scores(model: Transformer, side: str, part: Any, layers: list[int], places: Places) -> list[Table]:
    """Of a position that these layers share; nothing, where it has nothing to say."""
    stack: Any = model.stacks[side]
    mixers = getattr(model.config, side).tiled("mixer")
    layer = next((layer for layer in layers if getattr(mixers[layer], "heads", None)), layers[0])
    heads, width = getattr(mixers[layer], "heads", 1), getattr(mixers[layer], "d_k", 2)
    (number, own), mask = stack.position_of[layer], stack.masks[layer]
    module, title = stack.positions[number], part.kind
    ones = torch.ones(1, heads, places.length, width, device=model.device)
    if part.acts == "turns":
        turned = module.turn(ones, places)[0, 0]
        values = turned @ turned.T / width
    else:
        ones = ones.to(next(module.parameters(), ones).dtype)
        scale = getattr(mixers[layer], "scale", 1.0)
        score = module.score(Looking(ones, places, places, mask, scale, own))
        if score is None:
            return []
        values = Bend(score, places, places, heads)(ones.new_zeros(1, heads, places.length, places.length), 1)[0, 0]
        title += f": layer {layer + 1}, head 1" + (", for a query of ones" if score.asks is not None else "")
    shown = values.float().cpu().masked_fill(~dense_mask(mask, places.length), torch.nan)
    return [Table(shown.numpy(), title, "query", "key")]
