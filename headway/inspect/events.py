"""A trace as the events that the page draws: those of the server's stream, with everything that it could ask for."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from headway.inspect.trace import Trace

Event = dict[str, Any]
Pieces = Callable[[Sequence[int]], list[str]]  # how tokens read
TOP = 10  # likeliest tokens of each place that are told
SUFFIXES = (".q", ".k", ".v", ".scores", ".weights")


def packed_weights(weights: Tensor) -> dict[str, Any]:
    """Between 0 and 1 as 16 bits: 65535 is 1, and only what is exactly 0, as behind a mask, is 0. Little-endian, in
    base64."""
    weights = weights.float().clamp(0, 1)
    rounded = (weights * 65535).round().clamp(min=1).masked_fill(weights == 0, 0)
    whole = rounded.to(torch.int32).numpy().astype("<u2")
    return {"shape": list(whole.shape), "dtype": "uint16", "data": base64.b64encode(whole.tobytes()).decode()}


def packed_floats(values: Tensor) -> dict[str, Any]:
    plain = values.float().numpy().astype("<f4")
    return {"shape": list(plain.shape), "dtype": "float32", "data": base64.b64encode(plain.tobytes()).decode()}


def places_of(
    logps: Tensor, written: Sequence[int], pieces: Pieces, top: int = TOP, temperature: float = 1.0
) -> dict[str, Any]:
    """For each place of a decoder what was likely there, from log-probabilities (T, V); and how likely what came was."""
    logps = (logps / temperature).log_softmax(-1)
    best = logps.topk(min(top, logps.shape[-1]))
    entropies = -(logps.exp() * logps.clamp(min=-1e4)).sum(-1)
    rows = []
    for place, ids in enumerate(best.indices.tolist()):
        chosen = written[place] if place < len(written) else None
        rows.append(
            {
                "ids": ids,
                "pieces": pieces(ids),
                "probabilities": [round(p, 6) for p in best.values[place].exp().tolist()],
                "entropy": round(float(entropies[place]), 5),
                "chosen": chosen,
                "probability": None if chosen is None else round(float(logps[place, chosen].exp()), 6),
                "rank": None if chosen is None else int((logps[place] > logps[place, chosen]).sum()) + 1,
            }
        )
    return {"temperature": temperature, "places": rows}


def place_of(tensors: Mapping[str, Tensor], place: str) -> dict[str, Any]:
    """Everything of one sub-layer, such as decoder.0.cross; x is what it was given, before its norm if it has one."""
    side, layer, sub = place.split(".")
    order = ["self", "cross", "feedforward"]
    before = [f"{side}.{layer}.{name}.stream" for name in order[: order.index(sub)]]
    before += [f"{side}.{int(layer) - 1}.{name}.stream" for name in order]
    earlier = [name for name in (*reversed(before[: order.index(sub)]), *reversed(before[-3:])) if name in tensors]
    x = tensors.get(earlier[0] if earlier else f"{side}.embedded")
    found = {suffix[1:]: tensors[place + suffix] for suffix in SUFFIXES if place + suffix in tensors}
    if x is not None:
        found["x"] = x
    if f"{place}.output" in tensors:
        found["output"] = tensors[f"{place}.output"]
    return {name: packed_floats(tensor) for name, tensor in found.items()}


def penalty_of(search: Mapping[str, Any]) -> list[Any]:
    """How lengths count, and how much; nothing where nothing was searched."""
    return [search.get("penalty", "none"), search.get("alpha", 0.0)]


def events_of(trace: Trace, model: str) -> list[Event]:
    """As POST /api/translate tells them."""
    weights = {name: packed_weights(t) for name, t in trace.tensors.items() if name.endswith(".weights")}
    encoder = {name: tensor for name, tensor in weights.items() if name.startswith("encoder.")}
    decoder = {name: tensor for name, tensor in weights.items() if name.startswith("decoder.")}
    sentence = {"sentence": 0, "sentences": 1, "text": trace.text, "forced": trace.forced}
    events: list[Event] = [
        {"event": "start", "model": model, "kind": trace.kind, "penalty": penalty_of(trace.search)},
        {"event": "sentence", **sentence, **trace.source._asdict(), "tensors": encoder},
    ]
    for choice in trace.beam:
        beam = {name: asdict(choice)[name] for name in ("parents", "ids", "logps", "fates")}
        beam["pieces"] = [trace.pieces[token] for token in choice.ids]
        events.append({"event": "step", "step": choice.step, "beam": beam})
    told = {"text": trace.output, "score": round(trace.found[0].score, 5) if trace.found else 0.0}
    told["finished"] = len(trace.written.ids) == len(trace.target.ids)
    ids, pieces = trace.target.ids[1:], trace.target.pieces[1:]
    events.append({"event": "found", "ids": ids, "pieces": pieces, "first": 0, "tensors": decoder, **told})
    return [*events, {"event": "end", "text": trace.output, "warnings": trace.warnings}]


def places_in(trace: Trace, top: int = TOP) -> dict[str, Any]:
    """Of a trace, which knows how its likeliest tokens read."""
    known = trace.pieces
    return places_of(
        trace.tensors["output.logps"], trace.written.ids, lambda ids: [known.get(n, f"⟨{n}⟩") for n in ids], top
    )
