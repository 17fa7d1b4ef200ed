"""OpenDocument text (.odt): paragraphs and headings with inline spans."""

import re
from collections.abc import Iterable, Iterator

from headway.documents.footnotes import NoteStyle, collapse_notes
from headway.documents.markup import MarkupFormat, MarkupSegment, OutputItems, Piece
from headway.documents.office import translate_archive
from headway.documents.range_markers import START, pair_range_markers
from headway.documents.segments import DocumentCounts, TranslateSegments
from headway.documents.xml import XmlNode, escape_xml, parse_tree

NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
PREFIXES = {NAMESPACE.format(name): name for name in ("office", "text", "table")} | {
    NAMESPACE.format("drawing"): "draw"
}
TRANSLATED_PARTS = re.compile(r"content\.xml|styles\.xml")
PARAGRAPHS = ("text:p", "text:h")
INLINE_ELEMENTS = ("text:span", "text:a", "text:meta", "text:ruby-base")
BREAK_ELEMENTS = ("text:tab", "text:line-break")
HIDDEN_ELEMENTS = ("office:annotation", "text:tracked-changes", "text:note-citation")  # not part of the running text
STYLE = re.compile(r"<style:style\b[^<>]*[^<>/]>.{0,4000}?</style:style>", re.DOTALL)
SUPERSCRIPT = re.compile(r"""\btext-position\s*=\s*["'](?:super|[1-9])""")
NAME = re.compile(r"""(?:^|[\s:])name\s*=\s*["']([^"']*)""")
STYLE_NAME = re.compile(r"""\bstyle-name\s*=\s*["']([^"']*)""")
SPACE_COUNT = re.compile(r"""\bc\s*=\s*["'](\d{1,6})["']""")
MIN_COLUMN_SPACES = 3  # of one text:s
RANGE = re.compile(r"(\w+:[\w-]+)-(start|end)")
# Elements inside a paragraph that contain paragraphs:
CONTAINER_ELEMENTS = ("text:note", "draw:frame", "draw:custom-shape", "draw:g", "draw:text-box")


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    return translate_archive(data, name, translate, TRANSLATED_PARTS, "content.xml", parse_odt_part)


def parse_odt_part(text: str, name: str) -> tuple[list[Piece], MarkupFormat]:
    superscript_styles = {
        found[1] for style in STYLE.findall(text) if SUPERSCRIPT.search(style) and (found := NAME.search(style))
    }

    def note_style(piece: Piece) -> NoteStyle:
        if piece.name == "text:span":
            style = STYLE_NAME.search(piece.raw)
            return "superscript" if style and style[1] in superscript_styles else ""
        return "link" if piece.name == "text:a" else ""

    def simplify(parts: Iterable[Piece | MarkupSegment]) -> list[Piece]:
        pieces = [part for part in parts if isinstance(part, Piece)]
        pieces = [
            piece._replace(nested=simplify(piece.nested)) if piece.nested is not None else piece for piece in pieces
        ]
        return collapse_notes(pair_range_markers(pieces), note_style, write_odt)

    return simplify(walk_blocks(parse_tree(text, name, PREFIXES), text)), ODT_FORMAT


def write_odt(items: OutputItems) -> str:
    return "".join(escape_xml(item) if isinstance(item, str) else item.raw for item in items)


ODT_FORMAT = MarkupFormat(write_odt)


def walk_blocks(node: XmlNode, text: str) -> Iterator[Piece]:
    """The pieces of an element without text of its own: breaks, and the paragraphs in it."""
    position = node.start
    for child in node.children:
        if not child.name or child.name in HIDDEN_ELEMENTS:
            continue
        yield Piece("break", text[position : child.start])
        if child.name in PARAGRAPHS:
            yield Piece("break", text[child.start : child.content_start])
            yield from walk_inline(child, text)
            yield Piece("break", text[child.content_end : child.end])
        else:
            yield from walk_blocks(child, text)
        position = child.end
    yield Piece("break", text[position : node.end])


def walk_inline(node: XmlNode, text: str) -> Iterator[Piece]:
    """The pieces of a paragraph, or of an inline element in one."""
    after_space = False
    for child in node.children:
        raw = text[child.start : child.end]
        follows_space = after_space
        after_space = child.name == "text:s" or (not child.name and child.text[-1:].isspace())
        if not child.name:
            yield Piece("text", raw, child.text)
        elif child.name == "text:s":
            yield space_piece(child, raw, follows_space)
        elif child.name in BREAK_ELEMENTS:
            yield Piece("break", raw)
        elif child.name in INLINE_ELEMENTS and child.content_end > child.content_start:
            yield Piece("open", text[child.start : child.content_start], name=child.name)
            yield from walk_inline(child, text)
            yield Piece("close", text[child.content_end : child.end], name=child.name)
        elif child.name in CONTAINER_ELEMENTS:
            yield Piece("standalone", raw, nested=list(walk_blocks(child, text)))
        else:
            content = "" if child.name in HIDDEN_ELEMENTS else "".join(iter_text(child))
            yield Piece("verbatim", raw, content) if content.strip() else Piece("standalone", raw, *range_end(child))


def space_piece(node: XmlNode, raw: str, follows_space: bool) -> Piece:
    """A run of spaces. A wide one separates columns, as a tab does; one after a space stays, as a tag does."""
    count = SPACE_COUNT.search(node.attributes)
    size = int(count[1]) if count else 1
    if size >= MIN_COLUMN_SPACES:
        return Piece("break", raw)
    return Piece("standalone", raw) if follows_space else Piece("text", raw, " ")


def range_end(node: XmlNode) -> tuple[str, str]:
    """Of a comment or bookmark marker: START or END, and the name of its range; otherwise empty."""
    kind, name = RANGE.fullmatch(node.name), NAME.search(node.attributes)
    if not name or not (kind or node.name == "office:annotation"):
        return "", ""
    return (kind[2] if kind else START), f"{kind[1] if kind else node.name} {name[1]}"


def iter_text(node: XmlNode) -> Iterator[str]:
    yield node.text
    for child in node.children:
        yield from iter_text(child)
