"""A site of files: the page of `headway serve` with recorded texts, for a web space that runs no programs.

    OUT/index.html, whole.js, page.css    the page; index.html lists the texts
    OUT/recorded/1.js, 1-1.js, …          one text each; its large answers are files that are loaded when they are shown
    OUT/variants.js                       the gallery of kinds

Data are scripts that call headwayFile(name, content), since a page that was opened as a file may load scripts, but no
data. Addresses are relative, so the folder works wherever it lies."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.files.atomic import atomic_directory
from headway.inspect.events import trace_events
from headway.inspect.html_page import STATIC_DIR
from headway.inspect.recorded_answers import TracedText, record_answers

LARGE_ANSWER = 50_000  # characters of JSON
EXAMPLE_TEXTS = {
    "en": [
        "A dog runs on the beach.",
        "Two children are playing football in the park.",
        "The woman who reads sits.",
    ],
    "de": ["Ein Hund rennt am Strand.", "Zwei Kinder spielen im Park Fußball.", "Die Frau, die liest, sitzt."],
    "fr": ["Un chien court sur la plage.", "Deux enfants jouent au football dans le parc."],
    "es": ["Un perro corre por la playa.", "Dos niños juegan al fútbol en el parque."],
    "zh": ["一只狗在海滩上奔跑。", "两个孩子在公园里踢足球。"],
}
PROMPTS = ["Once upon a time", "The children went to the park and"]  # for language models to continue


@dataclass(frozen=True)
class SiteText:
    """A text of the site, as one model of it was traced on it."""

    model: str  # its name on the site
    traced: TracedText
    source: str = ""  # languages
    target: str = ""


def write_site(texts: Iterable[SiteText], out: Path, *, overwrite: bool = False) -> int:
    """Into a new or empty directory; with `overwrite`, in place of an older site. Returns how many texts it has."""
    _refuse_other_files(out, overwrite)
    try:
        with atomic_directory(out) as folder:
            for name in ("whole.js", "page.css"):
                shutil.copyfile(STATIC_DIR / name, folder / name)
            variants = json.loads((STATIC_DIR / "variants.json").read_text(encoding="utf-8"))
            _write_script(folder, "variants.js", variants)
            (folder / "recorded").mkdir()
            listed = [_write_text(folder, f"recorded/{number}", text) for number, text in enumerate(texts, 1)]
            (folder / "index.html").write_text(_render_index(listed), encoding="utf-8")
            if not listed:
                raise HeadwayError("there is nothing to show: a site needs at least one text.")
            if out.exists():
                shutil.rmtree(out)
    except OSError as error:
        raise HeadwayError(f"{out} cannot be written: {error.strerror or error}.") from None
    return len(listed)


def is_site(folder: Path) -> bool:
    index = folder / "index.html"
    return index.is_file() and '<script type="application/json" id="site">' in index.read_text("utf-8", "replace")


def _refuse_other_files(out: Path, overwrite: bool) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise HeadwayError(f"{out} is a file. Give --static a directory.")
    if not any(out.iterdir()):
        return
    if not is_site(out):
        raise HeadwayError(f"{out} holds other files, which stay. Give --static a new directory.")
    if not overwrite:
        raise HeadwayError(f"{out} holds a site already. Add --overwrite to replace it, or choose another directory.")


def _write_text(folder: Path, stem: str, text: SiteText) -> dict[str, str]:
    """The entry of the site's list."""
    trace = text.traced.trace
    answers: dict[str, Any] = {}
    files: dict[str, str] = {}
    for name, answer in record_answers(text.traced, text.model).items():
        if len(json.dumps(answer)) < LARGE_ANSWER:
            answers[name] = answer
        else:
            files[name] = f"{stem}-{len(files) + 1}.js"
            _write_script(folder, files[name], answer)
    recorded = {"events": trace_events(trace, text.model), "answers": answers, "files": files}
    _write_script(folder, f"{stem}.js", recorded)
    pair = f"{text.source} {text.target}" if text.source and text.target else ""
    return {"file": f"{stem}.js", "model": text.model, "kind": trace.kind, "pair": pair, "text": trace.text}


def _write_script(folder: Path, name: str, content: Any) -> None:
    packed = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    (folder / name).write_text(f"headwayFile({json.dumps(name)},{packed});\n", encoding="utf-8")


def _render_index(listed: list[dict[str, str]]) -> str:
    data = json.dumps({"texts": listed}, ensure_ascii=False).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<title>Headway</title>\n<link rel="icon" href="data:,">\n<link rel="stylesheet" href="page.css">\n</head>\n'
        '<body>\n<div id="page"></div>\n<noscript><p>This page draws with JavaScript.</p></noscript>\n'
        f'<script type="application/json" id="site">{data}</script>\n<script src="whole.js"></script>\n'
        "</body>\n</html>\n"
    )
