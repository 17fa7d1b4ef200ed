"""A trace as one HTML file that works without a server: the page of `headway serve` with all its answers inside."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.config.own_kinds import reading_stored
from headway.config.schema import from_dict
from headway.files.atomic import write_text_atomically
from headway.files.notebook_html import render_framed_page
from headway.inspect.embeddings import describe_vectors
from headway.inspect.events import describe_penalty, trace_events, trace_predictions
from headway.inspect.model_summary import summarise_blocks
from headway.inspect.sublayers import describe_sublayer
from headway.inspect.trace import Trace
from headway.nn.transformer import Transformer

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

STATIC_DIR = Path(__file__).parent.parent / "serve" / "static"
FRAME_PIXELS = 900  # pixels, in a notebook


def render_page(trace: Trace, name: str = "", model: Transformer | None = None, pieces: Any = None) -> str:
    """HTML. With the model, and `pieces` (token texts, given a side and ids), it shows nearest tokens as well."""
    recorded = {"events": trace_events(trace, name), "answers": record_answers(trace, name, model, pieces)}
    data = json.dumps(recorded, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    script, style = ((STATIC_DIR / name).read_text(encoding="utf-8") for name in ("whole.js", "page.css"))
    script = script.replace("</script", "<\\/script")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>Headway</title><link rel="icon" href="data:,"><style>{style}</style></head>\n'
        f'<body><div id="page"></div><script type="application/json" id="recording">{data}</script>\n'
        f"<script>{script}</script></body></html>\n"
    )


def render_frame(trace: Trace) -> str:
    """The page in a frame, for notebooks."""
    return render_framed_page(render_page(trace), trace.text, FRAME_PIXELS)


class PageWidget:
    """The page of one text for a notebook cell, with all its panels; `save` writes it as a file of its own."""

    def __init__(self, page: str, title: str, height: int = FRAME_PIXELS) -> None:
        self.page, self.title, self.height = page, title, height

    def __repr__(self) -> str:
        return f"<PageWidget {self.title!r}: {len(self.page):,} characters of HTML>"

    def _repr_html_(self) -> str:
        return render_framed_page(self.page, self.title, self.height)

    def save(self, path: str | Path) -> None:
        write_text_atomically(Path(path), self.page)


def make_widget(
    model: "Translator | LanguageModel", text: str, height: int = FRAME_PIXELS, **settings: Any
) -> PageWidget:
    """What a model does with a text, on the page of `headway serve`, nearest tokens included. settings: of `trace`."""
    from headway.translate.translator import Translator

    if isinstance(model, Translator):
        network, tokenizers = model.steppers[0].model, model.tokenizers
        readers = {"encoder": tokenizers.source, "decoder": tokenizers.target}
    else:
        network = model.model
        readers = {"encoder": model.tokenizer, "decoder": model.tokenizer}
    trace = model.trace(text, **settings)
    page = render_page(trace, "", network, lambda side, ids: readers[side].pieces(ids))
    return PageWidget(page, text, height)


def record_answers(trace: Trace, name: str, model: Transformer | None, pieces: Any) -> dict[str, Any]:
    """What the server would answer, under the keys by which the page looks it up."""
    with reading_stored():  # a trace may be anybody's file
        config = from_dict(Transformer.Config, trace.model)
    description = describe_model(config, trace.search, len(trace.source.ids) or 1, len(trace.target.ids) or 1)
    info = {"name": name, "kind": trace.kind, "pairs": [], "loaded": True, **description, "longest": 0}
    ids = {"encoder": trace.source.ids, "decoder": trace.target.ids}
    sides = {side: ids[side] for side in ids if f"{side}.embedded" in trace.tensors}
    answers = {"model": info, "0 costs": info, "0 vectors": describe_vectors(trace.tensors, sides, model, pieces)}
    if trace.kind != "masked":
        answers["0 places 1"] = trace_predictions(trace)
    for tensor in trace.tensors:
        if tensor.endswith(".scores"):
            path = tensor.removesuffix(".scores")
            answers[f"0 inside {path}"] = describe_sublayer(trace.tensors, path, config, model)
    return answers


def describe_model(config: Transformer.Config, search: Mapping[str, Any], source: int, target: int) -> dict[str, Any]:
    """A model's config, parameters and blocks, and its FLOPs for so many source and target tokens."""
    return {
        "config": config.resolved().to_dict(),
        "parameters": config.parameter_count(),
        "flops": config.forward_flops(source, target),
        "lengths": [source, target],
        "blocks": [asdict(block) for block in summarise_blocks(config, source, target)],
        "beam_size": search.get("beam_size", 1),
        "penalty": describe_penalty(search),
    }
