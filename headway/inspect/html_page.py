"""A trace as a page that needs nobody: the page of `headway serve`, with everything that it could ask for inside."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from headway.config.schema import from_dict
from headway.inspect.embeddings import vectors_of
from headway.inspect.events import events_of, penalty_of, place_of, places_in
from headway.inspect.model_summary import blocks
from headway.inspect.trace import Trace
from headway.nn.transformer import Transformer

STATIC = Path(__file__).parent.parent / "serve" / "static"
HEIGHT = 900  # pixels, in a notebook


def page_of(trace: Trace, name: str = "", model: Transformer | None = None, pieces: Any = None) -> str:
    """HTML. With the model, and `pieces` of a side and its ids, it shows who is near whom in the vocabulary, too."""
    recorded = {"events": events_of(trace, name), "answers": answers_of(trace, name, model, pieces)}
    data = json.dumps(recorded, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    script, style = ((STATIC / f"page.{ending}").read_text(encoding="utf-8") for ending in ("js", "css"))
    script = script.replace("</script", "<\\/script")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>Headway</title><link rel="icon" href="data:,"><style>{style}</style></head>\n'
        f'<body><div id="page"></div><script type="application/json" id="recording">{data}</script>\n'
        f"<script>{script}</script></body></html>\n"
    )


def framed(trace: Trace) -> str:
    """For notebooks: what runs in the frame touches nothing outside."""
    return (
        f'<iframe srcdoc="{escape(page_of(trace))}" sandbox="allow-scripts allow-downloads" title="{escape(trace.text)}" '
        f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
    )


def answers_of(trace: Trace, name: str, model: Transformer | None, pieces: Any) -> dict[str, Any]:
    """What the server would say, under the names by which the page keeps it."""
    config = from_dict(Transformer.Config, trace.model)
    made = described(config, trace.search, len(trace.source.ids) or 1, len(trace.target.ids) or 1)
    info = {"name": name, "kind": trace.kind, "pairs": [], "loaded": True, **made, "longest": 0}
    ids = {"encoder": trace.source.ids, "decoder": trace.target.ids}
    sides = {side: ids[side] for side in ids if f"{side}.embedded" in trace.tensors}
    answers = {"model": info, "0 costs": info, "0 vectors": vectors_of(trace.tensors, sides, model, pieces)}
    if trace.kind != "masked":
        answers["0 places 1"] = places_in(trace)
    for tensor in trace.tensors:
        if tensor.endswith(".scores"):
            place = tensor.removesuffix(".scores")
            answers[f"0 inside {place}"] = place_of(trace.tensors, place)
    return answers


def described(config: Transformer.Config, search: Mapping[str, Any], source: int, target: int) -> dict[str, Any]:
    """How a model is made, and what it costs to read and write so many tokens."""
    return {
        "config": config.resolved().to_dict(),
        "parameters": config.parameter_count(),
        "flops": config.forward_flops(source, target),
        "lengths": [source, target],
        "blocks": [asdict(block) for block in blocks(config, source, target)],
        "beam_size": search.get("beam_size", 1),
        "penalty": penalty_of(search),
    }
