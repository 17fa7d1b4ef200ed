"""OpenDocument text: paragraphs and headings with spans in them."""

import re
from collections.abc import Iterable, Iterator

from headway.documents.footnotes import Look, as_points
from headway.documents.markup import Dialect, Items, Piece, Segment
from headway.documents.office import translate_archive
from headway.documents.range_markers import START, as_pairs
from headway.documents.segments import Counts, Translate
from headway.documents.xml import Node, escaped, tree

ADDRESS = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
SPACES = {ADDRESS.format(kind): kind for kind in ("office", "text", "table")} | {ADDRESS.format("drawing"): "draw"}
PARTS = re.compile(r"content\.xml|styles\.xml")
PARAGRAPHS = ("text:p", "text:h")
PAIRS = ("text:span", "text:a", "text:meta", "text:ruby-base")
BREAKS = ("text:tab", "text:line-break")
SILENT = ("office:annotation", "text:tracked-changes", "text:note-citation")  # what nobody reads as part of the text
STYLE = re.compile(r"<style:style\b[^<>]*[^<>/]>.{0,4000}?</style:style>", re.DOTALL)
RAISED = re.compile(r"""\btext-position\s*=\s*["'](?:super|[1-9])""")
NAME = re.compile(r"""(?:^|[\s:])name\s*=\s*["']([^"']*)""")
STYLE_NAME = re.compile(r"""\bstyle-name\s*=\s*["']([^"']*)""")
RANGE = re.compile(r"(\w+:[\w-]+)-(start|end)")
HOLDS = ("text:note", "draw:frame", "draw:custom-shape", "draw:g", "draw:text-box")  # paragraphs, within a paragraph


def translate_bytes(data: bytes, name: str, translate: Translate) -> tuple[bytes, Counts]:
    return translate_archive(data, name, translate, PARTS, "content.xml", read)


def read(text: str, name: str) -> tuple[list[Piece], Dialect]:
    raised = {found[1] for style in STYLE.findall(text) if RAISED.search(style) and (found := NAME.search(style))}

    def look(piece: Piece) -> Look:
        if piece.name == "text:span":
            style = STYLE_NAME.search(piece.raw)
            return "raised" if style and style[1] in raised else ""
        return "link" if piece.name == "text:a" else ""

    def settled(pieces: Iterable[Piece | Segment]) -> list[Piece]:
        own = [piece for piece in pieces if isinstance(piece, Piece)]
        deep = [piece._replace(inside=settled(piece.inside)) if piece.inside is not None else piece for piece in own]
        return as_points(as_pairs(deep), look, write)

    return settled(between(tree(text, name, SPACES), text)), ODT


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
            yield Piece("kept", raw, said) if said.strip() else Piece("point", raw, *end_of_range(child))


def end_of_range(node: Node) -> tuple[str, str]:
    """Which end, and of what, if it is one: of a comment, of a bookmark."""
    kind, name = RANGE.fullmatch(node.name), NAME.search(node.attributes)
    if not name or not (kind or node.name == "office:annotation"):
        return "", ""
    return (kind[2] if kind else START), f"{kind[1] if kind else node.name} {name[1]}"


def words(node: Node) -> Iterator[str]:
    yield node.said
    for child in node.children:
        yield from words(child)
