"""The operations that a token's vector goes through on one side, in order, as the wiring of the model has them: what a
picture of the whole model is drawn from, and played along."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from headway.inspect.layers import (
    Tensors,
    find_block,
    layer_indices,
    previous_stream,
    read_segments,
    read_wiring,
    sublayers_of,
)
from headway.nn.layers.residual import PreNorm, ResiDual
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer

OperationKind = Literal["embedding", "position", "norm", "self", "cross", "feedforward", "add"]


class OperationResult(NamedTuple):
    name: str  # decoder.embedding, decoder.0.self.norm, decoder.0.self, decoder.0.self.add, decoder.end.norm …
    kind: OperationKind
    result: Tensor  # (T, d)


@torch.no_grad()
def list_operations(model: Transformer, tensors: Tensors, side: str, ids: Sequence[int]) -> list[OperationResult]:
    """ids: all tokens of this side. Each operation takes the result of the one before it; "add" also takes the residual
    stream, and "cross" the encoder's output. What a model does not do is not in the list. Of a model with two streams
    the tensors are those of the one that predicts (see select_predicting_stream)."""
    found = _list_embedding(model, tensors, side, ids)
    for layer in layer_indices(tensors, side):
        for sub in sublayers_of(tensors, side, layer):
            found += _list_sublayer(model, tensors, f"{side}.{layer}.{sub}")
    stack: Any = model.stacks[side]
    if isinstance(stack.ends, PreNorm | ResiDual):
        name = "output.hidden" if side == model.config.sides[-1] else f"{side}.output"
        found.append(OperationResult(f"{side}.end.norm", "norm", tensors[name]))
    return found


def _list_embedding(model: Transformer, tensors: Tensors, side: str, ids: Sequence[int]) -> list[OperationResult]:
    embedding: Any = model.embeddings[side]
    stack: Any = model.stacks[side]
    if stack.query_stream is not None:  # it begins with the same vector for all tokens, and with their positions
        start = _plain(stack.query_stream.start).expand(len(ids), -1)
        found = [OperationResult(f"{side}.embedding", "embedding", start)]
        if any(part.applies_to == "input" for part in getattr(model.config, side).position):
            found.append(OperationResult(f"{side}.position", "position", tensors[f"{side}.embedded"]))
        return found
    rows = embedding.table.weight[torch.tensor(list(ids), device=embedding.table.weight.device)] * embedding.scale
    if embedding.segments is not None:
        rows = rows + read_segments(embedding.segments.weight, tensors, side, len(ids))
    found = [OperationResult(f"{side}.embedding", "embedding", _plain(rows))]
    if any(part.applies_to == "input" for part in getattr(model.config, side).position):
        added = stack.add_positions(rows[None], positions_from_start(len(ids), None, rows.device))[0]
        found.append(OperationResult(f"{side}.position", "position", _plain(added)))
    if not isinstance(embedding.norm, torch.nn.Identity):
        found.append(OperationResult(f"{side}.embedding.norm", "norm", tensors[f"{side}.embedded"]))
    return found


def _list_sublayer(model: Transformer, tensors: Tensors, path: str) -> list[OperationResult]:
    side, layer, sub = path.split(".")
    wiring = read_wiring(find_block(model, side, int(layer)).residuals[sub])
    output, stream = tensors[f"{path}.output"], tensors[f"{path}.stream"]
    work = OperationResult(path, sub, output)  # type: ignore[arg-type]
    if wiring.place == "none":
        return [work, OperationResult(f"{path}.add", "add", stream)]
    if wiring.place == "after":
        total = wiring.weight * previous_stream(tensors, path) + output
        return [work, OperationResult(f"{path}.add", "add", total), OperationResult(f"{path}.norm", "norm", stream)]
    return [
        OperationResult(f"{path}.norm", "norm", tensors[f"{path}.input"]),
        work,
        OperationResult(f"{path}.add", "add", stream),
    ]


def _plain(x: Tensor) -> Tensor:
    return x.detach().to("cpu", torch.float32)
