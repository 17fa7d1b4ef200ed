"""Word documents (.docx). Runs of one formatting become the inline tags of a paragraph.

A paragraph whose text changes is rewritten from its runs: adjacent runs of equal formatting are merged, and marks of
the spell checker are dropped. Everything else, and every paragraph that does not change, keeps its exact bytes."""

import re
from collections.abc import Iterator

from headway.documents.footnotes import NoteStyle, collapse_notes
from headway.documents.markup import MarkupFormat, OutputItems, Piece
from headway.documents.office import translate_archive
from headway.documents.range_markers import END, START, pair_range_markers
from headway.documents.runs import RUN, merge_runs, write_runs
from headway.documents.segments import DocumentCounts, TranslateSegments
from headway.documents.xml import XmlNode, find_prefix, parse_tree

TRANSITIONAL_NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT_NAMESPACE = "http://purl.oclc.org/ooxml/wordprocessingml/main"
PREFIXES = {TRANSITIONAL_NAMESPACE: "w", STRICT_NAMESPACE: "w"}
TRANSLATED_PARTS = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes)\.xml")

WRAPPER_ELEMENTS = ("w:hyperlink", "w:ins", "w:smartTag", "w:moveTo", "w:dir", "w:bdo", "w:customXml")
DROPPED_ELEMENTS = ("w:proofErr", "w:lastRenderedPageBreak", "w:softHyphen")  # not written again in a changed paragraph
BREAK_ELEMENTS = ("w:tab", "w:br", "w:cr", "w:ptab")
NON_FORMATTING = re.compile(r"<(?:\w+:)?(?:lang|noProof)\b[^<>]*/>|^<[^<>]*>(?=</)</[^<>]*>$|^<[^<>]*/>$")
SUPERSCRIPT = re.compile(r"<(?:\w+:)?vertAlign\b[^<>]*[\"']superscript[\"']")
RANGE = re.compile(r"w:(\w+?)(Start|End)")
ID = re.compile(r"\bid\s*=\s*[\"']([^\"']*)")
FIELD_PARTS = ("begin", "separate", "end", "code")


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    return translate_archive(data, name, translate, TRANSLATED_PARTS, "word/document.xml", parse_docx_part)


def parse_docx_part(text: str, name: str) -> tuple[list[Piece], MarkupFormat]:
    namespace = TRANSITIONAL_NAMESPACE if TRANSITIONAL_NAMESPACE in text else STRICT_NAMESPACE
    part = DocxPart(text, find_prefix(text, namespace))
    return list(part.walk_blocks(parse_tree(text, name, PREFIXES))), MarkupFormat(part.write, merge_runs)


class DocxPart:
    """One XML part of the archive: its text, and its prefix for Word's namespace."""

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
                if child.name == "w:p":
                    yield Piece("break", self.raw_text(child), nested=list(self.paragraph(child)))
                else:
                    yield from self.walk_blocks(child)
                position = child.end
        yield Piece("break", self.text[position : node.end])

    def paragraph(self, node: XmlNode) -> Iterator[Piece]:
        yield Piece("break", self.text[node.start : node.content_start])
        pieces = pair_range_markers(self.merge_fields(list(self.walk_inline(node))))
        yield from collapse_notes(pieces, note_style, self.write)
        yield Piece("break", self.text[node.content_end : node.end])

    def walk_inline(self, node: XmlNode) -> Iterator[Piece]:
        """Runs, and elements around some of them."""
        for child in node.children:
            if child.name == "w:r":
                yield from self.run(child)
            elif child.name in WRAPPER_ELEMENTS and child.content_end > child.content_start:
                yield Piece("open", self.text[child.start : child.content_start], name=child.name)
                yield from self.walk_inline(child)
                yield Piece("close", self.text[child.content_end : child.end], name=child.name)
            elif (
                child.name == "w:sdt"
                and (content := child.find("w:sdtContent"))
                and content.content_end > content.content_start
            ):
                yield Piece("open", self.text[child.start : content.content_start], name=child.name)
                yield from self.walk_inline(content)
                yield Piece("close", self.text[content.content_end : child.end], name=child.name)
            elif child.name == "w:pPr":
                yield Piece("break", self.raw_text(child))
            elif child.name == "w:fldSimple":
                text = "".join(part.text for element in child.find_all("w:t") for part in element.children)
                yield Piece("verbatim" if text.strip() else "standalone", self.raw_text(child), text)
            elif child.name and child.name not in DROPPED_ELEMENTS:
                yield Piece("standalone", self.raw_text(child), *range_end(child))

    def run(self, node: XmlNode) -> Iterator[Piece]:
        """The pieces of a run, each with the run's formatting, so that each can be written on its own."""
        properties = node.find("w:rPr")
        format = strip_non_formatting(self.raw_text(properties)) if properties else ""
        for child in node.children:
            if child.name == "w:t":
                yield Piece("open", "", format, RUN)
                yield from (Piece("text", self.raw_text(part), part.text) for part in child.children)
                yield Piece("close", "", format, RUN)
            elif child.name == "w:noBreakHyphen":
                yield Piece("open", "", format, RUN)
                yield Piece("text", "\u2011", "\u2011")
                yield Piece("close", "", format, RUN)
            elif child.name in BREAK_ELEMENTS:
                yield Piece("break", self.wrap_run(format, self.raw_text(child)))
            elif child.name and child.name not in ("w:rPr", *DROPPED_ELEMENTS):
                yield self.run_object(child, format)

    def run_object(self, node: XmlNode, format: str) -> Piece:
        """Anything else in a run: a picture, a note, part of a field, or a text box with paragraphs of its own."""
        raw = self.wrap_run(format, self.raw_text(node))
        field = field_char_type(node) if node.name == "w:fldChar" else ""
        code = self.text[node.content_start : node.content_end] if node.name == "w:instrText" else ""
        if next(node.find_all("w:p"), None) is None:
            return Piece("standalone", raw, code, field or ("code" if code else ""))
        head, tail = self.wrap_run(format, "\0").split("\0")
        return Piece("standalone", raw, nested=[Piece("break", head), *self.walk_blocks(node), Piece("break", tail)])

    def wrap_run(self, format: str, content: str) -> str:
        return f"<{self.prefix}r>{format}{content}</{self.prefix}r>"

    def merge_fields(self, pieces: list[Piece]) -> list[Piece]:
        """Make a field within one paragraph one verbatim piece; a hyperlink field becomes a pair around its text.

        The parts of a field that spans paragraphs end segments: nothing may move across them."""
        result: list[Piece] = []
        opened: list[int] = []
        for piece in pieces:
            if piece.name == "begin":
                opened.append(len(result))
            result.append(piece)
            if piece.name == "end" and opened:
                start = opened.pop()
                result[start:] = self.merge_field(result[start:])
        return [as_break(piece) if piece.name in FIELD_PARTS else piece for piece in result]

    def merge_field(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces of one field, from begin to end; its visible result follows `separate`."""
        code = "".join(piece.text for piece in pieces if piece.name == "code")
        separate = next((index for index, piece in enumerate(pieces) if piece.name == "separate"), len(pieces) - 1)
        if any(piece.kind == "break" or piece.nested is not None for piece in pieces):
            return [as_break(piece) if piece.kind == "standalone" else piece for piece in pieces]
        if "HYPERLINK" in code and separate < len(pieces) - 1:
            opening = Piece("open", self.write(pieces[: separate + 1]), name="field")
            return [opening, *pieces[separate + 1 : -1], Piece("close", pieces[-1].raw, name="field")]
        text = "".join(piece.text for piece in pieces[separate:] if piece.kind in ("text", "verbatim"))
        return [Piece("verbatim" if text.strip() else "standalone", self.write(pieces), text)]

    def write(self, items: OutputItems) -> str:
        return write_runs(items, self.write_text_run)

    def write_text_run(self, format: str, text: str) -> str:
        return self.wrap_run(format, f'<{self.prefix}t xml:space="preserve">{text}</{self.prefix}t>')


def strip_non_formatting(raw: str) -> str:
    """Run properties without those that do not affect formatting, such as the language, which changes anyway."""
    before = ""
    while before != raw:
        before, raw = raw, NON_FORMATTING.sub("", raw)
    return raw


def note_style(piece: Piece) -> NoteStyle:
    if piece.name == RUN:
        return "superscript" if SUPERSCRIPT.search(piece.text) else ""
    return "link" if piece.name in ("w:hyperlink", "field") else ""


def range_end(node: XmlNode) -> tuple[str, str]:
    """Of a comment or bookmark marker: START or END, and the name of its range; otherwise empty."""
    kind, number = RANGE.fullmatch(node.name), ID.search(node.attributes)
    if not kind or not number:
        return "", ""
    return (START if kind[2] == "Start" else END), f"{kind[1]} {number[1]}"


def as_break(piece: Piece) -> Piece:
    return piece._replace(kind="break", name="")


def field_char_type(node: XmlNode) -> str:
    """The part of a field: begin, separate or end."""
    match = re.search(r"fldCharType\s*=\s*[\"'](\w+)", node.attributes)
    return match[1] if match else ""
