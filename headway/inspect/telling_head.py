"""The head that a page opens on: the one that shows most. `web/src/first-look.ts` chooses by the same rule."""

from itertools import count

from torch import Tensor

from headway.inspect.trace import Trace


def find_telling_head(trace: Trace) -> tuple[int, int] | None:
    """Layer and head of the cross-attention, or of the self-attention of a model with one stack.

    In this head most columns are looked at sharply by some row. What a place sees of itself does not count, nor do the
    marks at the ends. None: no head has weights."""
    queries, keys, side, sub = trace.source.pieces, trace.source.pieces, "encoder", "self"
    if trace.target.ids:
        is_cross = bool(trace.source.ids)
        queries, keys = trace.written.pieces, trace.source.pieces if is_cross else trace.target.pieces
        side, sub = "decoder", "cross" if is_cross else "self"
    rows, columns = _words(queries), _words(keys)
    best, most = None, 0.0
    for layer in count():
        if f"{side}.{layer}.{sub}.stream" not in trace.tensors:
            return best
        for head, weights in enumerate(trace.tensors.get(f"{side}.{layer}.{sub}.weights", ())):
            told = _sharpness(weights, rows, columns, own_counts=sub == "cross")
            if told > most:
                best, most = (layer, head), told
    return best


def _words(pieces: list[str]) -> list[int]:
    return [n for n, piece in enumerate(pieces) if piece != "…" and not (piece[:1] == "⟨" and piece[-1:] == "⟩")]


def _sharpness(weights: Tensor, rows: list[int], columns: list[int], own_counts: bool) -> float:
    """weights: (T, S)"""
    rows, columns = [n for n in rows if n < len(weights)], [n for n in columns if n < weights.shape[1]]
    if not rows or not columns:
        return 0.0
    seen = weights if own_counts else weights.clone().fill_diagonal_(0.0)
    return float(seen[rows][:, columns].max(0).values.sum())
