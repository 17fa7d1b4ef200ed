"""A trace as events and answers for the page: the same JSON that the server's stream and its other routes send."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from headway.inspect.trace import Trace

Event = dict[str, Any]
TokenTexts = Callable[[Sequence[int]], list[str]]  # the texts of token ids
TOP_TOKENS = 10  # how many of the likeliest tokens are reported for each position


def pack_weights(weights: Tensor) -> dict[str, Any]:
    """Weights from 0 to 1 as 16-bit integers: 65535 is 1, and 0 only for exactly 0, as behind a mask. Little-endian, in
    base64."""
    weights = weights.float().clamp(0, 1)
    rounded = (weights * 65535).round().clamp(min=1).masked_fill(weights == 0, 0)
    int_weights = rounded.to(torch.int32).numpy().astype("<u2")
    return {
        "shape": list(int_weights.shape),
        "dtype": "uint16",
        "data": base64.b64encode(int_weights.tobytes()).decode(),
    }


def pack_floats(values: Tensor) -> dict[str, Any]:
    float_values = values.float().numpy().astype("<f4")
    return {
        "shape": list(float_values.shape),
        "dtype": "float32",
        "data": base64.b64encode(float_values.tobytes()).decode(),
    }


def describe_predictions(
    logps: Tensor, written: Sequence[int], pieces: TokenTexts, top: int = TOP_TOKENS, temperature: float = 1.0
) -> dict[str, Any]:
    """For each position the likeliest tokens, from log-probabilities (T, V), and the probability and rank of the token
    that was generated, or that stands there."""
    logps = (logps / temperature).log_softmax(-1)
    best = logps.topk(min(top, logps.shape[-1]))
    entropies = -(logps.exp() * logps.clamp(min=-1e4)).sum(-1)
    rows = []
    for position, ids in enumerate(best.indices.tolist()):
        chosen = written[position] if position < len(written) else None
        rows.append(
            {
                "ids": ids,
                "pieces": pieces(ids),
                "probabilities": [round(p, 6) for p in best.values[position].exp().tolist()],
                "entropy": round(float(entropies[position]), 5),
                "chosen": chosen,
                "probability": None if chosen is None else round(float(logps[position, chosen].exp()), 6),
                "rank": None if chosen is None else int((logps[position] > logps[position, chosen]).sum()) + 1,
            }
        )
    return {"temperature": temperature, "places": rows}


def describe_penalty(search: Mapping[str, Any]) -> list[Any]:
    """The kind of length penalty and its strength; "none" where nothing was searched."""
    return [search.get("penalty", "none"), search.get("alpha", 0.0)]


def trace_events(trace: Trace, model: str) -> list[Event]:
    """The events of POST /api/translate."""
    weights = {name: pack_weights(t) for name, t in trace.tensors.items() if name.endswith(".weights")}
    encoder = {name: tensor for name, tensor in weights.items() if name.startswith("encoder.")}
    decoder = {name: tensor for name, tensor in weights.items() if name.startswith("decoder.")}
    sentence = {"sentence": 0, "sentences": 1, "text": trace.text, "forced": trace.forced}
    if trace.source.ids and trace.forced:
        sentence["forced_logps"] = _forced_logps(trace)
    if trace.expected.ids:
        sentence["expected"] = trace.expected._asdict()
    if trace.second:
        sentence["second"] = trace.second
    events: list[Event] = [
        {"event": "start", "model": model, "kind": trace.kind, "penalty": describe_penalty(trace.search)},
        {"event": "sentence", **sentence, **trace.source._asdict(), "tensors": encoder},
    ]
    for step in trace.beam:
        beam = {name: asdict(step)[name] for name in ("parents", "ids", "logps", "fates")}
        beam["pieces"] = [trace.pieces[token] for token in step.ids]
        events.append({"event": "step", "step": step.step, "beam": beam})
    result: dict[str, Any] = {
        "text": trace.output,
        "score": round(trace.found[0].score, 5) if trace.found else 0.0,
        "finished": len(trace.written.ids) == len(trace.target.ids),
    }
    ids = trace.target.ids[1:]
    pieces = trace.target.pieces[1:]
    if trace.prediction:
        result["prediction"] = trace.prediction
    if trace.iterations:
        ids, pieces = trace.written
        result |= {"input": trace.target._asdict(), "iterations": _describe_iterations(trace)}
    events.append({"event": "found", "ids": ids, "pieces": pieces, "first": 0, "tensors": decoder, **result})
    return [*events, {"event": "end", "text": trace.output, "warnings": trace.warnings}]


def _forced_logps(trace: Trace) -> list[float]:
    """The log-probability of each token that the output had to begin with."""
    logps = trace.tensors["output.logps"]
    return [round(float(logps[place, token]), 5) for place, token in enumerate(trace.written.ids[: trace.forced])]


def _describe_iterations(trace: Trace) -> list[dict[str, Any]]:
    return [
        {
            **iteration.to_dict(),
            "read_pieces": [trace.pieces[token] for token in iteration.read],
            "pieces": [trace.pieces[token] for token in iteration.ids],
        }
        for iteration in trace.iterations
    ]


def trace_predictions(trace: Trace, top: int = TOP_TOKENS) -> dict[str, Any]:
    """describe_predictions of a trace, which has the texts of its likeliest tokens: of what was written, or of a masked
    language model, of what stands in its text."""
    known = trace.pieces
    return describe_predictions(
        trace.tensors["output.logps"],
        trace.written.ids or trace.expected.ids or trace.source.ids,
        lambda ids: [known.get(n, f"⟨{n}⟩") for n in ids],
        top,
    )
