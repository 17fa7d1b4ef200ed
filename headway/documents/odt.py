"""OpenDocument text: paragraphs and headings with spans in them."""

import re
from collections.abc import Iterator

from headway.documents.office import translate_archive
from headway.documents.pieces import Dialect, Items, Piece
from headway.documents.seam import Counts, Translate
from headway.documents.xml import Node, escaped, tree

ADDRESS = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
SPACES = {ADDRESS.format(kind): kind for kind in ("office", "text", "table")} | {ADDRESS.format("drawing"): "draw"}
PARTS = re.compile(r"content\.xml|styles\.xml")
PARAGRAPHS = ("text:p", "text:h")
PAIRS = ("text:span", "text:a", "text:meta", "text:ruby-base")
BREAKS = ("text:tab", "text:line-break")
SILENT = ("office:annotation", "text:tracked-changes", "text:note-citation")  # what nobody reads as part of the text
HOLDS = ("text:note", "draw:frame", "draw:custom-shape", "draw:g", "draw:text-box")  # paragraphs, within a paragraph


def translate_bytes(data: bytes, name: str, translate: Translate) -> tuple[bytes, Counts]:
    return translate_archive(data, name, translate, PARTS, "content.xml", read)


def read(text: str, name: str) -> tuple[list[Piece], Dialect]:
    return list(between(tree(text, name, SPACES), text)), ODT


def write(items: Items) -> str:
    return "".join(escaped(item) if isinstance(item, str) else item.raw for item in items)


ODT = Dialect(write)


def between(node: Node, text: str) -> Iterator[Piece]:
    """An element that holds no text of its own: breaks, and the paragraphs in it."""
    at = node.start
    for child in node.children:
        if not child.name or child.name in SILENT:
            continue
        yield Piece("break", text[at : child.start])
        if child.name in PARAGRAPHS:
            yield Piece("break", text[child.start : child.inner])
            yield from inside(child, text)
            yield Piece("break", text[child.outer : child.end])
        else:
            yield from between(child, text)
        at = child.end
    yield Piece("break", text[at : node.end])


def inside(node: Node, text: str) -> Iterator[Piece]:
    """A paragraph, or something that stands around a part of one."""
    for child in node.children:
        raw = text[child.start : child.end]
        if not child.name:
            yield Piece("text", raw, child.said)
        elif child.name == "text:s":
            yield Piece("text", raw, " ")
        elif child.name in BREAKS:
            yield Piece("break", raw)
        elif child.name in PAIRS and child.outer > child.inner:
            yield Piece("open", text[child.start : child.inner], name=child.name)
            yield from inside(child, text)
            yield Piece("close", text[child.outer : child.end], name=child.name)
        elif child.name in HOLDS:
            yield Piece("point", raw, inside=list(between(child, text)))
        else:
            said = "" if child.name in SILENT else "".join(words(child))
            yield Piece("kept" if said.strip() else "point", raw, said)


def words(node: Node) -> Iterator[str]:
    yield node.said
    for child in node.children:
        yield from words(child)
