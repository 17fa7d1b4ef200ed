"""A trace as one HTML file that works without a server: the page of `headway serve` with all its answers inside."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.files.atomic import write_text_atomically
from headway.files.notebook_html import render_framed_page
from headway.inspect.events import trace_events
from headway.inspect.recorded_answers import TracedText, attach_model, record_answers
from headway.inspect.trace import Trace

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

STATIC_DIR = Path(__file__).parent.parent / "serve" / "static"
FRAME_PIXELS = 900  # pixels, in a notebook


def render_page(traced: TracedText, name: str = "") -> str:
    """HTML. With its model, it shows nearest tokens and the like as well."""
    recorded = {"events": trace_events(traced.trace, name), "answers": record_answers(traced, name)}
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
    return render_framed_page(render_page(TracedText(trace)), trace.text, FRAME_PIXELS)


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
    page = render_page(attach_model(model.trace(text, **settings), model))
    return PageWidget(page, text, height)
