"""PowerPoint presentations (.pptx): the paragraphs of slides, tables, notes, diagrams and charts.

Runs of one formatting become the inline tags of a paragraph, as in .docx; links are part of a run's formatting. Masters
and layouts, whose text is shown while a slide is written, are kept."""

import re
from collections.abc import Iterator

from headway.documents.footnotes import NoteStyle, collapse_notes
from headway.documents.markup import MarkupFormat, OutputItems, Piece
from headway.documents.office import translate_archive
from headway.documents.runs import RUN, merge_runs, write_runs
from headway.documents.segments import DocumentCounts, TranslateSegments
from headway.documents.xml import XmlNode, parse_tree

TRANSITIONAL_NAMESPACE = "http://schemas.openxmlformats.org/drawingml/2006/main"
STRICT_NAMESPACE = "http://purl.oclc.org/ooxml/drawingml/main"
PREFIXES = {TRANSITIONAL_NAMESPACE: "a", STRICT_NAMESPACE: "a"}
TRANSLATED_PARTS = re.compile(
    r"ppt/(slides/slide|notesSlides/notesSlide|diagrams/data|diagrams/drawing|charts/chart)\d*\.xml"
)
TAG_PREFIX = re.compile(r"<((?:[^\s/>:]+:)?)")
# Attributes of run properties that do not affect formatting: the language, which changes anyway, and marks of checkers
NON_FORMATTING = re.compile(r"""\s(?:lang|altLang|dirty|err|noProof|smtClean|smtId|bmk)\s*=\s*(?:"[^"]*"|'[^']*')""")
EMPTY_PROPERTIES = re.compile(r"<[^<>]*rPr\s*(?:/>|>\s*</[^<>]*>)")
SUPERSCRIPT = re.compile(r"""\bbaseline\s*=\s*["'][1-9]""")


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    return translate_archive(data, name, translate, TRANSLATED_PARTS, "ppt/presentation.xml", parse_pptx_part)


def parse_pptx_part(text: str, name: str) -> tuple[list[Piece], MarkupFormat]:
    root = parse_tree(text, name, PREFIXES)
    first = next(root.find_all("a:p"), None)
    prefix = TAG_PREFIX.match(text, first.start) if first else None
    part = PptxPart(text, prefix[1] if prefix else "a:")
    return list(part.walk_blocks(root)), MarkupFormat(part.write, merge_runs)


class PptxPart:
    """One XML part of the archive: its text, and its prefix for DrawingML's namespace."""

    def __init__(self, text: str, prefix: str) -> None:
        self.text = text
        self.prefix = prefix

    def raw_text(self, node: XmlNode) -> str:
        return self.text[node.start : node.end]

    def walk_blocks(self, node: XmlNode) -> Iterator[Piece]:
        """The pieces of an element without text of its own: breaks, and the paragraphs in it."""
        position = node.start
        for child in node.children:
            if child.name and child.content_end > child.content_start:
                yield Piece("break", self.text[position : child.start])
                if child.name == "a:p":
                    yield Piece("break", self.raw_text(child), nested=list(self.paragraph(child)))
                else:
                    yield from self.walk_blocks(child)
                position = child.end
        yield Piece("break", self.text[position : node.end])

    def paragraph(self, node: XmlNode) -> Iterator[Piece]:
        yield Piece("break", self.text[node.start : node.content_start])
        pieces = [piece for child in node.children for piece in self.walk_inline(child)]
        yield from collapse_notes(pieces, note_style, self.write)
        yield Piece("break", self.text[node.content_end : node.end])

    def walk_inline(self, node: XmlNode) -> Iterator[Piece]:
        """The pieces of an element of a paragraph."""
        content = node.find("a:t")
        if node.name == "a:r" and content:
            properties = node.find("a:rPr")
            format = strip_non_formatting(self.raw_text(properties)) if properties else ""
            yield Piece("open", "", format, RUN)
            yield from (Piece("text", self.raw_text(part), part.text) for part in content.children if not part.name)
            yield Piece("close", "", format, RUN)
        elif node.name == "a:fld":
            text = "".join(part.text for part in content.children) if content else ""
            yield Piece("verbatim" if text.strip() else "standalone", self.raw_text(node), text)
        elif node.name in ("a:br", "a:pPr", "a:endParaRPr"):
            yield Piece("break", self.raw_text(node))
        elif node.name and node.name != "a:r":
            yield Piece("standalone", self.raw_text(node))

    def write(self, items: OutputItems) -> str:
        return write_runs(items, self.write_text_run)

    def write_text_run(self, format: str, text: str) -> str:
        prefix = self.prefix
        return f"<{prefix}r>{format}<{prefix}t>{text}</{prefix}t></{prefix}r>"


def strip_non_formatting(raw: str) -> str:
    """Run properties without those that do not affect formatting; "" if none are left."""
    head, tag_end, rest = raw.partition(">")
    stripped = NON_FORMATTING.sub("", head) + tag_end + rest
    return "" if EMPTY_PROPERTIES.fullmatch(stripped) else stripped


def note_style(piece: Piece) -> NoteStyle:
    return "superscript" if piece.name == RUN and SUPERSCRIPT.search(piece.text.partition(">")[0]) else ""
