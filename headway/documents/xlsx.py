"""Excel workbooks (.xlsx): the texts of cells, and of shapes and charts; formulas, numbers and sheet names are kept.

The header cells of a table and the column names in its definition must be equal, so both are translated, or neither: if
formulas or pivot tables refer to columns by name, or two translations would be equal, headers stay as they are."""

import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headway.documents.bilingual import XML_TEXT_FORMAT, apply_edits
from headway.documents.encodings import DecodedText
from headway.documents.markup import MarkupFormat, MarkupSegment, OutputItems, Piece, collect_segments, write_translated
from headway.documents.pptx import parse_pptx_part
from headway.documents.runs import RUN, merge_runs, write_runs
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments
from headway.documents.xml import XmlNode, decode_xml, escape_xml, parse_tree, unescape_xml
from headway.documents.zip_archive import ZipDocument
from headway.errors import HeadwayError

NAMESPACES = {
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main": "x",
    "http://purl.oclc.org/ooxml/spreadsheetml/main": "x",
}
STRING_PARTS = re.compile(r"xl/(sharedStrings|worksheets/sheet\d+)\.xml")
DRAWING_PARTS = re.compile(r"xl/(drawings/drawing|charts/chart)\d*\.xml")
TABLE_PARTS = re.compile(r"xl/tables/table\d*\.xml")
PIVOT_PARTS = re.compile(r"xl/pivotCache/.*\.xml")
STRUCTURED_REFERENCE = re.compile(rb"<(?:\w+:)?(?:f|calculatedColumnFormula|totalsRowFormula)(?:\s[^<>]*)?>[^<]*\[")
COLUMN_NAME = re.compile(r"""(<(?:\w+:)?tableColumn\s(?:[^<>]*\s)?name\s*=\s*)("[^"]*"|'[^']*')""")
TEXT_ELEMENT = re.compile(r"<(?:\w+:)?t(?:\s[^<>]*)?>([^<]*)</")


@dataclass
class CellText:
    """A string of the workbook: <si> of the shared strings, or <is> in a cell."""

    part: str
    start: int  # of its content
    end: int
    raw: str
    text: str
    parts: list[Piece | MarkupSegment]
    format: MarkupFormat
    translated: str = ""  # XML of its content; "" if it does not change


@dataclass
class XlsxWorkbook:
    archive: ZipDocument
    queue: SegmentQueue = field(default_factory=SegmentQueue)
    sources: dict[str, DecodedText] = field(default_factory=dict)  # by part
    cells: list[CellText] = field(default_factory=list)
    drawings: dict[str, tuple[list[Piece | MarkupSegment], MarkupFormat]] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)  # column names, by part

    def read(self) -> None:
        members = {member.filename: member for member in self.archive.members}
        for filename, member in members.items():
            if TABLE_PARTS.fullmatch(filename):
                text = self.decode(filename, self.archive.read_xml(member))
                self.tables[filename] = [read_column_name(found[2]) for found in COLUMN_NAME.finditer(text)]
        strings = {name: self.archive.read_xml(members[name]) for name in members if STRING_PARTS.fullmatch(name)}
        refers_to_columns = any(STRUCTURED_REFERENCE.search(data) for data in strings.values())
        has_pivots = any(PIVOT_PARTS.fullmatch(name) for name in members)
        kept = {name for names in self.tables.values() for name in names} if refers_to_columns or has_pivots else set()
        for filename, data in strings.items():
            if filename == "xl/sharedStrings.xml" or b"inlineStr" in data:
                self.read_cells(filename, self.decode(filename, data), kept)
        for filename, member in members.items():
            if DRAWING_PARTS.fullmatch(filename):
                text = self.decode(filename, self.archive.read_xml(member))
                pieces, markup_format = parse_pptx_part(text, f"{self.archive.name}: {filename}")
                self.drawings[filename] = collect_segments(pieces, self.queue, markup_format), markup_format

    def decode(self, filename: str, data: bytes) -> str:
        self.sources[filename] = decode_xml(data, f"{self.archive.name}: {filename}")
        return self.sources[filename].text

    def read_cells(self, filename: str, text: str, kept: set[str]) -> None:
        root = parse_tree(text, f"{self.archive.name}: {filename}", NAMESPACES)
        for node in root.find_all("x:si", "x:is"):
            content = "".join(part.text for element in visible_texts(node) for part in element.children)
            if content not in kept:
                pieces, markup_format = parse_cell(node, text)
                parts = collect_segments(pieces, self.queue, markup_format)
                raw = text[node.content_start : node.content_end]
                self.cells.append(
                    CellText(filename, node.content_start, node.content_end, raw, content, parts, markup_format)
                )

    def translate(self) -> None:
        for cell in self.cells:
            new, changed = write_translated(cell.parts, self.queue, cell.format)
            cell.translated = new if changed else ""
        headers = {cell.text: cell for cell in self.cells}
        for names in self.tables.values():  # columns of a table that would get one name keep theirs
            while clashing := find_clashes(names, headers):
                for cell in self.cells:
                    if cell.text in clashing:
                        cell.translated = ""

    def write(self) -> bytes:
        edits: dict[str, list[tuple[int, int, str]]] = {}
        for cell in self.cells:
            if cell.translated:
                edits.setdefault(cell.part, []).append((cell.start, cell.end, cell.translated))
        headers = {cell.text: cell for cell in self.cells}
        for filename in self.tables:
            for found in COLUMN_NAME.finditer(self.sources[filename].text):
                new = translated_name(read_column_name(found[2]), headers)
                if new != read_column_name(found[2]):
                    edits.setdefault(filename, []).append((*found.span(2), write_column_name(new)))

        def new_content(member: zipfile.ZipInfo) -> bytes | None:
            filename = member.filename
            if filename in edits:
                text = apply_edits(self.sources[filename].text, edits[filename])
            elif filename in self.drawings:
                text, changed = write_translated(self.drawings[filename][0], self.queue, self.drawings[filename][1])
                if not changed:
                    return None
            else:
                return None
            return DecodedText(text, self.sources[filename].encoding).encode("xmlcharrefreplace")

        return self.archive.rewrite(new_content)


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    archive = ZipDocument(data, name)
    if "xl/workbook.xml" not in [member.filename for member in archive.members]:
        raise HeadwayError(f"{name} is not a valid .xlsx document: it has no xl/workbook.xml.")
    workbook = XlsxWorkbook(archive)
    workbook.read()
    workbook.queue.translate_all(translate)
    workbook.translate()
    return workbook.write(), workbook.queue.counts()


def visible_texts(node: XmlNode) -> Iterator[XmlNode]:
    """The <t> elements of a string, without those of phonetic guides."""
    for child in node.children:
        if child.name == "x:t":
            yield child
        elif child.name == "x:r":
            yield from (element for element in child.children if element.name == "x:t")


def parse_cell(node: XmlNode, text: str) -> tuple[list[Piece], MarkupFormat]:
    """The pieces of a string: of one formatting, or of runs. A line end separates segments."""
    elements = [child for child in node.children if child.name]
    if len(elements) == 1 and elements[0].name == "x:t":
        (element,) = elements
        lines = [piece for child in element.children for piece in split_lines(child, text)]
        opening = Piece("break", text[node.content_start : element.content_start])
        return [opening, *lines, Piece("break", text[element.content_end : node.content_end])], XML_TEXT_FORMAT
    runs = CellRuns(text, find_prefix(node, text))
    return [piece for child in elements for piece in runs.read(child)], MarkupFormat(runs.write, merge_runs)


def split_lines(node: XmlNode, text: str) -> Iterator[Piece]:
    for line in re.split(r"(\r?\n)", text[node.start : node.end]):
        if line:
            yield Piece("text", line, unescape_xml(line)) if line.strip("\r\n") else Piece("break", line)


def find_prefix(node: XmlNode, text: str) -> str:
    """The prefix that a part uses for the namespace of spreadsheets: "x:", or none."""
    name = re.split(r"[\s/>]", text[node.start + 1 : node.content_start], maxsplit=1)[0]
    return name[: name.find(":") + 1]


@dataclass(frozen=True)
class CellRuns:
    """Strings of several formattings: <r> elements, each with its properties and a <t>."""

    text: str
    prefix: str

    def read(self, node: XmlNode) -> Iterator[Piece]:
        raw = self.text[node.start : node.end]
        content = node if node.name == "x:t" else node.find("x:t")
        if node.name not in ("x:r", "x:t") or content is None:
            yield Piece("standalone", raw)  # a phonetic guide
            return
        properties = node.find("x:rPr")
        format = self.text[properties.start : properties.end] if properties else ""
        for child in content.children:
            for piece in split_lines(child, self.text):
                if piece.kind == "break":
                    yield Piece("break", self.write_run(format, piece.raw))
                else:
                    yield from (Piece("open", "", format, RUN), piece, Piece("close", "", format, RUN))

    def write(self, items: OutputItems) -> str:
        return write_runs(items, self.write_run)

    def write_run(self, format: str, text: str) -> str:
        prefix = self.prefix
        return f'<{prefix}r>{format}<{prefix}t xml:space="preserve">{text}</{prefix}t></{prefix}r>'


# ---- column names of tables


def read_column_name(quoted: str) -> str:
    return unescape_xml(quoted[1:-1]).replace("_x000a_", "\n")


def write_column_name(name: str) -> str:
    escaped = escape_xml(name).replace('"', "&quot;").replace("\r", "").replace("\n", "_x000a_")
    return f'"{escaped}"'


def translated_name(name: str, headers: Mapping[str, CellText]) -> str:
    """The column name that fits its header cell."""
    cell = headers.get(name)
    if cell is None or not cell.translated:
        return name
    return unescape_xml("".join(TEXT_ELEMENT.findall(cell.translated)))


def find_clashes(names: Sequence[str], headers: Mapping[str, CellText]) -> set[str]:
    """Translated columns of a table whose new name another one has, too."""
    new_names = {name: translated_name(name, headers).casefold() for name in names}
    counts = Counter(new_names.values())
    return {name for name in names if counts[new_names[name]] > 1 and translated_name(name, headers) != name}
