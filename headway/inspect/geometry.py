"""Where words lie: their neighbours in the vocabulary, their way through the layers, and what positions add."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.inspect.positions import Table
from headway.nn.masks import FULL
from headway.nn.places import places_from
from headway.nn.scores import Bend, Looking
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
                {"kind": t.title, "rows": t.rows, "columns": t.columns, "values": t.values.round(4).tolist()}
                for t in tables
            ]
            if model
            else None,
        }
    return found


@torch.no_grad()
def positions_of(model: Transformer, side: str, length: int) -> list[Table]:
    """What the positions of this side do, out of the modules themselves. Of those that are added: what, by position
    and channel; of others: how they change the score of a query and a key that are alike everywhere."""
    stack: Any = model.stacks[side]
    config = getattr(model.config, side)
    mixers = [mixer for mixer in config.tiled("mixer") if getattr(mixer, "heads", None)]
    heads, width = (mixers[0].heads, mixers[0].d_k or 1) if mixers else (1, 2)
    places = places_from(length, None, model.device)
    tables = []
    for part, module in zip(dict.fromkeys(config.tiled("position")), stack.positions):
        acts = getattr(part, "acts", "nowhere")
        if acts == "adds":
            added = module.add(torch.zeros(1, length, model.config.d_model, device=model.device), places)[0]
            tables.append(Table(added.float().cpu().numpy(), part.kind, "position", "channel"))
        elif acts == "turns":
            turned = module.turn(torch.ones(1, heads, length, width, device=model.device), places)[0, 0]
            tables.append(Table((turned @ turned.T / width).float().cpu().numpy(), part.kind, "query", "key"))
        elif acts == "bends":
            looking = Looking(torch.zeros(1, heads, length, width, device=model.device), places, places, FULL, 1.0, 0)
            score = module.score(looking)
            if score is not None:
                bend = Bend(score, places, places, heads)
                if score.column is None:
                    values = bend(torch.zeros(1, heads, length, length, device=model.device), 1)[0, 0]
                else:
                    values = bend.columns(1)[0, 0]
                tables.append(Table(values.float().cpu().numpy(), part.kind, "query", "key"))
    return tables
